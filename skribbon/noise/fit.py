"""Fit scale and distribution of the observation noise, and parse the parameters ``noise`` and ``law``."""

from dataclasses import dataclass, replace
from functools import cache, partial
from numbers import Real
from operator import attrgetter
from typing import get_args

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln
from sklearn.base import clone

from .._core import thresholds
from .._core.deals import row_keys, some_by_keys
from .._core.findings import uniformity
from .._core.output import sampled
from .._core.rows import some_of
from .._core.units import POWERS, covariance_without
from .._laws import noise_distributions as shapes
from .._laws.noise_distributions import NORMAL, EmpiricalLaw, NoiseLaw, NormalLaw, StudentLaw
from .._predict.held_out import HeldOut, HeldOutSummary
from .._predict.joint import output_latent
from .._predict.predictive import Latent, Predictive
from .._predict.target import TargetScale
from .._utils.typing import LawName
from .scale import _BY_NAME, ConstantNoise, DofNoise, HeteroskedasticNoise, JointNoise, Noise, dof_dispersion, evidence


# ---------------------------------------------------------------------- noise of a fitted model
def fit_noise(noise, law, training, latent, model, unseen=None):
    """Fit scale and distribution of the noise, output by output.

    ``unseen`` are predictions of rows by fits that have not seen them; None for leave-one-out in closed form. Returns
    fitted attributes as a dict, the factor of the epistemic covariance that unseen rows support, and HeldOut records.
    """
    models, outputs, several = model.outputs, training.outputs, bool(model.loss.by_output)
    m = len(models)
    correlation = np.eye(m) if type(noise) is ConstantNoise else None  # a number means no correlation
    asked = [clone(noise) if isinstance(noise, Noise) else noise for _ in outputs]
    if is_covariance(noise):
        variances, correlation = check_covariance(noise, m)
        asked = [ConstantNoise(float(variance)) for variance in variances]
    laws = law if isinstance(law, tuple) else [law] * m
    losses, factor = [own.loss for own in models], 1.0
    for shape, loss in zip(laws, losses, strict=True):
        if not loss.additive and shape != "auto":
            raise ValueError(f"law={shape!r} must be 'auto', because {type(loss).__name__} has its own distribution.")
    if unseen is None:
        at_sample = cache(lambda: latent(sampled(training.rows, thresholds.NOISE_ROWS).X))
        latents = [(lambda X, j=j: output_latent(at_sample(), j)) for j in range(m)] if several else [latent]
        fits = list(map(fit_output, asked, laws, outputs, latents, losses))
    else:
        fits, factor = fit_unseen(asked, laws, outputs, latent, losses, unseen)
    noises, laws, dispersions, records = zip(*fits, strict=True)
    targets = tuple(TargetScale.of(own, part.rows.targets()) for own, part in zip(models, outputs, strict=True))
    summary = None if records[0] is None else HeldOutSummary.from_records(records[:1])
    if not several:
        fitted = {"noise_": noises[0], "law_": laws[0], "target_scale_": targets[0], "held_out_": summary}
        return fitted, factor, records
    if correlation is None and unseen is None:
        correlation = correlation_of(_residual_products(training, np.stack(dispersions, axis=1)))
    elif correlation is None:
        z = np.stack([own.residuals / np.sqrt(own.distribution.var()) for own in records], axis=1)
        correlation = correlation_of((z.T * records[0].weight) @ z)
    fitted = {"noise_": JointNoise(noises, correlation), "law_": laws, "target_scale_": targets, "held_out_": summary}
    return fitted, factor, records


def _residual_products(training, dispersion):
    """Sums of products of residuals (m, m); standardized in a sample if dispersions (s, m) vary."""
    if not np.ptp(dispersion, axis=0).any():
        return training.moments.chi2
    sample = sampled(training.rows, thresholds.NOISE_ROWS)
    r, weight = sample.map(attrgetter("u")) / sample.importance, sample.mass[:, None]
    z = r * np.sqrt(np.divide(weight, dispersion, out=np.zeros_like(r), where=dispersion > 0))
    return z.T @ z


def fit_output(noise, law, output, latent, loss):
    """Fit the noise of one output.

    Returns a fitted Noise, a NoiseLaw, dispersions (s,) of a sample of rows as if they were unseen, and the HeldOut
    record that these were learnt from, or None.
    """
    sample, additive, named = output.sample(thresholds.NOISE_ROWS), loss.additive, isinstance(law, str)
    automatic = named and law == "auto"
    chosen = isinstance(noise, str) or noise._from_held_out  # otherwise the user has stated the noise
    is_biased, share = isinstance(noise, str) and additive and may_be_biased(output), 1.0
    if isinstance(noise, str):
        if not additive:
            sums = output.rows.sum(partial(_block_totals, output.rows.exposure))
            share = share_of_total(sums, output.chi2 / output.n)
        noise = HeteroskedasticNoise() if additive and may_depend_on_x(output) else DofNoise()
    # whether leave-one-out residuals are known and close to residuals of new rows
    honest = chosen and output.has_exact_leverages and output.mean_leverage <= thresholds.EASY_LEVERAGE
    fixed = not named or law == "normal" or (automatic and not honest)
    needed = not fixed or noise._from_held_out or is_biased
    record, constant = leave_one_out(sample, latent, loss) if needed else None, dof_dispersion(output)
    if is_biased and (unexplained := mean_unexplained(record)) > constant > 0:
        record = replace(record, squared=record.squared * unexplained / constant)
        noise, constant = noise if noise._from_held_out else ConstantNoise(unexplained), unexplained
    if noise._from_held_out:
        dispersion = noise.fit_held_out(record, sample.rows.X, constant)
    else:
        noise.fit(output)
        if share < 1:
            noise.dispersion_ *= share
        dispersion = np.broadcast_to(noise.predict(sample.rows.X), len(sample.rows.y))
    if not fixed and not additive:
        check_family(output.training, loss, record, dispersion)
    elif not fixed:
        law = Standardized.from_held_out([record.with_dispersion(dispersion)]).law(law)
    return noise, NORMAL if isinstance(law, str) else law, dispersion, record


def may_depend_on_x(output):
    """Whether there are enough rows, with residuals of their own, to find out how the noise depends on x."""
    enough = output.n >= thresholds.FEWEST_NOISE_ROWS and output.mean_leverage < thresholds.MAX_NOISE_LEVERAGE
    return output.has_exact_leverages and enough


def share_of_total(totals, pearson):
    """Dispersion of the total of counts over Pearson's, but at most 1; see :func:`totals`.

    A few counts in rows with tiny means, such as short exposures, may dominate Pearson's mean of (y - mu)^2 / mu.
    """
    with np.errstate(all="ignore"):
        return float(np.fmin(totals[0] / totals[1] / pearson, 1.0))


def totals(loss, f, squared, mass):
    """Sums of squared errors, and of variances at dispersion one; NaN unless y may be zero.

    ``squared`` (m,) are Pearson's squared residuals at raw predictions f, and ``mass`` their weights times exposures.
    """
    power = getattr(loss, "power", 0.0)
    with np.errstate(all="ignore"):
        mass = mass * (np.abs(loss.mean(f[:, 0])) ** power if 1 <= power < 2 else np.nan)
        return np.array([mass @ squared, mass.sum()])


def _block_totals(exposure, block):
    precision = 1.0 if exposure is None else exposure * block.importance[:, 0]
    return totals(block.model.loss, block.f, precision * block.squared_residuals[:, 0], block.mass)


def may_be_biased(output):
    """Whether a penalty may bias a linear model so much that its squared residuals understate errors of new rows."""
    known = output.training.rows.model.is_linear and output.has_exact_leverages
    return known and output.mean_leverage > thresholds.EASY_LEVERAGE


def mean_unexplained(record):
    """Mean square of leave-one-out residuals beyond the variance of their predictions."""
    r, _, variance, _ = _residual_columns(record, None)
    return float(np.average(record.precision * r**2 - variance, weights=record.weight))


def leave_one_out(output, latent, loss):
    """HeldOut record of an Output's rows, each predicted by the fit without its row or group, to first order."""
    rows, f = output.rows, output.left_out
    group = None if rows.groups is None else rows.groups.code
    squared = output.squared_residuals * output.growth

    def predict():
        return Predictive(latent(rows.X).moved_to(f), loss, np.zeros(len(f)), NORMAL, TargetScale())

    known = {"squared": squared, "leverage": output.leverages, "precision": output.precision}
    known["power"] = POWERS[output.training.correction_used]
    weight = rows.mass if rows.exposure is None else rows.weight
    return HeldOut(predict, f, rows.y, weight, group, "loo", **known)


# ---------------------------------------------------------------------- unseen rows of a network
def fit_unseen(noises, laws, outputs, latent, losses, unseen):
    """Fit the noise of every output, and one factor of the epistemic covariance, to rows that fits have not seen.

    Returns what ``fit_output`` does for each output, and the factor.
    """
    shared = {"origin": unseen.origin, "n_fits": unseen.n_fits}
    outputs = [replace(own, some=unseen.rows) for own in outputs]
    training = outputs[0].training
    rows = training.rows.take(unseen.rows)
    covariance = covariance_without(training, rows, latent(rows.X).covariance)
    whole = Latent(unseen.sized(training.rows.y, losses[0].additive), covariance)
    fits = []
    for j, (noise, law, output, loss) in enumerate(zip(noises, laws, outputs, losses, strict=True)):
        own = output_latent(whole, j) if len(outputs) > 1 else whole
        fits.append(UnseenFit.from_rows(noise, law, output, own, loss, unseen.ratio[j], shared))
    scales = [own.scales() for own in fits]
    factor = float(np.exp(np.mean([np.log(factor) for _, factor in scales])))
    if len(fits) > 1:  # outputs of a network share its parameters
        scales = [own.scales(factor) for own in fits]
    return [own.fitted(c, factor) for own, (c, _) in zip(fits, scales, strict=True)], factor


@dataclass(frozen=True, eq=False)
class UnseenFit:
    """Noise of one output that is fitted to rows which fits have not seen."""

    noise: Noise  # fitted
    law: object  # NoiseLaw, or a name
    loss: object
    record: HeldOut  # with variances of predictions, to be multiplied by a factor
    dispersion: np.ndarray  # (m,) as if the rows were unseen, to be multiplied by a constant
    is_stated: bool  # whether the user has stated the noise, so that this constant is one
    centre: float  # factor at which the scores of the fit have the size of held-out errors
    training: object = None  # whose findings the family is reported to

    @classmethod
    def from_rows(cls, noise, law, output, latent, loss, ratio, shared):
        """Fit the scale of the noise to raw predictions ``latent`` of unseen rows, with their variances.

        Squared errors are multiplied by ``ratio`` if the noise is not additive.
        """
        rows, automatic, f = output.rows, isinstance(noise, str), latent.f
        squared = output.precision * loss.squared_residuals(f, rows.y) * (1.0 if loss.additive else ratio)
        weight = rows.mass if rows.exposure is None else rows.weight
        mean = float(np.average(squared, weights=weight))
        h = np.minimum(output.leverages, thresholds.MAX_LEVERAGE) if output.has_exact_leverages else np.zeros(len(f))
        scores = output.squared_residuals * (1 - h) ** (2 * POWERS[output.training.correction_used])
        if output.training.correction_used == "HC1":
            scores = scores / (1 - output.mean_leverage)
        score = float(np.average(scores, weights=weight))
        group = None if rows.groups is None else rows.groups.code
        known = {"squared": squared, "precision": output.precision, **shared}
        prediction = Predictive(latent, loss, np.zeros(len(f)), NORMAL, TargetScale())
        record = HeldOut(prediction, f, rows.y, weight, group, **known)
        if automatic:
            enough = loss.additive and len(f) >= thresholds.FEWEST_NOISE_ROWS
            noise = HeteroskedasticNoise() if enough else ConstantNoise(mean)
        if noise._from_held_out:
            dispersion = noise.fit_held_out(record, rows.X, mean)
        else:
            dispersion = np.broadcast_to(noise.fit(replace(output, some=None)).predict(rows.X), len(f))
        is_stated = not (automatic or noise._from_held_out)
        centre = mean / score if score > 0 and mean > 0 else 1.0
        return cls(noise, law, loss, record, dispersion, is_stated, centre, output.training)

    def scales(self, factor=None):
        """Constant c and factor s at which squared errors have the likelihood of variances c dispersion + s variance.

        The log of s has a normal prior around its centre. ``factor`` keeps s fixed.
        """
        record, f = self.record, self.record.f
        unit = self.loss.mean_derivative(f[:, 0]) ** 2 * self.loss.squared_residuals(f, self.loss.mean(f[:, 0]) + 1)
        parts = np.stack([self.dispersion, record.precision * unit * record.distribution.latent.covariance[:, 0, 0]])
        mean = np.average(record.squared, weights=record.weight)
        centre = np.log(self.centre if factor is None else factor)
        if not mean > 0:
            return 1.0, np.exp(centre)

        def loss(x):
            total = np.maximum(np.exp(x) @ parts, 1e-9 * mean)
            slope = record.weight * (1 - record.squared / total) / total / 2
            value = record.weight @ (np.log(total) + record.squared / total) / 2
            prior = thresholds.EPISTEMIC_PRIOR * (x[1] - centre)
            return value + prior * (x[1] - centre) / 2, np.exp(x) * (parts @ slope) + np.array([0.0, prior])

        wide = 0.0 if factor is not None else 4.0
        bounds = [(0.0, 0.0) if self.is_stated else (-6.0, 2.0), (centre - wide, centre + wide)]
        found = minimize(loss, [0.0 if self.is_stated else -0.4, centre], jac=True, method="L-BFGS-B", bounds=bounds)
        return np.exp(found.x)

    def fitted(self, c, factor):
        """Noise, NoiseLaw, dispersions (m,) and HeldOut record with these scales."""
        noise, law, loss, dispersion = self.noise, self.law, self.loss, self.dispersion * c
        if type(noise) is ConstantNoise and not self.is_stated:
            noise = ConstantNoise(float(noise.dispersion_ * c)).fit(None)
        elif not self.is_stated:
            noise.dispersion_ = float(noise.dispersion_ * c)
        own = self.record.distribution
        record = replace(self.record, prediction=replace(own, latent=own.latent.scaled(factor)))
        record = record.with_dispersion(dispersion)
        if not loss.additive:
            check_family(self.training, loss, record, dispersion)
        elif isinstance(law, str):
            law = NORMAL if law == "auto" and self.is_stated else Standardized.from_held_out([record]).law(law)
        return noise, NORMAL if isinstance(law, str) else law, dispersion, record


def check_family(training, loss, held_out, dispersion):
    """Warn if randomized quantile residuals of held-out rows contradict the family of the base model."""
    weight = held_out.weight[some := some_of(len(held_out), thresholds.FAMILY_ROWS)]
    if (
        round(weight.sum(), 6) < shapes.FEWEST or np.ndim(held_out.precision) or np.any(weight % 1)
    ):  # rates are no counts
        return
    f, y = held_out.f[some, 0], held_out.y[some]
    law = loss.law(dispersion[some]).conditional(f)
    below, upto = law.cdf_below(y), law.cdf(y)
    u = below + (upto - below) * np.random.default_rng(0).uniform(size=len(f))
    n = min(weight.sum(), len(u))  # copies of a row are no further evidence
    distance, limit, fault, low, high = uniformity(u, weight / weight.sum(), n)
    training.findings.report("family", distance, limit, fault, low=low, high=high)


def law_of_held_out(records, alpha):
    """Noise distribution from HeldOut records at an alpha; a tuple for several outputs."""
    columns = zip(*(record.outputs for record in records), strict=True)
    laws = tuple(Standardized.from_held_out(column, alpha).law("auto") for column in columns)
    return laws[0] if records[0].y.ndim == 1 else laws


def pooled_noise(records):
    """Constant noise from the mean square of held-out residuals; JointNoise for several outputs."""
    weight = np.concatenate([record.weight for record in records])
    if records[0].y.ndim == 1:
        loss = records[0].distribution.loss
        squared = [own.precision * loss.squared_residuals(own.f, own.targets) for own in records]
        sums = sum(totals(loss, r.f, s, r.weight * r.precision) for r, s in zip(records, squared, strict=True))
        squared = np.concatenate(squared)
        pearson = float(np.average(squared, weights=weight))
        return ConstantNoise(pearson * share_of_total(sums, pearson)).fit(None)
    columns = ([np.sqrt(own.precision) * own.residuals for own in record.outputs] for record in records)
    r = np.concatenate([np.stack(each, axis=1) for each in columns])
    covariance = (r.T * weight) @ r / weight.sum()
    noises = tuple(ConstantNoise(float(variance)).fit(None) for variance in np.diag(covariance))
    return JointNoise(noises, correlation_of(covariance))


# ---------------------------------------------------------------------- distribution
@dataclass(frozen=True, eq=False)
class Standardized:
    """Held-out residuals in units of their predicted standard deviation."""

    z: np.ndarray
    weight: np.ndarray
    share: float  # of the noise in the predicted variance; the rest is epistemic
    mean: float = 0.0  # mean residual over mean standard deviation; zero for a model with an intercept

    @classmethod
    def from_held_out(cls, records, alpha=None):
        """Standardize residuals of HeldOut records of one output, optionally at another alpha."""
        columns = zip(*(_residual_columns(record, alpha) for record in records), strict=True)
        residuals, dispersion, variance, weight = map(np.concatenate, columns)
        total = dispersion + variance
        kept = np.flatnonzero((weight > 0) & (total > 0) & np.isfinite(residuals))
        if not len(kept):
            return cls(np.zeros(0), np.zeros(0), 1.0)
        kept = kept[some_by_keys(row_keys(residuals[kept], total[kept]), thresholds.NOISE_ROWS)]
        r, std, weight = residuals[kept], np.sqrt(total[kept]), weight[kept]
        typical = shapes.sample_quantiles(dispersion[kept] / total[kept], weight, 0.1)  # most rows have more
        return cls(r / std, weight, max(0.95 * float(typical), 1e-3), float(weight @ r / (weight @ std)))

    def law(self, name):
        """Fit the distribution of this name; "auto" goes from normal to Student's t to empirical by the evidence."""
        if name == "normal" or (name == "auto" and not shapes.is_spread(self.z, self.weight)):
            return NormalLaw()
        if name == "student":
            return best_student(self.z, self.weight)
        # the mean of the residuals, at every x: draws add up to predictions also if a narrow scale goes with a bias
        centred = replace(self, z=self.z - self.weight @ self.z / max(self.weight.sum(), 1e-300) + self.mean)
        empirical = EmpiricalLaw(centred.z, self.weight, self._noise_share())
        if name == "empirical":
            return empirical
        law, student, at = NormalLaw(), best_student(centred.z, self.weight), empirical.centres  # sample quantiles
        weight = np.full(len(at), empirical.n / len(at))
        if (share := evidence(student.logpdf(at) - law.logpdf(at), weight)) > 0:
            law = StudentLaw(student.df / share, 1 + share * (student.variance - 1))
        if self.share < thresholds.LEAST_NOISE_SHARE:
            return law
        share = evidence(empirical.log_score - law.logpdf(at), weight)
        return replace(empirical, z=centred._toward(law, share)) if share > 0 else law

    def _noise_share(self):
        """Share of the noise in the residuals; one if outliers leave them narrower than the predictions alone."""
        quartiles = shapes.sample_quantiles(self.z, self.weight, [0.25, 0.75]) if len(self.z) else np.zeros(2)
        return self.share if np.ptp(quartiles) > 1.349 * np.sqrt(1 - min(self.share, 1.0)) else 1.0

    def _toward(self, law, share):
        """Residuals moved from the quantiles of a distribution to their own values by a share of the way."""
        values, place = np.unique(self.z, return_inverse=True)
        weight = np.bincount(place, weights=self.weight)
        levels = (np.cumsum(weight) - weight / 2) / weight.sum()
        return (values * share + law.marginal(0.0, 1.0, 0.0).ppf(levels) * (1 - share))[place]


def _residual_columns(record, alpha):
    """Residuals, dispersions, epistemic variances and weights of one record, (m,) each.

    Variances of leave-one-out predictions are without the row's own score, which would shrink its residual. Rows with
    a leverage of MAX_INFORMATIVE_LEVERAGE or more get weight zero: their residuals show little of the noise.
    """
    own, factor = record.distribution, 1.0 if alpha is None else record.factors([alpha])[0]
    dispersion = np.broadcast_to(own.dispersion, len(record))
    h, r = np.minimum(record.leverage, thresholds.MAX_LEVERAGE), record.residuals
    weight = np.where(h < thresholds.MAX_INFORMATIVE_LEVERAGE, record.weight, 0.0)
    others = factor * np.maximum(own.latent.covariance[:, 0, 0] - (h * r * (1 - h) ** (1 + record.power)) ** 2, 0.0)
    return r, dispersion, others / (1 - h) ** 2, weight


def best_student(z, weight):
    """Fit a StudentLaw by maximum likelihood over degrees of freedom and variance."""
    nu = np.array([2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0])  # above 20, hardly different from normal noise
    if not z.any():
        return StudentLaw(20.0)
    if (largest := np.abs(z).max()) > 1e150:
        raise ValueError(f"Residuals of y are up to {largest:.0e} standard deviations, which overflow. Try: scale y.")
    share, z2, scale2 = weight / weight.sum(), z[:, None] ** 2, np.ones(len(nu))
    for _ in range(50):  # fixed points of reweighted mean squares
        before = scale2
        scale2 = share @ ((nu + 1) / (nu + z2 / scale2) * z2)
        scale2 = np.maximum(scale2, 1e-12)  # if most residuals are zero, the likelihood is unbounded at zero
        if (np.abs(scale2 - before) <= 1e-12 * before).all():
            break
    density = -(nu + 1) / 2 * (share @ np.log1p(z2 / (nu * scale2))) - np.log(nu * scale2) / 2 - betaln(nu / 2, 0.5)
    best = density.argmax()
    return StudentLaw(float(nu[best]), float(scale2[best] * nu[best] / (nu[best] - 2)))


# ---------------------------------------------------------------------- parameters
def resolve_noise(noise, auto=False):
    """Unfitted Noise from a name, a number or a Noise; "auto" is kept if it is allowed."""
    if isinstance(noise, Noise):
        return clone(noise)
    if isinstance(noise, str):
        if noise in _BY_NAME:
            return _BY_NAME[noise]()
        if noise == "auto" and auto:
            return noise
        if noise == "cv":
            raise ValueError("noise='cv' needs out-of-fold residuals; wrap this RibbonRegressor in a RibbonCV.")
    elif isinstance(noise, Real) and np.isfinite(noise) and noise >= 0:
        return ConstantNoise(noise)
    names = ", ".join(map(repr, (["auto"] if auto else []) + list(_BY_NAME)))
    raise ValueError(f"noise must be {names}, 'cv' inside a RibbonCV, a number >= 0 or a Noise object, got {noise!r}.")


def is_covariance(noise):
    """Whether the noise is a matrix."""
    return not isinstance(noise, str | Noise) and np.ndim(noise) == 2


def check_covariance(noise, m):
    """Variances (m,) and correlations (m, m) of a user's covariance matrix."""
    covariance = np.asarray(noise, dtype=float)
    fine = covariance.shape == (m, m) and np.isfinite(covariance).all() and np.allclose(covariance, covariance.T)
    if not fine or np.linalg.eigvalsh(covariance).min() < -1e-10 * np.abs(covariance).max():
        raise ValueError(
            f"noise must be a symmetric ({m}, {m}) covariance without negative eigenvalues, got {noise!r}."
        )
    return np.diag(covariance), correlation_of(covariance)


def correlation_of(covariance):
    """Correlations (m, m) from a covariance; zero if a variance is zero."""
    std = np.sqrt(np.diag(covariance))
    std = np.where(std > 0, std, np.inf)
    correlation = np.clip(covariance / std[:, None] / std, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return correlation


def check_law(law):
    """Refuse a ``law`` that is no NoiseLaw, no name, and no sequence of these; returns a tuple for a sequence."""
    if isinstance(law, NoiseLaw) or (isinstance(law, str) and law in get_args(LawName)):
        return law
    if isinstance(law, tuple | list) and len(law):
        return tuple(map(check_law, law))  # one for each output
    names = ", ".join(map(repr, get_args(LawName)))
    raise ValueError(f"law must be {names} or an object such as skribbon.noise.StudentLaw(5.0), got {law!r}.")
