"""Fit the noise around the predictions to training rows: its scale, its law, and the scale of the target."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from .._core.rows import EASY_LEVERAGE
from .._core.training import sampled
from .._laws.shapes import FEWEST, NORMAL
from .._predict.joint import output_latent
from .._predict.target import TargetScale
from ..exceptions import FamilyWarning, warn_user
from .scale import SAMPLE, HeteroskedasticNoise, Standardized, fit_noise, fit_noises

CLEARLY = 2.5  # warn from this Kolmogorov distance times sqrt(n): sampling variability reaches it once in 100,000 fits
MATTERS = 0.05  # never warn of a smaller distance: it hardly changes intervals, however many rows show it


def fit_noise_and_law(noise, law, model, latent, training):
    """Fit noise, its law and the scale of the target; returns the fitted attributes as a dict.

    ``latent(X)`` gives the raw predictions of prepared rows X.
    """
    stated = not isinstance(noise, str | HeteroskedasticNoise)  # a user who states the noise means all of it
    if model.loss.by_output:
        return _fit_outputs(noise, law, model, latent, training, stated)
    noise, sample, dispersion = fit_noise(noise, training.outputs[0])
    law = fit_law(law, model, noise, lambda: latent(sample.rows.X), sample, dispersion, stated)
    return {"noise_": noise, "law_": law, "target_scale_": TargetScale.of(model, training.rows.targets())}


def _fit_outputs(noise, law, model, latent, training, stated):
    """Fit noise, laws and target scales of several outputs; returns the fitted attributes as a dict."""
    parts, sample = training.outputs, sampled(training.rows, SAMPLE)
    noise, fitted = fit_noises(noise, parts, training.moments.chi2, sample)
    at_sample = cache(lambda: latent(sample.X))
    laws, scales = [], []
    for j, (own, part, (own_noise, some, dispersion)) in enumerate(zip(model.outputs, parts, fitted, strict=True)):
        asked = law[j] if isinstance(law, tuple) else law
        own_latent = partial(_output_of, at_sample, j)
        laws.append(fit_law(asked, own, own_noise, own_latent, some, dispersion, stated))
        scales.append(TargetScale.of(own, part.rows.targets()))
    return {"noise_": noise, "law_": tuple(laws), "target_scale_": tuple(scales)}


def _output_of(latent, j):
    return output_latent(latent(), j)


def fit_law(law, model, noise, latent, training, dispersion, stated):
    """Law of the noise around a sample of training rows, given the dispersions predicted for them as unseen rows.

    ``latent()`` gives the raw predictions of these rows.
    """
    rows = training.rows
    automatic = isinstance(law, str) and law == "auto"
    if not model.loss.law(1.0).location:
        if not automatic:
            name = type(model.loss).__name__
            raise ValueError(f"law={law!r} is for additive noise, but {name} has the law of its family; use 'auto'.")
        if not stated:
            warn_of_family(model, training.sample(2500), noise)
        return NORMAL
    if not isinstance(law, str):
        return law
    if law == "normal" or (automatic and (stated or not _flatters_little(training))):
        return NORMAL
    f = training.left_out
    dispersion = dispersion * model.loss.noise_scale(f)
    # a row with a leverage above 0.5 determines most of its own prediction, and leaving it out tells nothing
    residuals, telling = rows.y - model.loss.mean(f[:, 0]), np.where(training.leverages < 0.5, rows.weight, 0.0)
    return Standardized.of(residuals, dispersion, latent().covariance[:, 0, 0], telling).of_unit_size().law(law)


def warn_of_family(model, training, noise):
    """Warn if randomized quantile residuals of left-out rows clearly contradict the model's family.

    Rows of fractional weight are left out: a rate weighted by its exposure has a different law from a single count.
    """
    rows = training.rows
    if not _flatters_little(training) or rows.n < FEWEST or np.any(rows.weight % 1):
        return
    f = training.left_out[:, 0]
    law = model.loss.law(np.broadcast_to(noise.predict(rows.X), len(f))).conditional(f)
    below, upto = law.cdf_below(rows.y), law.cdf(rows.y)
    u = below + (upto - below) * np.random.default_rng(0).uniform(size=len(f))
    order, share = np.argsort(u), rows.weight / rows.n
    reached = np.cumsum(share[order])
    distance = max(np.max(reached - u[order]), np.max(u[order] - reached + share[order]))  # Kolmogorov's
    n = min(rows.n, len(u))  # copies of a row are no further evidence
    if distance > max(CLEARLY / np.sqrt(n), MATTERS):
        low, high = share @ (u < 0.05), share @ (u > 0.95)
        warn_user(
            f"The family of the base model does not describe the target: {low:.0%} of the rows lie below its 5 % "
            f"quantiles and {high:.0%} above its 95 % quantiles, and their distribution function is off by "
            f"{distance:.2f}. Use another family, or fit a transformed target by least squares.",
            FamilyWarning,
        )


def _flatters_little(training):
    """Whether leave-one-out residuals are known and close to those of unseen rows."""
    return training.has_exact_leverages and training.mean_leverage <= EASY_LEVERAGE
