"""Temperature and bias of a classifier, learnt from logits of rows that a fit has not seen."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from .._core import thresholds
from .._core.training import is_network
from .._predict.classes import ClassProbabilities, Scaling
from .._predict.held_out import HeldOut, HeldOutSummary
from .._predict.predictive import Latent
from ..noise.scale import standard_error
from .ribbon import latent_at

MAX_ROUNDS = 20  # times that temperature and bias are searched in turn: three are common, and eight the most seen
LOG_TEMPERATURES = (-2.0, 5.0)  # range of the search: beyond it, probabilities are zero and one, or all alike
RIDGE = 0.1  # expected rows added to each class in Newton steps for the bias, so that no step is unbounded
PLAIN = Scaling(averaged=False)  # probabilities of the base model itself


# ---------------------------------------------------------------------- held-out logits
def scaling_rows(n_classes):
    """Largest number of rows that a temperature is learnt from."""
    return int(max(thresholds.FEWEST_SCALING_ROWS, min(thresholds.NOISE_ROWS, thresholds.SCALING_WORK / n_classes**2)))


def left_out_record(fitted, training, weight_type):
    """HeldOut record of a sample of rows, each by the fit without it, and a reason not to trust it, or None."""
    model, ribbon = fitted["model_"], fitted["ribbon_"]
    size, n_draws = scaling_rows(model.loss.n_classes), 1 if ribbon.shifts is None else ribbon.shifts.shape[1]
    output = training.outputs[0].sample(min(size, max(200, 10**6 // n_draws)))  # draws of 8 MB per class
    rows, f = output.rows, output.left_out
    latent = latent_at(model, ribbon, rows.X)
    record = _record(fitted, rows, latent, f, "loo").weighed(weight_type)
    known = np.abs(f - latent.f).max(axis=1) < 0.5 / (1 - thresholds.MAX_LEVERAGE)  # not moved by the cap alone
    record = record.take(known) if known.any() else record
    if not training.curvature.knows_leverages:
        return record, "the curvature has no exact leverages"
    if training.stationarity > thresholds.STATIONARITY_LIMIT:
        return record, "the base model is not at its minimum"
    return record, None if reaches(model.loss, latent.f, f, rows.y, rows.mass) else "the classes are separable"


def reaches(loss, f, left_out, y, weight):
    """Whether one step reaches the fits without some rows: held-out logits are not far worse than fitted ones."""
    before, after = (np.average(loss.value(g, y), weights=weight) for g in (f, left_out))
    return bool(after <= thresholds.MAX_LOSS_RATIO * before)


def unseen_records(fitted, training, unseen, weight_type):
    """HeldOut records of rows that refits have not seen, one for each refit, or that early stopping set aside."""
    rows = training.rows.take(unseen.rows)
    latent = latent_at(fitted["model_"], fitted["ribbon_"], rows.X)
    record = _record(fitted, rows, latent, unseen.f, unseen.origin).weighed(weight_type)
    if unseen.fold is None:
        return [record]
    return [replace(record.take(unseen.fold == k), n_fits=1) for k in range(unseen.n_fits)]


def spread_by_refits(fitted, training, unseen):
    """Ribbon with the variance of logits that the refits show.

    A linear model keeps its own covariance unless its classes are separable, and never has a smaller one.
    """
    model, ribbon, rows = fitted["model_"], fitted["ribbon_"], training.rows.take(unseen.rows)
    latent, network = latent_at(model, ribbon.at_alpha(1.0), rows.X), is_network(model)
    linear_step = not network and reaches(model.loss, latent.f, unseen.f, rows.y, rows.mass)
    if unseen.fold is None or linear_step:
        return ribbon
    with np.errstate(over="ignore"):
        factor = unseen.variance / max(np.einsum("nkk->", latent.covariance) / len(latent.f), np.finfo(float).tiny)
    factor = float(factor if network else max(factor, 1.0))
    if not np.isfinite(factor):  # logits of refits overflow
        return ribbon
    return replace(ribbon.scaled(factor), freedom=None, single=ribbon.single[:, :0])


def _record(fitted, rows, latent, f, origin):
    """HeldOut record of rows with raw predictions f by fits without them; ``latent`` has those of the fit itself."""
    known = {"origin": origin, "units": fitted["ribbon_"].units, "alpha": fitted["ribbon_"].alpha}
    if rows.groups is not None:
        known |= {"group": rows.groups.code, "own": latent.f}
    distribution = ClassProbabilities(latent.moved_to(f), fitted["model_"].loss)
    return HeldOut(distribution, f, rows.y.astype(int), rows.mass, **known)


# ---------------------------------------------------------------------- temperature and bias
def scaled_probabilities(settings, records, model):
    """Fitted attributes of the temperature, as a dict; ``records`` is empty without held-out rows."""
    if not isinstance(settings.temperature, str):
        scaling = Scaling(settings.temperature, exact=settings.exact)
    elif records:
        (scaling,) = choose_scalings(records, model, settings.exact, [settings.alpha])
    else:
        scaling = replace(PLAIN, exact=settings.exact)
    summary = HeldOutSummary.from_records(records) if records else None
    return {"scaling_": scaling, "temperature_": scaling.temperature, "held_out_": summary}


def choose_scalings(records, model, exact, alphas):
    """Scaling at each alpha that held-out rows support: plain, with a temperature, or with a temperature and averaging.

    Each must have a lower held-out log loss than the one before, averaging by an amount that is worth its cost; for
    networks, whose fits differ, the loss must be clearly lower. ``records`` has one HeldOut for each refit.
    """
    rows = Pooled.from_records(records)
    exact_search = exact and model.loss.n_classes == 2  # quadrature over several classes is too slow for a search
    factors, network = records[0].factors(alphas), is_network(model)
    fixed = {"plain": PLAIN, "tempered": fit_scaling(rows, thresholds.TEMPERATURE_PRIORS[network], averaged=False)}
    known = {name: rows.losses(scaling) for name, scaling in fixed.items()}
    found = (_choose(rows.scaled(factor), fixed, known, network, exact_search) for factor in factors)
    return tuple(replace(scaling, exact=exact) for scaling in found)


def _choose(rows, scalings, losses, network, exact):
    """Best of the given scalings and of one with averaging, by log losses of Pooled rows."""
    averaged = fit_scaling(rows, thresholds.TEMPERATURE_PRIORS[network], averaged=True, exact=exact)
    scalings, losses = scalings | {"averaged": averaged}, losses | {"averaged": rows.losses(averaged)}
    chosen = "plain"
    largest = np.log(100 * rows.distribution.loss.n_classes) if network else np.inf  # a few rows do not decide alone
    for name in ("tempered", "averaged"):
        gain = np.minimum(losses[chosen], largest) - np.minimum(losses[name], largest)
        margin = thresholds.MIN_AVERAGING_GAIN if name == "averaged" else 0.0
        if network:  # refits must agree, unless probabilities only become less certain
            certain = name == "averaged" or scalings[name].temperature < 1
            margin = max(margin, thresholds.NETWORK_MARGIN * rows.standard_error(gain, certain))
        chosen = name if np.average(gain, weights=rows.weight) > margin else chosen
    means = {name: float(np.average(loss, weights=rows.weight)) for name, loss in losses.items()}
    return replace(scalings[chosen], losses=means)


@dataclass(frozen=True, eq=False)
class Pooled:
    """Held-out rows of all refits together."""

    distribution: ClassProbabilities
    y: np.ndarray  # (m,) positions of the classes
    weight: np.ndarray  # (m,), with the class weights of the model; they sum to the weights of the rows
    refit: np.ndarray  # (m,) numbers of the refits
    group: np.ndarray | None  # (m,) codes of groups
    own: np.ndarray | None = None  # (m, k) logits of the fit to all rows, if there are groups

    @classmethod
    def from_records(cls, records):
        """Join HeldOut records, one for each refit."""
        latents = [record.distribution.latent for record in records]
        weight = np.concatenate([record.weight * record.distribution.loss.row_weight(record.y) for record in records])
        refit, group = np.repeat(np.arange(len(records)), list(map(len, records))), None
        if records[0].group is not None:
            group = np.unique(np.concatenate([record.group for record in records]), return_inverse=True)[1]
        f, covariance = (np.concatenate([getattr(own, name) for own in latents]) for name in ("f", "covariance"))
        draws = None if latents[0].draws is None else np.concatenate([own.draws for own in latents])
        distribution = replace(records[0].distribution, latent=Latent(f, covariance, draws))
        own = None if records[0].own is None else np.concatenate([record.own for record in records])
        weight *= sum(record.weight.sum() for record in records) / weight.sum()
        y = np.concatenate([record.y for record in records])
        return cls(distribution, y, weight, refit, group, own)

    def scaled(self, factor):
        """Rows with the covariance of their logits multiplied by a factor."""
        return self if factor == 1 else replace(self, distribution=self.distribution.scaled(factor))

    def probabilities(self, scaling):
        """Class probabilities (m, K) under a Scaling."""
        return replace(self.distribution, scaling=scaling).mean()

    def losses(self, scaling):
        """Log losses (m,) under a Scaling."""
        P = self.probabilities(scaling)
        return -np.log(np.maximum(P[np.arange(len(self.y)), self.y], np.finfo(float).tiny))

    def biased(self, scaling, counts, steps):
        """Scaling after Newton steps of its bias to these expected counts (K,) of the classes."""
        for _ in range(steps):
            P = self.probabilities(scaling)
            H = np.diag(self.weight @ P + RIDGE) - (self.weight[:, None] * P).T @ P
            bias = scaling.bias + np.clip(np.linalg.solve(H, counts - self.weight @ P), -1.0, 1.0)
            scaling = replace(scaling, bias=bias - bias.mean())
        return scaling

    def at_own_fit(self):
        """Rows with the logits of the fit to all rows."""
        return replace(
            self, distribution=replace(self.distribution, latent=self.distribution.latent.moved_to(self.own))
        )

    def standard_error(self, values, among_refits):
        """Standard error of the mean of values (m,): among rows, or groups, and also among refits, if larger."""
        codes = [self.group, self.refit] if among_refits and self.refit[-1] > 0 else [self.group]
        return max(standard_error(values, self.weight, code) for code in codes)


def fit_scaling(rows, prior, averaged, exact=False):
    """Most probable temperature given Pooled rows, with a bias that keeps the expected count of each class.

    ``prior`` has the precisions of log T below and above one.

    Temperature and averaging would move expected counts; the bias moves them back to the counts that the plain
    probabilities predict, and towards the observed ones if both differ by more than two standard deviations. Without a
    group, the expected counts of its classes may be far off, so that with groups the bias returned is the one that
    keeps the counts that the fit to all rows expects.
    """
    K, weight, P = rows.distribution.loss.n_classes, rows.weight, rows.probabilities(PLAIN)
    bias, observed = np.zeros(K), np.bincount(rows.y, weight, minlength=K)
    off, variance = observed - weight @ P, weight @ (P * (1 - P)) + 1  # no model knows a count better than by one
    counts = observed - off * np.minimum(4 * variance, off**2) / np.maximum(off**2, np.finfo(float).tiny)
    counts *= weight.sum() / counts.sum()

    def scaling(t):
        return Scaling(float(np.exp(t)), bias, averaged, exact)

    def objective(t):
        return weight @ rows.losses(scaling(t)) + prior[int(t > 0)] * t**2 / 2

    t, bounds = np.inf, LOG_TEMPERATURES
    for _ in range(MAX_ROUNDS):
        before, found = t, minimize_scalar(objective, bounds=bounds, options={"xatol": 0.002}).x
        t = found if objective(found) < objective(0.0) else 0.0
        bounds = t - 0.5, t + 0.5
        bias = rows.biased(scaling(t), counts, steps=3).bias
        if abs(t - before) < 0.004:
            break
    if rows.own is None:
        return scaling(t)
    own = rows.at_own_fit()
    return own.biased(scaling(t), weight @ own.probabilities(PLAIN), steps=MAX_ROUNDS)
