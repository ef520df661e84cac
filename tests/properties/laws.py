"""Properties ("laws") of every fit and prediction, for any model, data and container.

A law is a generator of complaints about a :class:`Subject`; one that yields nothing holds. ``examine`` fits a case and
asks all laws that fit it.
"""

import copy
import linecache
import pickle
import re
import signal
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from cases import SPARSE, contain, contain_y, fit_case, make_base, make_data, make_ribbon, said_of
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import skribbon
from skribbon.exceptions import LeverageWarning, UndeterminedDirectionWarning
from skribbon.inspection import coefficients

SECONDS = 20  # for one case; most take a tenth of one
COEFFICIENTS = ("estimate", "std_error", "conf_low", "conf_high")
LEVELS = (0.5, 0.8, 0.9, 0.99)
QUANTILES = (0.005, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.995)
PACKAGE = str(Path(skribbon.__file__).parent)
ACCIDENTS = re.compile(
    r"could not be broadcast|not aligned|mismatch in its core dimension|contains NaN|contains infinity|out of bounds|"
    r"cannot reshape|setting an array element|object is not|has no attribute|unexpected keyword|must be real number|"
    r"operands|NoneType|singular matrix|did not converge|array must not contain infs|unsupported operand",
    re.IGNORECASE,
)
# closed form, or solved to the last digits for any order of rows and columns
CONVEX = (
    *("LinearRegression", "Ridge", "HuberRegressor", "PoissonRegressor", "GammaRegressor", "TweedieRegressor"),
    *("LogisticRegression", "ElasticNet", "Lasso"),
)
DENSE_CURVATURE = ("auto", "hessian", "ggn", "fisher")
SHORT = 0.25  # mean gradient, in its standard errors, of a base model that stopped before its minimum
TREES = 400  # rows from which the noise is also sought by trees, over folds that are dealt out by row number
LOCATION = ("LinearRegression", "Ridge", "RidgeCV", "BayesianRidge", "ElasticNet", "Lasso", "HuberRegressor")


class Hang(BaseException):
    """A case took too long; no ``except Exception`` on the way catches it."""


class DoesNotApply(Exception):
    """The law does not apply to this case."""


@dataclass(frozen=True)
class Failure:
    """A law that did not hold: its name, what happened in words that do not depend on the numbers, and the numbers."""

    law: str
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of a case: "fitted", "refused" by a clear error, "diverged" base model, or "failed" to fit."""

    status: str
    failures: tuple = ()
    laws: tuple = ()  # names of the laws that applied


# ---------------------------------------------------------------------- the time, the warnings and the errors of a case
@contextmanager
def time_limit(seconds=SECONDS):
    """Raise Hang in the main thread after the given seconds of processor time."""

    def over(signum, frame):
        place = [f"{Path(f.filename).name}:{f.name}" for f in traceback.extract_stack(frame) if PACKAGE in f.filename]
        raise Hang(place[-1] if place else "outside the package")

    # processor time, because a busy machine is not a fault; and a much larger real time, to catch deadlocks
    timers = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), (signal.ITIMER_REAL, signal.SIGALRM, 10 * seconds))
    before = [signal.signal(number, over) for _, number, _ in timers]
    for timer, _, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def place_of(error):
    """Innermost frame inside the package, as file:function."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if PACKAGE in f.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "outside the package"


def is_clear(error):
    """Whether the package or scikit-learn raised an error on purpose, with an explanation."""
    wanted = isinstance(error, ValueError | TypeError | MemoryError) and not isinstance(
        error, np.linalg.LinAlgError | NotFittedError | UnicodeError
    )
    last = traceback.extract_tb(error.__traceback__)[-1]
    on_purpose = (PACKAGE in last.filename or "sklearn" in last.filename) and linecache.getline(
        last.filename, last.lineno
    ).strip().startswith("raise")
    return wanted and on_purpose and len(str(error)) >= 20 and not ACCIDENTS.search(str(error))


def in_words(text):
    """A message without its numbers, so that equal faults have equal names."""
    text = re.sub(r"0x[0-9a-f]+|[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", str(text).split("\n")[0])
    return text[:100]


@contextmanager
def quiet(found):
    """Collect RuntimeWarnings raised in the package; silence all others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for w in caught:
        if issubclass(w.category, RuntimeWarning) and PACKAGE in w.filename:
            kind = f"{Path(w.filename).name}: {in_words(w.message)}"
            found.append(Failure("no RuntimeWarning from the package", kind, f"line {w.lineno}"))


# ---------------------------------------------------------------------- the subject of the laws
class Subject:
    """A fitted Ribbon with its case, its data and its predictions, each made once from a fresh container."""

    def __init__(self, case, data, ribbon):
        self.case, self.data, self.ribbon = case, data, ribbon
        self._known = {}

    @property
    def rows(self):
        """The rows to predict, in the container of the case."""
        return contain(self.data.rows, self.data.rows_text, self.case.container)

    @property
    def fitted(self):
        """The Ribbon itself, also inside a RibbonCV."""
        return self.ribbon if self.case.cv is None else self.ribbon.estimator_

    def __call__(self, method, *args, **kwargs):
        key = (method, repr(args), repr(kwargs))
        if key not in self._known:
            self._known[key] = getattr(self.ribbon, method)(self.rows, *args, **kwargs)
        return self._known[key]

    def cdf(self, y):
        """Predictive distribution function of every row at several y, (m, k), in one call."""
        k = y.shape[1]
        text = None if self.data.rows_text is None else np.repeat(self.data.rows_text, k)
        rows = contain(np.repeat(self.data.rows, k, axis=0), text, self.case.container)
        return self.ribbon.predictive_cdf(rows, y.ravel()).reshape(y.shape)

    @cached_property
    def base(self):
        """Predictions of the base model."""
        method = "predict_proba" if self.case.is_classifier else "predict"
        return np.asarray(getattr(self.fitted.estimator_, method)(self.rows), dtype=float)

    @cached_property
    def sane(self):
        """Rows (m,) at which the base model predicts finite numbers."""
        return np.isfinite(self.base.reshape(len(self.data.rows), -1)).all(axis=1)

    @cached_property
    def rounding(self):
        """Size (m,) of terms that cancel in a prediction, sums of |x_j theta_j|, for models with coefficients."""
        leaf, Z = self.fitted.estimator_, self.rows
        if self.case.target != "none":  # on another scale than the predictions
            return np.zeros(len(self.data.rows))
        while not hasattr(leaf, "coef_"):
            if isinstance(leaf, Pipeline):
                leaf, Z = leaf[-1], leaf[:-1].transform(Z)
            elif isinstance(leaf, FrozenEstimator):
                leaf = leaf.estimator
            else:
                return np.zeros(len(self.data.rows))
        Z = Z.toarray() if sparse.issparse(Z) else np.asarray(Z, dtype=float)
        terms = np.abs(Z) @ np.abs(np.atleast_2d(leaf.coef_)).T + np.abs(leaf.intercept_)
        return terms.max(axis=1)

    @cached_property
    def eps(self):
        """Rounding unit of what the base model sees: float32 models compute in float32."""
        return 1e-6 if self.case.container == "float32" else 1e-14

    def has_law(self, *kinds):
        return self.case.target == "none" and kind_of_law(self.case) in kinds


def kind_of_law(case):
    """The observation law: "location", "counts", "other" families, or "labels"."""
    if case.is_classifier:
        return "labels"
    power = {"PoissonRegressor": 1, "GammaRegressor": 2}.get(case.model, case.params.get("power", 0))
    power = {"poisson": 1, "gamma": 2}.get(case.params.get("loss"), power)
    log_link = case.params.get("link") == "log"
    return "counts" if power == 1 else "other" if power or log_link else "location"


def differs(a, b, scale, rtol):
    """Largest difference in units of what is allowed, rtol * scale; equal infinities do not differ."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape:
        return np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        allowed = np.broadcast_to(rtol * np.asarray(scale, dtype=float), gap.shape)
        ratio = np.where(gap == 0, 0.0, gap / np.maximum(allowed, 1e-300))
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    return float(ratio.max(initial=0.0))


# ---------------------------------------------------------------------- 2: finite in, no NaN out
def regressor_outputs(s):
    yield "predict", s("predict")
    for kind in ("prediction", "confidence"):
        yield f"predict_interval {kind}", s("predict_interval", LEVELS, kind=kind)
        yield f"predict_quantiles {kind}", s("predict_quantiles", QUANTILES, kind=kind)
        yield f"predict_samples {kind}", s("predict_samples", 7, kind=kind, random_state=0).T
    for kind in ("total", "epistemic", "aleatoric"):
        yield f"predict_std {kind}", s("predict_std", kind=kind)
    yield "predict_frame", s("predict_frame").to_numpy()
    y = s.data.y[np.arange(len(s.data.rows)) % s.case.n]
    yield "log_density", s("log_density", y)
    yield "predictive_cdf", s("predictive_cdf", y)


def classifier_outputs(s):
    yield "predict_proba", s("predict_proba")
    yield "predict_log_proba", s("predict_log_proba")
    yield "predict_proba_interval", s("predict_proba_interval", LEVELS)
    yield "predict_proba_samples", s("predict_proba_samples", 7, random_state=0).transpose(1, 0, 2)
    if hasattr(s.ribbon, "decision_function"):
        yield "decision_function", s("decision_function")
    yield "predict_frame", s("predict_frame").drop(columns="prediction").to_numpy()


def never_nan(s):
    for name, values in (classifier_outputs if s.case.is_classifier else regressor_outputs)(s):
        bad = np.isnan(values.reshape(len(values), -1)).any(axis=1) & s.sane
        if bad.any():
            yield f"{name} is NaN", f"at rows {np.flatnonzero(bad).tolist()}, where the base predicts {s.base[bad][0]}"


def shapes_are_as_documented(s):
    m, n_levels = len(s.data.rows), len(LEVELS)
    if s.case.is_classifier:
        k = len(s.ribbon.classes_)
        shapes = {
            "predict": (s("predict"), (m,)),
            "predict_proba": (s("predict_proba"), (m, k)),
            "predict_proba_interval": (s("predict_proba_interval", LEVELS), (m, k, 2, n_levels)),
            "predict_proba_samples": (s("predict_proba_samples", 7, random_state=0), (7, m, k)),
        }
    else:
        shapes = {
            "predict": (s("predict"), (m,)),
            "predict_std": (s("predict_std"), (m,)),
            "predict_interval": (s("predict_interval", LEVELS, kind="prediction"), (m, 2, n_levels)),
            "predict_quantiles": (s("predict_quantiles", QUANTILES), (m, len(QUANTILES))),
            "predict_samples": (s("predict_samples", 7, kind="prediction", random_state=0), (7, m)),
        }
    for name, (values, shape) in shapes.items():
        if values.shape != shape:
            yield f"{name} has another shape", f"{values.shape}, not {shape}"


def predict_is_the_base_model(s):
    if not np.array_equal(s("predict")[s.sane], s.base[s.sane]):
        yield "predict is not what the base model predicts", f"{s('predict')[s.sane]} {s.base[s.sane]}"


def weights_are_frequencies(s):
    """Weights that sum to one say that there was one observation; whoever means shares must learn of it.

    A model that goes through its rows has no noise to recognise, but a guess, or what its solver leaves, and one that
    stopped on its way may stop anywhere; a penalty that is as large as before then beats the smaller weights.
    """
    if s.case.weights != "sum_to_one" or s.case.is_classifier or "weight_type" in s.case.options:
        raise DoesNotApply
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_case(s.case, s.data)
    with warnings.catch_warnings(record=True) as of_plain:
        warnings.simplefilter("always")
        plain = _twin(replace(s.case, weights="none"), replace(s.data, weight=None))
    plain = plain if s.case.cv is None else plain.estimator_
    dispersion, expected = (float(np.max(r.noise_.dispersion_)) for r in (s.fitted, plain))
    told = any("weight" in str(w.message) for w in caught)
    guessed = any(issubclass(w.category, LeverageWarning) for w in of_plain) or plain.stationarity_ > SHORT
    if guessed or expected < (1e-6 * np.abs(s.fitted.model_.encode_target(s.data.y)).max()) ** 2:
        raise DoesNotApply
    if not told and not expected / 100 <= dispersion <= 100 * expected:
        yield "weights that sum to one change the noise beyond recognition, silently", f"{dispersion} {expected}"


def std_is_not_negative(s):
    total, parts = s("predict_std"), [s("predict_std", kind=kind) for kind in ("epistemic", "aleatoric")]
    if any((part < 0).any() for part in [total, *parts]):
        yield "a standard deviation is negative", f"{[part.min() for part in [total, *parts]]}"
    with np.errstate(over="ignore"):
        gap = differs(total, np.hypot(*parts), np.abs(total), 1e-6)
    if s.has_law("location") and gap > 1:
        yield "total std is not the root of the parts' squares", f"{gap:.3g} times 1e-6"


def attributes_are_numbers(s):
    ribbon = s.fitted
    for name in ("covariance_", "effective_parameters_", "stationarity_", "n_observations_"):
        if np.isnan(np.asarray(getattr(ribbon, name, 0.0), dtype=float)).any():
            yield f"{name} is NaN", ""
    if not s.case.is_classifier and np.isnan(np.asarray(ribbon.noise_.dispersion_, dtype=float)).any():
        yield "noise_.dispersion_ is NaN", ""
    if s.case.options.get("store_loo"):
        for name in ("loo_score_",) if s.case.is_classifier else ("loo_score_", "loo_residuals_"):
            if np.isnan(np.asarray(getattr(ribbon, name), dtype=float)).any():
                yield f"{name} is NaN", ""


def coefficients_are_numbers(s):
    """The table of coefficients: an estimate within its interval, whatever the model; or words why there is none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            table = coefficients(s.ribbon)
        except Exception as error:
            if is_clear(error):
                raise DoesNotApply from error
            raise
    if any(issubclass(w.category, UndeterminedDirectionWarning) for w in caught):
        table = table[~np.isnan(table["std_error"])]
    estimate, std_error, low, high = (table[name].to_numpy() for name in COEFFICIENTS)
    if np.isnan([estimate, std_error, low, high]).any() or (std_error < 0).any():
        yield "a coefficient, its standard error or its interval is NaN or negative", f"{table[list(COEFFICIENTS)]}"
    elif not ((low <= estimate) & (estimate <= high)).all():
        yield "a coefficient lies outside its interval", f"{table[list(COEFFICIENTS)]}"


def cv_results_are_numbers(s):
    """Scores and candidates are numbers; alpha and temperature are those of the Ribbon and of one candidate."""
    if s.case.cv is None:
        raise DoesNotApply
    spread = [name for name in s.ribbon.cv_results_ if name.startswith("std_")]  # of infinite scores it is undefined
    for name, values in s.ribbon.cv_results_.items():
        if name not in spread and np.isnan(np.asarray(values, dtype=float)).any():
            yield f"cv_results_[{in_words(name)}] is NaN", f"{np.asarray(values)[:5]}"
    if np.isnan(s.ribbon.best_score_) or not s.ribbon.alpha_ > 0:
        yield "best_score_ is NaN or alpha_ is not positive", f"{s.ribbon.best_score_}, {s.ribbon.alpha_}"
    if s.ribbon.alpha_ != s.fitted.alpha:
        yield "alpha_ is not that of estimator_", f"{s.ribbon.alpha_}, {s.fitted.alpha}"
    if not s.case.is_classifier:
        return
    among, stated = s.ribbon.cv_results_["temperature"], s.case.options.get("temperature", "auto")
    own = among[s.ribbon.cv_results_["alpha"] == s.ribbon.alpha_]
    if s.ribbon.temperature_ != s.fitted.temperature_ or s.ribbon.temperature_ not in own:
        yield "temperature_ is not that of estimator_, or not that of alpha_", f"{s.ribbon.temperature_}, {own}"
    if stated != "auto" and (among != stated).any():
        yield "a temperature that was stated is not kept", f"{stated}, {among}"


def law_is_what_was_asked_for(s):
    """A law has a name; "auto" is normal wherever the noise is stated, and of every family but additive noise."""
    asked, noise, name = s.case.options.get("law", "auto"), s.case.options.get("noise", "auto"), s.fitted.law_.name
    if name not in ("normal", "student", "empirical"):
        yield "law_ has no name", f"{name!r}"
    if asked not in ("auto", name):
        yield "law_ is not the law that was asked for", f"{asked!r}, {name!r}"
    stated = noise not in ("auto", "heteroskedastic") or kind_of_law(s.case) != "location"
    if asked == "auto" and stated and name != "normal":
        yield "law='auto' is not normal although the noise is stated", f"{noise!r}, {name!r}"


def temperature_divides_logits(s):
    """A temperature divides the logits of predictions; only one below one divides those of intervals and draws.

    Of two classes, the average moves towards one half as the temperature rises, whatever the variance: E z g(z) has the
    sign of the mean of a normal z for every even g > 0, here the slope of the sigmoid.
    """
    if s.case.options.get("predictive", "gaussian") != "gaussian":
        raise DoesNotApply
    latent = s.fitted.predict_distribution(s.rows).latent
    if (np.abs(latent.f[s.sane]) > 1e8).any() or (latent.covariance[s.sane] > 1e16).any():
        raise DoesNotApply  # differences of such logits are rounding
    two, scaling = len(s.ribbon.classes_) == 2, s.fitted.scaling_
    cold, one, hot = (s.fitted.with_alpha(s.fitted.alpha, T) for T in (0.5, 1.0, 2.0))
    P = [ribbon.predict_proba(s.rows)[s.sane].max(axis=1) for ribbon in (cold, one, hot)]
    if two and ((P[1] > P[0] + 1e-7) | (P[2] > P[1] + 1e-7)).any():
        yield "a higher temperature makes the classifier surer", f"{P}"
    quantiles, draws = _quantiles(one, s), _draws(one, s)
    stated = (0.5, 0.0, cold), (2.0, 0.0, hot), (scaling.temperature, scaling.bias, s.fitted)
    for T, bias, ribbon in stated:
        T, bias = (
            (T, np.broadcast_to(bias, len(s.ribbon.classes_))) if T < 1 else (1.0, np.zeros(len(s.ribbon.classes_)))
        )
        if two or T == 1:
            gap = _logit_gap(_logit(_quantiles(ribbon, s)), _logit(quantiles), T, (2 * bias)[:, None] if two else 0.0)
            if gap > 1:
                yield f"quantiles have other logits than those at temperature {T:g}", f"{gap:.3g} times 1e-6"
        leader = draws.argmax(axis=-1, keepdims=True)
        found, expected = (_log_odds(p, leader) for p in (_draws(ribbon, s), draws))
        if (gap := _logit_gap(found, expected, T, bias - bias[leader])) > 1:
            yield f"draws have other logits than those at temperature {T:g}", f"{gap:.3g} times 1e-6"
        ends, mean = ribbon.predict_proba_interval(s.rows, LEVELS)[s.sane], ribbon.predict_proba(s.rows)[s.sane]
        low, high = np.moveaxis(_quantiles(ribbon, s).reshape(*mean.shape, 2, -1), 2, 0)
        mean = mean[:, :, None]
        widened = np.stack([np.minimum(low, mean), np.maximum(high, mean)], axis=2)
        if (gap := differs(ends, widened, 1.0, 1e-9)) > 1:
            yield "an interval is not from quantile to quantile, and to the prediction", f"{gap:.3g} times 1e-9"


def _quantiles(ribbon, s):
    """Lower, then upper bounds (m, K, 2 L) of the central intervals, without the prediction."""
    q = np.concatenate([[(1 - level) / 2 for level in LEVELS], [(1 + level) / 2 for level in LEVELS]])
    return ribbon.predict_distribution(s.rows).quantile(q)[s.sane]


def _draws(ribbon, s):
    return ribbon.predict_proba_samples(s.rows, 7, random_state=0)[:, s.sane]


def _log_odds(p, leader):
    """Log odds of all classes against the class ``leader``, (..., 1)."""
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log(np.take_along_axis(p, leader, axis=-1))


def _logit_gap(found, logits, T, bias):
    """Difference of logits from those over a temperature plus a bias, if both are moderate, in units of 1e-6."""
    with np.errstate(invalid="ignore"):
        expected = logits / T + bias
        inside = (np.abs(expected) < 12) & (np.abs(logits) < 12)  # elsewhere one minus a probability has few digits
    return differs(found[inside], expected[inside], 1 + np.abs(expected[inside]), 1e-6)


def probabilities_without_an_average_are_those_of_the_base_model(s):
    """They are the base model's own, to the power of one over the temperature and times the exponential of the bias."""
    scaling = s.fitted.scaling_
    if scaling.averaged:
        raise DoesNotApply
    keep = s.sane & (s.base.min(axis=1) > 1e-6)  # elsewhere one minus a probability has few digits
    expected = s.base[keep] ** (1 / scaling.temperature) * np.exp(scaling.bias)
    expected /= expected.sum(axis=1, keepdims=True)
    size = 1 + 1e3 * s.eps / 1e-7 * s.rounding[keep, None]  # rounding of the logits
    if (gap := differs(s("predict_proba")[keep], expected, size, 1e-7)) > 1:
        yield "probabilities without an average are not those of the base model", f"{gap:.3g} times 1e-7"


def averages_are_as_asked_for(s):
    """A stated temperature has no bias and an average; "auto" has learnt from held-out rows, or is plain."""
    scaling, stated = s.fitted.scaling_, s.case.options.get("temperature", "auto")
    if scaling.exact != (s.case.options.get("averaging") == "exact"):
        yield "averaging is not what was asked for", f"{scaling}"
    if stated != "auto" and (not scaling.averaged or np.any(scaling.bias) or scaling.temperature != stated):
        yield "a stated temperature has a bias or no average", f"{scaling}, {stated}"
    learnt = s.ribbon.held_out_ is not None
    if stated == "auto" and not learnt and (scaling.averaged or np.any(scaling.bias) or scaling.temperature != 1):
        yield "probabilities are not plain although nothing was held out", f"{scaling}"
    if differs(np.sum(scaling.bias), 0.0, 1.0, 1e-9) > 1 or not scaling.temperature > 0:
        yield "the biases do not sum to zero, or the temperature is not positive", f"{scaling}"


def _logit(p):
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def probabilities_are_probabilities(s):
    named = {
        "predict_proba": s("predict_proba"),
        "predict_proba_samples": s("predict_proba_samples", 7, random_state=0),
    }
    for name, p in named.items():
        p = p[..., s.sane, :]
        if ((p < 0) | (p > 1 + 1e-12)).any():
            yield f"{name} leaves [0, 1]", f"{p.min()} {p.max()}"
        if differs(p.sum(axis=-1), np.ones(p.shape[:-1]), 1.0, 1e-9) > 1:
            yield f"rows of {name} do not sum to one", f"{p.sum(axis=-1).ravel()[:4]}"
    labels = s.ribbon.classes_[s("predict_proba").argmax(axis=1)]
    if (np.asarray(s("predict")) != labels)[s.sane].any():
        yield "predict is not the argmax of predict_proba", ""


# ---------------------------------------------------------------------- 3: nested, ordered, centred
def _ordered(values, floor=0.0):
    """Whether values increase along the last axis, up to rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.where(np.isfinite(values), np.abs(values), 0.0).max(axis=-1, keepdims=True)
        return ~(np.diff(values, axis=-1) < -1e-9 * size - np.reshape(floor, (-1, *[1] * (values.ndim - 1))))


def intervals_are_nested(s):
    for kind in ("prediction", "confidence"):
        low, high = np.moveaxis(s("predict_interval", LEVELS, kind=kind), 1, 0)[:, s.sane]
        median = s("predict_quantiles", [0.5], kind=kind)[s.sane]
        chain = np.concatenate([low[:, ::-1], median, high], axis=1)  # .99 .9 .8 .5 median .5 .8 .9 .99
        bad = ~_ordered(chain).all(axis=1)
        if bad.any():
            yield f"{kind} intervals are not nested", f"{chain[bad][0]}"
        quantiles = s("predict_quantiles", QUANTILES, kind=kind)[s.sane]
        bad = ~_ordered(quantiles).all(axis=1)
        if bad.any():
            yield f"{kind} quantiles do not increase", f"{quantiles[bad][0]}"


def confidence_is_centred(s):
    """The median of the mean function is what the base model predicts: the inverse link is monotone."""
    if s.case.target != "none" or s.case.options.get("predictive", "gaussian") != "gaussian":
        raise DoesNotApply
    median, predicted = s("predict_quantiles", [0.5], kind="confidence")[:, 0], s("predict")
    error = 1e6 * s.eps * s.rounding  # of the linear predictor; through exp it is a relative one
    scale = np.abs(predicted) + (error if kind_of_law(s.case) == "location" else error * np.abs(predicted) + 1e-30)
    if (gap := differs(median[s.sane], predicted[s.sane], scale[s.sane], 1e-6)) > 1:
        detail = f"{median[s.sane]} {predicted[s.sane]}, {gap:.3g} times 1e-6"
        yield "median of kind='confidence' is not predict", detail


def confidence_within_prediction(s):
    """With additive noise, prediction intervals are at least as wide, and contain the mean's if the noise is symmetric.

    For counts that are not much over-dispersed, they do up to a count or two. For a skewed family it is not true: an
    observation may be zero with probability .99 although its mean is not.
    """
    if not s.has_law("location", "counts"):
        raise DoesNotApply
    counts, drawn = kind_of_law(s.case) == "counts", s.case.options.get("predictive", "gaussian") != "gaussian"
    mean, new = (s("predict_interval", LEVELS, kind=kind)[s.sane] for kind in ("confidence", "prediction"))
    with np.errstate(invalid="ignore"):
        floor = 1e-9 * (np.abs(mean) + np.abs(new)).sum(axis=1)
        if not counts:
            if s.fitted.law_.name == "empirical" and stats.iqr(s.fitted.law_.z) < 0.5:
                raise DoesNotApply  # a bias or a few outliers make up most of the predicted variance
            inexact = 0.15 if s.fitted.law_.name == "empirical" else 0.0  # few residuals
            if drawn:  # Monte Carlo error: quantiles of few draws vary in both widths by about 1 / sqrt(n_draws)
                inexact = max(inexact, min(1.0, 3.5 / np.sqrt(s.fitted.n_draws)))
            wide = np.diff(new, axis=1)[:, 0] + floor
            bad = (1 - inexact) * np.diff(mean, axis=1)[:, 0] > wide
            if bad.any():
                row, level = np.argwhere(bad)[0]
                yield "confidence interval wider than prediction", f"{mean[row, :, level]} {new[row, :, level]}"
        if drawn or s.fitted.law_.name == "empirical":
            return
        if counts:
            dispersion = float(np.max(s.fitted.noise_.dispersion_))
            if s.case.params.get("link") == "identity" or not dispersion <= 2 or _varies(s.case):
                raise DoesNotApply
            floor = np.where(mean[:, 1] > 1e12, np.inf, floor + max(1.0, dispersion))  # larger counts are one to floats
        bad = (mean[:, 0] < new[:, 0] - floor) | (mean[:, 1] > new[:, 1] + floor)
    if bad.any():
        row, level = np.argwhere(bad)[0]
        yield "confidence interval sticks out of the prediction interval", f"{mean[row, :, level]} {new[row, :, level]}"


def _varies(case):
    """Whether the noise differs from row to row."""
    return case.options.get("noise") == "heteroskedastic"


def proba_intervals_are_nested(s):
    low, high = np.moveaxis(s("predict_proba_interval", LEVELS), 2, 0)[:, s.sane]  # (m, K, L)
    chain = np.concatenate([low[..., ::-1], high], axis=-1)
    bad = ~_ordered(chain).all(axis=(1, 2))
    if bad.any():
        yield "probability intervals are not nested", f"{chain[bad][0]}"
    if ((chain < 0) | (chain > 1 + 1e-12)).any():
        yield "probability intervals leave [0, 1]", f"{chain.min()} {chain.max()}"
    mean = s("predict_proba")[s.sane][..., None]
    if ((mean < low - 1e-12) | (mean > high + 1e-12)).any():
        yield "a probability lies outside its interval", f"{mean[..., 0]}"


# ---------------------------------------------------------------------- 4: distribution functions
def cdf_inverts_quantiles(s):
    """q lies between the cdf just below and just above quantile(q): for continuous laws both are q."""
    q, y = np.array(QUANTILES), s("predict_quantiles", QUANTILES)
    usable = s.sane[:, None] & np.isfinite(y) & (np.abs(y) < 1e250)
    if not usable.any():
        raise DoesNotApply
    y = np.where(usable, y, s.data.y.max())
    width = 1e-300 + 4e-9 * np.abs(y) + 10 * s.eps * s.rounding[:, None]
    counts = s.has_law("counts") & (np.abs(y) < 1e8)  # larger ones are no longer told apart
    exact = counts & (np.abs(y - np.rint(y)) < 1e-6)  # the cdf of unrounded rates may change within a last digit
    above = s.cdf(np.where(exact, y, y + width))
    # with few groups, quantiles are a fixed point in tables that are off by 0.002 between their rows
    tabulated = s.fitted.n_groups_ is not None and getattr(getattr(s.fitted, "law_", None), "name", "") == "empirical"
    error = 2e-3 if tabulated else 1e-6
    bad = usable & (above < q - error)
    if bad.any():
        i, k = np.argwhere(bad)[0]
        yield "cdf(quantile(q)) < q", f"q={q[k]}: quantile {y[i, k]}, cdf {above[i, k]}"
    inside = usable & (y != 0)  # nothing lies below the end of a support
    below = s.cdf(np.where(inside, y - np.where(counts, 0.5, width), s.data.y.max()))
    bad = inside & (below > q + error)
    if bad.any():
        i, k = np.argwhere(bad)[0]
        yield "cdf just below quantile(q) > q", f"q={q[k]}: quantile {y[i, k]}, cdf {below[i, k]}"


def cdf_increases(s):
    grid = np.linspace(s.data.y.min(), s.data.y.max(), 5)
    values = s.cdf(np.tile(grid, (len(s.data.rows), 1)))[s.sane]
    if (np.diff(values, axis=1) < -1e-9).any():
        yield "cdf decreases", f"{values[(np.diff(values, axis=1) < -1e-9).any(axis=1)][0]} at {grid}"
    if ((values < 0) | (values > 1 + 1e-12)).any():
        yield "cdf leaves [0, 1]", f"{values.min()} {values.max()}"


def distribution_agrees(s):
    """``predict_distribution`` agrees with the predict methods."""
    if not hasattr(s.ribbon, "predict_distribution"):
        raise DoesNotApply
    for kind in ("prediction", "confidence"):
        law = s("predict_distribution", kind=kind)
        mean, std, var = (np.asarray(getattr(law, name)(), dtype=float)[s.sane] for name in ("mean", "std", "var"))
        if np.isnan(mean).any() or np.isnan(std).any() or (std < 0).any():
            yield f"{kind}: mean or std is NaN or negative", f"{mean} {std}"
        with np.errstate(over="ignore"):
            if differs(var, std**2, np.abs(var), 1e-6) > 1:
                yield f"{kind}: var is not the square of std", f"{var} {std}"
        interval, expected = law.interval(0.9), s("predict_interval", 0.9, kind=kind)
        width = np.abs(expected).max(axis=1, keepdims=True)[s.sane]
        if differs(interval[s.sane], expected[s.sane], width, 1e-8) > 1:
            yield f"{kind}: interval(level) is not predict_interval", f"{interval[s.sane][0]} {expected[s.sane][0]}"
        expected = s("predict_quantiles", [0.25], kind=kind)[:, 0]
        if differs(law.quantile(0.25)[s.sane], expected[s.sane], width[:, 0], 1e-8) > 1:
            yield f"{kind}: quantile(q) is not predict_quantiles", ""
        sample = law.sample(5, random_state=0)
        if sample.shape != (5, len(s.data.rows)) or np.isnan(sample[:, s.sane]).any():
            yield f"{kind}: sample has NaN or another shape", f"{sample.shape}"
        if not np.array_equal(sample, law.sample(5, random_state=0), equal_nan=True):
            yield f"{kind}: sample is not reproducible", ""
    y = s.data.y[np.arange(len(s.data.rows)) % s.case.n]
    law = s("predict_distribution")
    for name, method in (("cdf", "predictive_cdf"), ("logpdf", "log_density")):
        values, expected = getattr(law, name)(y)[s.sane], s(method, y)[s.sane]
        if differs(values, expected, 1 + np.abs(expected), 1e-9) > 1:
            yield f"{name} is not {method}", f"{values} {expected}"
    crps = np.asarray(law.crps(y), dtype=float)[s.sane]
    if np.isnan(crps).any() or (crps < -1e-9 * (np.abs(y).max() + np.abs(s.base[s.sane]).max(initial=0))).any():
        yield "crps is NaN or negative", f"{crps}"


# ---------------------------------------------------------------------- 9: predict_frame agrees with the methods
def frame_is_the_methods(s):
    frame, rows = s("predict_frame", 0.8), s.rows
    if hasattr(rows, "iloc") and not frame.index.equals(rows.index):
        yield "predict_frame does not keep the index", f"{frame.index}"
    if s.case.is_classifier:
        proba, interval = s("predict_proba"), s("predict_proba_interval", 0.8)
        expected = {}
        for k, label in enumerate(s.ribbon.classes_):
            expected |= {f"proba_{label}": proba[:, k]}
            expected |= {f"lower_{label}": interval[:, k, 0], f"upper_{label}": interval[:, k, 1]}
    else:
        interval = s("predict_interval", 0.8)
        expected = {"prediction": s("predict"), "lower": interval[:, 0], "upper": interval[:, 1]}
        expected |= {f"std_{kind}": s("predict_std", kind=kind) for kind in ("epistemic", "aleatoric")}
    rtol = 1e-5 if s.case.container == "float32" else 1e-9  # the base model may answer in float32
    for name, values in expected.items():
        if name == "prediction" and s.case.container == "float32":
            continue  # a difference of large numbers in float32 has few digits
        if differs(frame[name][s.sane], values[s.sane], np.abs(values[s.sane]), rtol) > 1:
            column = name.split("_")[0] if s.case.is_classifier else name
            yield f"predict_frame: {column} is not the method's", f"{frame[name].to_numpy()} {values}"


# ---------------------------------------------------------------------- twins: two ways to equal numbers
def summary(s, ribbon=None, rows=None):
    """Intervals of a Ribbon at the subject's rows, (m, k), with the size of what they are compared with, (m, 1)."""
    ribbon, rows = s.ribbon if ribbon is None else ribbon, s.rows if rows is None else rows
    if s.case.is_classifier:
        interval = ribbon.predict_proba_interval(_again(s, rows))  # (m, K, 2)
        proba = ribbon.predict_proba(_again(s, rows))
        values = np.concatenate([proba[..., None], interval], axis=2).reshape(len(proba), -1)
        return values, np.ptp(interval, axis=2).max(axis=1)[:, None] + 1e-4
    kinds = [ribbon.predict_interval(_again(s, rows), kind=kind) for kind in ("prediction", "confidence")]
    values = np.concatenate([ribbon.predict(_again(s, rows))[:, None], *kinds], axis=1)
    searched = s.case.options.get("predictive", "gaussian") != "gaussian" or kind_of_law(s.case) != "location"
    digits = 4e-3 if searched else 1e-6  # a quantile that is searched for has nine digits, one in closed form more
    return values, (np.ptp(kinds[0], axis=1) + digits * np.abs(values).max(axis=1))[:, None]


def _again(s, rows):
    """Fresh copy of the rows, because the base model may have overwritten them."""
    return rows.copy() if s.case.prepare == "scaler_inplace" and hasattr(rows, "copy") else rows


def _same(s, other, rtol, what, rows=None, rounding=True):
    """Complaint if another Ribbon's intervals differ from the subject's by more than rtol of their width."""
    mine, size = summary(s)
    theirs, _ = summary(s, other, rows)
    size = size + (1e3 * s.eps / rtol * s.rounding[:, None] if rounding else 0.0)
    keep = s.sane & np.isfinite(mine).all(axis=1)
    if (gap := differs(mine[keep], theirs[keep], size[keep], rtol)) > 1:
        rows = zip(mine[keep], theirs[keep], size[keep], strict=True)
        worst = np.argmax([differs(a, b, c, rtol) for a, b, c in rows])
        yield what, f"{gap:.3g} times the tolerance {rtol:g}: {mine[keep][worst]} and {theirs[keep][worst]}"


def _twin(*arguments, **options):
    """Another fit to compare with; the law does not apply if it is refused."""
    try:
        return fit_case(*arguments, **options)
    except (ValueError, TypeError) as error:
        raise DoesNotApply from error


def _need_equal_bases(s, other, rtol, rows=None):
    """Skip the law if the two base models differ."""
    estimator = other.estimator_ if s.case.cv is None else other.estimator_.estimator_
    method = "predict_proba" if s.case.is_classifier else "predict"
    theirs = np.asarray(getattr(estimator, method)(s.rows if rows is None else rows), dtype=float)
    scale = np.abs(s.base) + (0 if s.base.ndim > 1 else s.rounding)
    if differs(s.base[s.sane], theirs[s.sane], scale[s.sane], rtol) > 1:
        raise DoesNotApply


def _is_comparable(s):
    """Convex, with an optimum that is found to many digits, and nothing drawn or dealt out by row number."""
    options = s.case.options
    return (
        s.case.model in CONVEX
        and s.case.is_tame
        and s.case.cv is None
        and s.case.prepare != "frozen"
        and s.case.container not in ("float32", *SPARSE)
        and options.get("curvature", "auto") in DENSE_CURVATURE
        and options.get("predictive", "gaussian") == "gaussian"
        and s.case.n < TREES
        and s.fitted.stationarity_ < SHORT
        and s.fitted.ribbon_.undetermined.shape[1] == 0  # along the others, the order decides which columns are dropped
        and s.case.rows in ("train", "near", "single")  # far away an exponential magnifies the solver's last digits
    )


def _is_refitted(s):
    """Whether a classifier has learnt from refits without folds."""
    return s.case.is_classifier and s.ribbon.held_out_ is not None and s.ribbon.held_out_.origin == "folds"


def twin_rows(s):
    """The order of the training rows does not matter."""
    if not _is_comparable(s):
        raise DoesNotApply
    order = np.random.default_rng(1).permutation(s.case.n)
    d = s.data
    text, weight, group = (None if a is None else a[order] for a in (d.text, d.weight, d.group))
    other = _twin(s.case, replace(d, X=d.X[order], y=d.y[order], text=text, weight=weight, group=group))
    _need_equal_bases(s, other, 1e-6)
    yield from _same(s, other, 1e-3, "permuted training rows give other intervals")


def twin_columns(s):
    """The order of the columns does not matter."""
    if not _is_comparable(s) or s.case.prepare == "text" or _is_refitted(s):
        raise DoesNotApply  # folds depend on the values in each column
    order = np.random.default_rng(1).permutation(s.case.d)
    other = _twin(s.case, replace(s.data, X=s.data.X[:, order]))
    rows = contain(s.data.rows[:, order], None, s.case.container)
    _need_equal_bases(s, other, 1e-6, contain(s.data.rows[:, order], None, s.case.container))
    yield from _same(s, other, 1e-3, "permuted columns give other intervals", rows)


def twin_weights(s):
    """An integer weight is that many copies of the row, and zero is none."""
    if not _is_comparable(s) or s.case.weights not in ("integers", "zeros") or "weight_type" in s.case.options:
        raise DoesNotApply
    if s.case.prepare.startswith("scaler") and s.case.options.get("damping"):
        raise DoesNotApply  # scalers see no weights, and the damping is in units of the scaled columns
    learnt = s.case.target in ("power", "quantile", "quantile_normal")  # from y without weights
    if learnt or (s.case.target == "standard" and isinstance(s.case.options.get("noise"), float)):
        raise DoesNotApply  # a number is in units of the scaled y
    if _is_refitted(s) or "duplicated" in s.case.x:
        raise DoesNotApply  # folds have equally many rows, not equal weights, and copies may be other observations
    d, times = s.data, s.data.weight.astype(int)
    _, cell, count = np.unique(d.X, axis=0, return_inverse=True, return_counts=True)
    if (count[cell.ravel()] > 1).mean() >= 0.5:
        raise DoesNotApply  # in tables of categories, too
    text, group = (None if a is None else np.repeat(a, times) for a in (d.text, d.group))
    X, y = np.repeat(d.X, times, axis=0), np.repeat(d.y, times)
    repeated = replace(d, X=X, y=y, text=text, group=group, weight=None)
    other = _twin(replace(s.case, weights="none"), repeated)
    _need_equal_bases(s, other, 1e-6)
    yield from _same(s, other, 1e-3, "integer weights are not repeated rows")


def twin_container(s):
    """The container does not matter if the base model receives equal numbers."""
    if s.case.container in ("float64", "float32") or s.case.prepare == "text":
        raise DoesNotApply
    if s.case.container == "int" and np.abs(s.data.rows).max() > 2**52:  # no longer the same numbers
        raise DoesNotApply
    if s.case.y in ("perfect", "constant", "positive_constant"):  # residuals are the solver's rounding
        raise DoesNotApply
    other = _twin(replace(s.case, container="float64", y_container="array"), s.data)
    is_sparse = s.case.container in SPARSE
    if is_sparse and not (s.case.is_tame and s.case.options.get("curvature", "auto") in DENSE_CURVATURE):
        raise DoesNotApply  # another solver of the base model, so another rounding
    _need_equal_bases(s, other, 1e-7 if is_sparse else 1e-9, contain(s.data.rows, None, "float64"))
    if s.case.model.startswith(("MLP", "Autograd")):  # a last digit decides which of its directions are determined
        raise DoesNotApply
    if s.fitted.ribbon_.undetermined.size:  # likewise which of collinear columns stands for both
        raise DoesNotApply
    what = f"{s.case.container} gives other intervals than an array"
    yield from _same(s, other, 1e-2 if is_sparse else 1e-6, what, contain(s.data.rows, None, "float64"))


def twin_alpha(s):
    """Alpha scales the covariance by 1 / (n alpha + 1), and nothing else; what it can be set to needs no other fit."""
    case = s.case
    if case.cv is not None or case.options.get("predictive", "gaussian") != "gaussian":
        raise DoesNotApply
    a, factor = case.options.get("alpha", 1.0), 7.0
    if case.is_classifier:
        if case.options.get("curvature", "auto") not in DENSE_CURVATURE:
            raise DoesNotApply  # what is drawn is scaled, and not drawn again
        T = case.options.get("temperature", "auto")
        changes, hot = ({}, 2.0) if T == "auto" else ({"temperature": 2 * T}, 2 * T)  # "auto" may choose another one
        other = fit_case(case, s.data, alpha=factor * a, **changes).with_alpha(factor * a, hot)
        same = s.ribbon.with_alpha(factor * a, hot)
        for method in ("predict_proba", "predict_proba_interval"):
            mine, theirs = (getattr(ribbon, method)(s.rows)[s.sane] for ribbon in (same, other))
            if (gap := differs(mine, theirs, 1.0, 1e-6)) > 1:
                yield f"{method} of with_alpha is not that of another fit", f"{gap:.3g} times 1e-6"
        return
    other = fit_case(case, s.data, alpha=factor * a)
    wide = s("predict_interval", LEVELS, kind="confidence")
    narrow = other.predict_interval(s.rows, LEVELS, kind="confidence")
    with np.errstate(invalid="ignore", over="ignore"):
        floor = 1e-9 * np.abs(wide).max(axis=1)
        bad = (np.diff(narrow, axis=1)[:, 0] > np.diff(wide, axis=1)[:, 0] + floor).any(axis=1) & s.sane
    if bad.any() and case.options.get("curvature") != "matrix_free":  # whose columns are drawn anew at another alpha
        yield "a larger alpha widens the confidence interval", f"{wide[bad][0]} {narrow[bad][0]}"
    if s.has_law("location") and case.options.get("curvature", "auto") in DENSE_CURVATURE:
        n = s.fitted.n_groups_ or s.fitted.n_observations_
        expected = s("predict_std", kind="epistemic") * np.sqrt((n * a + 1) / (n * factor * a + 1))
        got = other.predict_std(s.rows, kind="epistemic")
        scale = np.maximum(expected, 1e-9 * expected[s.sane].max(initial=0.0))  # rounding of a std that is zero
        if (gap := differs(got[s.sane], expected[s.sane], scale[s.sane], 1e-6)) > 1:
            yield "epistemic std does not scale as sqrt(1 / (n alpha + 1))", f"{got} {expected}, {gap:.3g} times 1e-6"


def twin_batch(s):
    """Rows predicted one by one are rows predicted together."""
    if s.case.options.get("curvature") == "matrix_free":
        raise DoesNotApply  # its solves stop at a tolerance of their own
    rows_of_one, base = [], s.fitted.estimator_
    for i in range(len(s.data.rows)):
        text = None if s.data.rows_text is None else s.data.rows_text[i : i + 1]
        rows_of_one.append(contain(s.data.rows[i : i + 1], text, s.case.container))
    one_by_one = [summary(s, rows=row)[0] for row in rows_of_one]
    mine, size = summary(s)
    size = size + 1e10 * s.eps * s.rounding[:, None]
    keep = s.sane & np.isfinite(mine).all(axis=1)
    if s.case.target != "none":  # where the base model itself has lost the digits that a transform may magnify
        inner = base.estimator.regressor_ if s.case.prepare == "frozen" else base.regressor_
        alone = np.concatenate([np.ravel(inner.predict(_again(s, row))) for row in rows_of_one])
        keep &= np.isclose(alone, np.ravel(inner.predict(s.rows)), rtol=1e-12, atol=0)
    if (gap := differs(mine[keep], np.concatenate(one_by_one)[keep], size[keep], 1e-6)) > 1:
        yield "rows one by one are not the rows in a batch", f"{gap:.3g} times 1e-6"


def twin_pickle(s):
    """A pickled Ribbon predicts the same; a clone is not fitted and has the same parameters."""
    mine, theirs = summary(s)[0], summary(s, pickle.loads(pickle.dumps(s.ribbon)))[0]
    if not np.array_equal(mine, theirs, equal_nan=True):
        yield "a pickled Ribbon predicts something else", ""
    copy = clone(s.ribbon)
    if repr(copy) != repr(s.ribbon):
        yield "a clone has other parameters", f"{copy!r}"
    try:
        check_is_fitted(copy)
    except NotFittedError:
        return
    yield "a clone is fitted", ""


def _other_data(s):
    """Different rows for the same case, always well-behaved in the sense that the case's base model takes them."""
    return make_data(replace(s.case, seed=s.case.seed + 1, n=s.case.n + 3))


def twin_refit(s):
    """A second fit of one object replaces all results of the first."""
    if s.case.prepare == "frozen":
        raise DoesNotApply
    ribbon = make_ribbon(s.case, make_base(s.case))
    for data in (_other_data(s), s.data):
        X, y = contain(data.X, data.text, s.case.container), contain_y(data.y, s.case.y_container)
        try:
            ribbon.fit(X, y, **said_of(data))
        except Exception as error:
            if data is s.data:
                raise
            if not is_clear(error):
                return  # found by the case that has these data
    if not np.array_equal(summary(s)[0], summary(s, ribbon)[0], equal_nan=True):
        yield "a refitted Ribbon is not a fresh one", ""
    state, fresh = (set(vars(r)) for r in (ribbon, s.ribbon))
    if state != fresh:
        yield "a refitted Ribbon has other attributes than a fresh one", f"{sorted(state ^ fresh)}"


def twin_failed_refit(s):
    """A fit that raises keeps the predictions of the previous fit."""
    if s.case.prepare == "frozen":
        raise DoesNotApply
    ribbon = fit_case(s.case, s.data)
    before, other = summary(s, ribbon)[0], _other_data(s)
    X, y = contain(other.X, other.text, s.case.container), contain_y(other.y, s.case.y_container)
    inner = "" if s.case.cv is None else "estimator__"
    bad = {"curvature": "nonsense"} if s.case.seed % 2 else {"damping": -1.0}
    old = ribbon.get_params()
    ribbon.set_params(**{inner + name: value for name, value in bad.items()})
    try:
        ribbon.fit(X, y)
    except Exception as error:
        if not is_clear(error) and _refuses(s, other) is None:
            yield f"a wrong {next(iter(bad))} is not refused clearly: {in_words(error)}", place_of(error)
    else:
        yield f"a wrong {next(iter(bad))} is accepted", f"{bad}"
        return
    ribbon.set_params(**{inner + name: old[inner + name] for name in bad})
    if not np.array_equal(before, summary(s, ribbon)[0], equal_nan=True):
        yield "a failed refit changes the predictions", f"{bad}"


def twin_inplace(s):
    """A scaler that overwrites its input gives the intervals of one that does not; nothing else is overwritten."""
    if s.case.prepare == "scaler_inplace":
        other = fit_case(replace(s.case, prepare="scaler"), s.data)
        yield from _same(s, other, 1e-6, "StandardScaler(copy=False) gives other intervals than copy=True")
        return
    X, y = contain(s.data.X, s.data.text, s.case.container), contain_y(s.data.y, s.case.y_container)
    said, rows = said_of(s.data), s.rows
    base = make_base(s.case)
    if s.case.prepare == "frozen":
        base = FrozenEstimator(base.fit(contain(s.data.X, s.data.text, s.case.container), s.data.y.copy()))
    ribbon = make_ribbon(s.case, base).fit(X, y, **said)
    summary(s, ribbon, rows)
    for name, now, was in (
        ("X", X, contain(s.data.X, s.data.text, s.case.container)),
        ("y", y, contain_y(s.data.y, s.case.y_container)),
        ("the rows to predict", rows, s.rows),
        ("sample_weight", said.get("sample_weight"), s.data.weight),
        ("groups", said.get("groups"), s.data.group),
    ):
        if not _equal(now, was):
            yield f"{name} is overwritten", s.case.container


def twin_groups(s):
    """Group names do not matter, and groups of one row equal a fit without groups."""
    group = s.data.group
    if group is None:
        if s.case.cv is not None and s.case.cv.get("cv") != "loo":
            raise DoesNotApply  # folds of groups have equal numbers of groups, folds of rows equal ranges of keys
        if s.case.weights != "none":  # a group of two copies is one group
            raise DoesNotApply
        other, what = _twin(s.case, replace(s.data, group=np.arange(s.case.n))), "groups of one row are not rows"
    else:
        _, code = np.unique(group, return_inverse=True)
        renamed = np.array([f"{chr(122 - g % 20)}{g}" for g in code])
        other, what = _twin(s.case, replace(s.data, group=renamed)), "renamed groups give other intervals"
    yield from _same(s, other, 1e-6, what)


def conformal_promises_are_kept(s):
    """At least ceil((m + 1) level) of m calibration rows lie in their own interval or set; these are nested."""
    data, m = _other_data(s), s.case.n + 3
    rows = contain(data.X, data.text, s.case.container)
    known = np.isin(data.y, s.ribbon.classes_).all() if s.case.is_classifier else True
    base = np.asarray(
        getattr(s.fitted.estimator_, "predict_proba" if s.case.is_classifier else "predict")(_again(s, rows))
    )
    if not known or not np.isfinite(base.astype(float)).all():
        raise DoesNotApply
    scores = ("lac", "aps") if s.case.is_classifier else ("distribution", "normalized", "absolute")
    ribbon = copy.copy(s.ribbon)  # what it learns from these rows is not for other laws
    if s.case.cv is not None:
        ribbon.estimator_ = copy.copy(s.fitted)
    score = scores[s.case.seed % len(scores)]
    try:
        ribbon.conformalize(_again(s, rows), data.y, score=score)
    except ValueError as error:
        if is_clear(error):  # observations that the family cannot have
            raise DoesNotApply from error
        raise
    if s.case.is_classifier:
        sets = ribbon.predict_set(_again(s, rows), LEVELS)
        own = np.searchsorted(ribbon.classes_, data.y)
        covered, nested = sets[np.arange(m), own], (np.diff(sets.astype(int), axis=2) >= 0).all()
        if not ribbon.predict_set(s.rows, LEVELS, allow_empty=False).any(axis=1).all():
            yield "a set is empty although none may be", ""
    else:
        ends = ribbon.predict_interval(_again(s, rows), LEVELS, kind="conformal")
        if np.isnan(ends).any():
            yield f"conformal ends are NaN ({score})", f"{ends[np.isnan(ends).any(axis=(1, 2))][0]}"
        covered = (ends[:, 0] <= data.y[:, None]) & (data.y[:, None] <= ends[:, 1])
        nested = _ordered(np.concatenate([ends[:, 0, ::-1], ends[:, 1]], axis=1)).all()
    if not nested:
        yield f"conformal intervals or sets are not nested ({score})", ""
    promised = np.minimum(np.ceil((m + 1) * np.array(LEVELS) - 1e-9), m)
    if (covered.sum(axis=0) < promised).any():
        yield f"fewer calibration rows are covered than promised ({score})", f"{covered.sum(axis=0)}, {promised} of {m}"


def _equal(a, b):
    if a is None or b is None:
        return a is b
    a, b = (v.toarray() if sparse.issparse(v) else np.asarray(v) for v in (a, b))
    return np.array_equal(a, b)


# ---------------------------------------------------------------------- all laws of a case
BOTH = (
    *(shapes_are_as_documented, never_nan, attributes_are_numbers, coefficients_are_numbers, cv_results_are_numbers),
    frame_is_the_methods,
)
OF_REGRESSORS = (
    *(predict_is_the_base_model, weights_are_frequencies, law_is_what_was_asked_for),
    *(std_is_not_negative, intervals_are_nested, confidence_is_centred, confidence_within_prediction),
    *(cdf_inverts_quantiles, cdf_increases, distribution_agrees),
)
OF_CLASSIFIERS = (
    *(probabilities_are_probabilities, proba_intervals_are_nested, temperature_divides_logits),
    *(probabilities_without_an_average_are_those_of_the_base_model, averages_are_as_asked_for),
)
TWINS = {
    "rows": twin_rows,
    "columns": twin_columns,
    "weights": twin_weights,
    "container": twin_container,
    "alpha": twin_alpha,
    "batch": twin_batch,
    "pickle": twin_pickle,
    "refit": twin_refit,
    "failed_refit": twin_failed_refit,
    "inplace": twin_inplace,
    "groups": twin_groups,
    "conformal": conformal_promises_are_kept,
}


def laws_of(case):
    """Laws that apply to a case."""
    return (*BOTH, *(OF_CLASSIFIERS if case.is_classifier else OF_REGRESSORS), TWINS[case.twin])


def _refuses(s_or_case, data):
    """The error that the base model itself raises on the data, or None."""
    case = getattr(s_or_case, "case", s_or_case)
    base = make_base(case)
    weight = {}
    if data.weight is not None and case.target == "none":
        step = f"{base.steps[-1][0]}__" if isinstance(base, Pipeline) else ""
        leaf = base[-1] if isinstance(base, Pipeline) else base
        weight = {f"{step}sample_weight": data.weight} if has_fit_parameter(leaf, "sample_weight") else {}
    try:
        base.fit(contain(data.X, data.text, case.container), contain_y(data.y, case.y_container), **weight)
        base.predict(contain(data.X, data.text, case.container))
    except Exception as error:
        return error
    return None


def _fit(case, data):
    """A Subject, or the Outcome of a fit that gave none."""
    try:
        subject = Subject(case, data, fit_case(case, data))
    except Exception as error:
        if is_clear(error) or type(_refuses(case, data)) is type(error):
            return Outcome("refused")
        kind = f"{type(error).__name__} in {place_of(error)}: {in_words(error)}"
        return Outcome("failed", (Failure("fit works or says why not", kind, str(error)[:200]),))
    theta = np.asarray(subject.fitted.model_.theta) if hasattr(subject.fitted, "model_") else np.zeros(1)
    try:
        alive = np.isfinite(theta).all() and subject.sane.any()
    except Exception:  # the base model's own predict gives up, as TransformedTargetRegressor does on infinity
        alive = False
    return subject if alive else Outcome("diverged")


def name_of(law):
    """A law's name in words."""
    return law.__name__.replace("_", " ")


def _ask(law, subject):
    """Failures of one law, or None if it does not apply; an error in it is a failure of the predict methods."""
    name, found = name_of(law), []
    try:
        found += [Failure(name, kind, detail) for kind, detail in law(subject)]
    except DoesNotApply:
        return None
    except Exception as error:
        inside = any(PACKAGE in f.filename for f in traceback.extract_tb(error.__traceback__))
        title = "predictions do not raise" if inside else f"ERROR IN THE LAW {name}"
        kind = f"{type(error).__name__} in {place_of(error)}: {in_words(error)}"
        found.append(Failure(title, kind, str(error)[:200]))
    return found


def examine(case, seconds=SECONDS):
    """Fit a case and check all its laws."""
    failures, asked = [], ["fit works or says why not", "no hang", "no RuntimeWarning from the package"]
    try:
        with time_limit(seconds), quiet(failures):
            subject = _fit(case, make_data(case))
            outcome = subject if isinstance(subject, Outcome) else Outcome("fitted")
            for law in laws_of(case) if outcome.status == "fitted" else ():
                found = _ask(law, subject)
                if found is not None:
                    asked.append(name_of(law))
                    failures += found
    except Hang as hang:
        outcome = Outcome("hung", (Failure("no hang", f"more than {seconds:g} s in {hang}"),))
    unique = {(f.law, f.kind): replace(f, detail=" ".join(f.detail.split())) for f in (*outcome.failures, *failures)}
    return replace(outcome, failures=tuple(unique.values()), laws=tuple(asked))
