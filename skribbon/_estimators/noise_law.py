"""What the noise around the predictions looks like: its scale and its law, fitted to training rows."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from .._core.outputs import outputs_of, products_of, residuals
from .._core.rows import EASY_LEVERAGE
from .._laws.shapes import FEWEST, NORMAL
from .._predict.joint import output_latent
from .._predict.target import TargetScale
from .._utils.threads import small_products
from ..exceptions import FamilyWarning, warn_user
from ..noise.scale import OWN_SAY, SAMPLE, Standardised, fit_noise, fit_noises
from .base import latent_at, latents_at

FAMILY_SAMPLE = 2500  # rows on which a family is checked
CLEARLY = 2.5  # Kolmogorov's distance times sqrt(n): chance goes there once in 100,000
MATTERS = 0.05  # a smaller distance does not matter in practice, however many rows show it


def told_of_one(noise, law, model, ribbon, training, stated):
    """Noise, its law and the scale of the target, for a single output."""
    with small_products(len(model.theta)):
        noise, sample, dispersion = fit_noise(noise, training)
        latent = partial(latent_at, model, ribbon, sample.rows.X)
        return {
            "noise_": noise,
            "law_": fit_law(law, model, noise, latent, sample, dispersion, stated),
            "target_scale_": TargetScale.of(model, training.rows.targets()),
        }


def told_of_outputs(noise, law, model, ribbon, training, stated):
    """The same of several outputs."""
    parts, sample = outputs_of(training), training.sample(SAMPLE)
    products = products_of(training)
    noise, told = fit_noises(noise, parts, products, lambda: (sample.rows.map(residuals), sample.rows.weight))
    latent = cache(partial(latents_at, model, ribbon, sample.rows.X))
    laws, scales = [], []
    for j, (own, part, (own_noise, some, dispersion)) in enumerate(zip(model.outputs, parts, told, strict=True)):
        of_output = partial(_of_output, latent, j)
        asked = law[j] if isinstance(law, tuple) else law
        laws.append(fit_law(asked, own, own_noise, of_output, some, dispersion, stated))
        scales.append(TargetScale.of(own, part.rows.targets()))
    return {"noise_": noise, "law_": tuple(laws), "target_scale_": tuple(scales)}


def _of_output(latent, j):
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
            warn_of_family(model, training.sample(FAMILY_SAMPLE), noise)
        return NORMAL
    if not isinstance(law, str):
        return law
    if law == "normal" or (automatic and (stated or not _flatters_little(training))):
        return NORMAL
    f = training.leave_one_out()
    dispersion = dispersion * model.loss.noise_scale(f)
    residuals, telling = rows.y - model.loss.mean(f[:, 0]), np.where(training.leverages < OWN_SAY, rows.weight, 0.0)
    return Standardised.of(residuals, dispersion, latent().covariance[:, 0, 0], telling).of_unit_size().law(law)


def warn_of_family(model, training, noise):
    """Warn if randomised quantile residuals of left-out rows clearly contradict the model's family.

    Rows of fractional weight are left out: a rate weighted by its exposure has a different law from a single count.
    """
    rows = training.rows
    if not _flatters_little(training) or rows.n < FEWEST or np.any(rows.weight % 1):
        return
    f = training.leave_one_out()[:, 0]
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
    return training.curvature.knows_leverages and training.mean_leverage <= EASY_LEVERAGE
