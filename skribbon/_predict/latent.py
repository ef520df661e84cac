"""Uncertain raw predictions: their covariance row by row, joint draws, and degrees of freedom."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from .._core.rows import row_blocks
from .._utils.typing import FloatArray


def no_draws(n_samples: int, rng: Any) -> FloatArray:
    raise ValueError("There are no joint draws of leave-one-out predictions, each of which is of a fit of its own.")


def _some_degrees(latent, rows):
    return latent.df[rows]


def _divided_draws(source, temperature, n_samples, rng):
    return source(n_samples, rng) / temperature


@dataclass(frozen=True, eq=False)
class Latent:
    """The raw prediction of some rows, before the link or softmax.

    Attributes
    ----------
    f : ndarray of shape (n, k)
        Raw prediction.
    covariance : ndarray of shape (..., n, k, k)
        J_x Cov(Delta theta_w) J_x', row by row; a leading axis is a path of alphas.
    draws : ndarray of shape (..., n, k, B) or None
        Raw predictions at the stored parameter draws; None where the Gaussian limit stands for them.
    source : callable
        ``source(n_samples, rng)`` gives joint draws of all rows, (n, k, n_samples).
    freedom : callable or None
        ``freedom()`` gives the degrees of freedom of the covariance, (n,), where they are not infinite.
    """

    f: FloatArray
    covariance: FloatArray
    draws: FloatArray | None = None
    source: Callable[[int, Any], FloatArray] = no_draws
    freedom: Callable[[], FloatArray] | None = None

    @cached_property
    def df(self):
        """Degrees of freedom (n,) of the covariance."""
        return np.full(len(self.f), np.inf) if self.freedom is None else self.freedom()

    @classmethod
    def concatenate(cls, pieces, source=no_draws, freedom=None):
        """Rows of several into one, with a source of joint draws."""
        if len(pieces) == 1:
            return replace(pieces[0], source=source, freedom=freedom)
        draws = None if pieces[0].draws is None else np.concatenate([piece.draws for piece in pieces])
        f, covariance = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("f", "covariance"))
        return cls(f, covariance, draws, source, freedom)

    def scaled(self, factors):
        """At other alphas: deviations from f multiplied by sqrt(factor); several factors (A,) make a leading axis."""
        factors = np.asarray(factors, dtype=float)
        c = factors.reshape(*factors.shape, *[1] * self.covariance.ndim)
        draws = None
        if self.draws is not None:
            f = self.f[:, :, None]
            draws = f + np.sqrt(c) * (self.draws - f)
        return Latent(self.f, c * self.covariance, draws, freedom=self.freedom)

    def take(self, rows):
        """Some rows, without a source of joint draws."""
        draws = None if self.draws is None else self.draws[rows]
        freedom = None if self.freedom is None else partial(_some_degrees, self, rows)
        return Latent(self.f[rows], self.covariance[rows], draws, freedom=freedom)

    def moved_to(self, f):
        """The same spread around other raw predictions."""
        draws = None if self.draws is None else self.draws + (f - self.f)[:, :, None]
        return Latent(f, self.covariance, draws)

    def over(self, temperature):
        """All raw predictions divided by a temperature."""
        draws = None if self.draws is None else self.draws / temperature
        source = partial(_divided_draws, self.source, temperature)
        return Latent(self.f / temperature, self.covariance / temperature**2, draws, source, self.freedom)


@dataclass(frozen=True, eq=False)
class RawDraws:
    """Joint draws of the raw prediction of all rows of prepared X: each is one function over all of them."""

    model: Any
    ribbon: Any
    X: Any

    def __call__(self, n_samples, rng):
        return self.at(self.ribbon.draw(n_samples, rng))

    def at(self, shifts):
        """At given parameters, theta plus shifts (p, B): (n, k, B)."""
        width = max(self.model.row_width, self.model.n_outputs * shifts.shape[1])
        blocks = row_blocks(self.X.shape[0], width)
        model = self.model
        return np.concatenate([self.ribbon.predict(model, model.rows(self.X[rows]), shifts) for rows in blocks])


@dataclass(frozen=True, eq=False)
class Degrees:
    """Degrees of freedom (n,) of the variance of raw predictions, the fewest of those of a row."""

    model: Any
    ribbon: Any
    X: Any

    def __call__(self):
        freedom, n, model = self.ribbon.freedom, self.X.shape[0], self.model
        if not freedom.width:
            return np.full(n, freedom.most)
        blocks = row_blocks(n, max(model.row_width, model.n_outputs * freedom.width))
        return np.concatenate([freedom.of(model.tangent(model.rows(self.X[rows])).jvp).min(axis=1) for rows in blocks])
