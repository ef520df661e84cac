"""Parameters of the estimators, checked and parsed once for a fit."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator

from .._core.units import Clip
from .._utils.checks import check_count, check_name, check_positive, is_name
from .._utils.typing import Correction, CurvatureName, HeldOutName, PredictiveName, RandomState, WeightType
from ..curvature import Curvature, machine_bytes
from ..noise.fit import check_law, is_covariance, resolve_noise


@dataclass(repr=False, eq=False)
class RibbonParameters:
    """Parameters that all Ribbons have."""

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    alpha: float = 1.0
    curvature: CurvatureName | Curvature = "auto"
    damping: float | Literal["auto"] = "auto"
    correction: Correction = "auto"
    predictive: PredictiveName = "gaussian"
    n_draws: int = 100
    clip_scores: float | None = None
    clip_steps: float | None = None
    held_out: HeldOutName | int | BaseCrossValidator | Iterable = "auto"
    store_loo: bool = False
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0


@dataclass(frozen=True, eq=False)
class Settings:
    """Checked parameters of a Ribbon, with the names that the estimators use."""

    alpha: float
    curvature: Any
    damping: Any
    correction: str
    predictive: str
    n_draws: int
    clip: Clip  # clip_scores and clip_steps
    random_state: Any
    store_loo: bool
    weight_type: str
    held_out: Any = "loo"  # source of held-out predictions
    noise: Any = None  # unfitted Noise, "auto" or a covariance; None for a classifier
    law: Any = None  # NoiseLaw, its name or a tuple of them; None for a classifier
    temperature: Any = 1.0  # a number or "auto"; 1 for a regressor
    exact: bool = False  # whether class probabilities are averaged by quadrature

    @property
    def learns(self):
        """Whether held-out rows are needed: for the scale of the noise, or for the temperature of a classifier."""
        named = isinstance(self.noise, str) or isinstance(self.temperature, str)
        return named or getattr(self.noise, "_from_held_out", False)

    @classmethod
    def from_regressor(cls, ribbon, y):
        """Parse the parameters of a RibbonRegressor that is to be fitted to y (n,) or (n, m)."""
        check_name(ribbon.weight_type, "weight_type", get_args(WeightType))
        noise, law = ribbon.noise, check_law(ribbon.law)
        if not is_covariance(noise):
            noise = resolve_noise(noise, auto=True)
        elif np.ndim(y) != 2:
            raise ValueError("noise is a covariance of several outputs, but y has one output; pass a number.")
        if isinstance(law, tuple) and np.shape(y)[1:] != (len(law),):
            raise ValueError(f"law has {len(law)} distributions, one per output, but y has shape {np.shape(y)}.")
        return cls(**shared_settings(ribbon), noise=noise, law=law)

    @classmethod
    def from_classifier(cls, ribbon):
        """Parse the parameters of a RibbonClassifier."""
        temperature = ribbon.temperature
        if not is_name(temperature, "auto"):
            check_temperature(temperature, "'auto' or ")
            temperature = float(temperature)
        check_name(ribbon.averaging, "averaging", ("closed", "exact"))
        check_name(ribbon.weight_type, "weight_type", ("frequency", "importance"))  # classes have no noise variance
        return cls(**shared_settings(ribbon), temperature=temperature, exact=ribbon.averaging == "exact")


def check_temperature(temperature, allowed=""):
    """Raise ValueError if a temperature is not a positive number."""
    cure = "All logits are divided by it: 1 changes nothing, larger values make the classifier less confident."
    check_positive(temperature, "temperature", cure, allowed=allowed)


def shared_settings(ribbon):
    """Check the parameters that all Ribbons have; returns a dict."""
    cure = "It is the Dirichlet concentration: 1 is the Bayesian bootstrap, larger values give narrower intervals."
    check_positive(ribbon.alpha, "alpha", cure)
    if str(ribbon.correction) in ("CR0", "CR1", "CR2", "CR3"):
        name = ribbon.correction.replace("CR", "HC")
        raise ValueError(f"correction={name!r} is {ribbon.correction} in a fit with groups; pass {name!r}.")
    check_name(ribbon.correction, "correction", get_args(Correction))
    check_name(ribbon.predictive, "predictive", get_args(PredictiveName))
    check_held_out(ribbon.held_out)
    for name in ("clip_scores", "clip_steps"):
        if getattr(ribbon, name) is not None:
            check_positive(getattr(ribbon, name), name, allowed="None or ")
    names = "curvature", "damping", "correction", "predictive", "random_state", "store_loo", "weight_type", "held_out"
    parsed = {"alpha": float(ribbon.alpha), "clip": Clip(ribbon.clip_scores, ribbon.clip_steps)}
    parsed["n_draws"] = check_count(ribbon.n_draws, "n_draws", 2)
    return parsed | {name: getattr(ribbon, name) for name in names}


def check_held_out(held_out):
    """Refuse a ``held_out`` that is no name, no number of folds and no splitter."""
    names = get_args(HeldOutName)
    if isinstance(held_out, str | Real) or held_out is None:
        fine = held_out in names if isinstance(held_out, str) else isinstance(held_out, Integral) and held_out >= 2
    else:
        fine = hasattr(held_out, "split") or np.iterable(held_out)
    if not fine:
        listed = ", ".join(map(repr, names))
        raise ValueError(f"held_out must be {listed}, a number of folds >= 2 or a splitter, got {held_out!r}.")


def check_newton(curvature, p, n_draws):
    """Refuse Newton steps if the curvature ignores weights or does not fit into memory."""
    if not curvature.reweights:
        raise ValueError(
            f"predictive='newton' needs a curvature that depends on the weights, not {type(curvature).__name__}; use "
            "curvature='hessian' or 'ggn', or predictive='pushforward'."
        )
    needed = 8 * 4 * n_draws * p**2
    if needed > machine_bytes() / 2:
        raise MemoryError(
            f"predictive='newton' needs a {p} x {p} curvature for each of {n_draws} draws, about {needed / 1e9:.3g} "
            "GB; use fewer n_draws, or predictive='pushforward', which needs none."
        )
