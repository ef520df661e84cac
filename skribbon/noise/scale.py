"""Observation noise: its scale at every row, and the shape of its distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from operator import attrgetter
from typing import Any, Self, get_args

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.special import betaln
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from .._core.rows import row_blocks
from .._laws import EmpiricalLaw, NoiseLaw, NormalLaw, StudentLaw
from .._laws.shapes import is_spread, sample_quantiles
from .._utils.threads import limit_blas
from .._utils.typing import FloatArray, LawName, MatrixLike

SAMPLE = 5000  # rows that suffice to learn how the noise depends on x, and its shape


class Noise(BaseEstimator):
    r"""Scale of the observation noise: the dispersion :math:`\phi(x)`.

    That is the variance of a least-squares model's noise, and in general

    .. math:: \mathrm{Var}(y \mid x) = \phi(x) V(\mu(x)), \qquad V = 1 \text{ for least squares.}

    To add a noise model, write ``fit`` and ``predict``, and pass an instance as ``noise=`` to RibbonRegressor.

    Examples
    --------
    >>> from skribbon.noise import Noise
    >>> class MedianNoise(Noise):
    ...     def fit(self, training):
    ...         self.dispersion_ = np.median(training.squared_residuals) / 0.455  # the median of a squared normal
    ...         return self
    ...     def predict(self, X):
    ...         return self.dispersion_
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    >>> RibbonRegressor(noise=MedianNoise()).fit(X, y).predict_std(X[:1], kind="aleatoric").round(2)
    array([0.72])
    """

    def fit(self, training: Any) -> Self:
        """Learn from the training rows.

        Parameters
        ----------
        training : object
            With ``squared_residuals``, ``leverages`` and ``growth`` (n_rows,), the last being the factor by which each
            residual grows under the fit to all other rows, or groups; ``grown_mean_square(power)``, the mean of
            ``squared_residuals * growth**power`` for the powers 1 and 2, which also works for rows on Dask; ``rows``
            with ``X``, ``weight`` and ``groups``; ``chi2``, the sum of squared residuals, ``n``, the number of
            observations, and ``mean_leverage``.

        Returns
        -------
        self : Noise
        """
        raise TypeError(f"{type(self).__name__} must define fit(training).")

    def predict(self, X: MatrixLike) -> float | FloatArray:
        """Dispersion at new rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as the transformers of a pipeline leave them.

        Returns
        -------
        float or ndarray of shape (n_samples,)
        """
        raise TypeError(f"{type(self).__name__} must define predict(X).")


class ConstantNoise(Noise):
    """A given dispersion, the same everywhere.

    Parameters
    ----------
    dispersion : float, default=1.0

    Attributes
    ----------
    dispersion_ : float

    Examples
    --------
    >>> from skribbon.noise import ConstantNoise
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    >>> ribbon = RibbonRegressor(noise=ConstantNoise(0.25)).fit(X, y)  # noise=0.25 says the same
    >>> ribbon.predict_std(X[:1], kind="aleatoric")
    array([0.5])
    """

    def __init__(self, dispersion: float = 1.0):
        self.dispersion = dispersion

    def fit(self, training: Any) -> Self:
        self.dispersion_ = float(self.dispersion)
        return self

    def predict(self, X: MatrixLike) -> float:
        return self.dispersion_


class TrainNoise(ConstantNoise):
    r"""Sum of squared residuals divided by n - 1, as in the paper; too small for a flexible model.

    .. math:: \hat\sigma^2 = \frac{1}{n - 1} \sum_i r_i^2

    Attributes
    ----------
    dispersion_ : float

    Examples
    --------
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    >>> round(RibbonRegressor(noise="train").fit(X, y).noise_.dispersion_, 3)
    0.541
    """

    def __init__(self):
        pass

    def fit(self, training: Any) -> Self:
        if training.n <= 1 + 1e-6:
            raise ValueError(
                f"noise='train' divides by n - 1 and needs two rows, got n_samples={training.n:g}. sample_weight means "
                "frequency: scale weights to sum to the number of rows."
            )
        self.dispersion_ = float(training.chi2 / (training.n - 1))
        return self


class DofNoise(TrainNoise):
    r"""Sum of squared residuals divided by n minus the sum of leverages: unbiased for the noise alone.

    .. math:: \hat\sigma^2 = \frac{1}{n - \sum_i h_i} \sum_i r_i^2

    With groups, it is the mean of :math:`r_i r_i^{(-g)}`: each residual times that of the fit without the row's group.

    Attributes
    ----------
    dispersion_ : float

    Examples
    --------
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    >>> round(RibbonRegressor(noise="dof").fit(X, y).noise_.dispersion_, 3)
    0.676
    """

    def fit(self, training: Any) -> Self:
        self.dispersion_ = dof_dispersion(training)
        return self


class LooNoise(TrainNoise):
    r"""Mean square of leave-one-out residuals.

    .. math:: \hat\sigma^2 = \frac1n \sum_i \left(\frac{r_i}{1 - h_i}\right)^2,

    which is noise *plus* estimation error, so that the epistemic part is counted twice. With groups, residuals are
    those of the fits to all other groups.

    Attributes
    ----------
    dispersion_ : float

    Examples
    --------
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    >>> round(RibbonRegressor(noise="loo").fit(X, y).noise_.dispersion_, 3)
    0.867
    """

    def fit(self, training: Any) -> Self:
        self.dispersion_ = training.grown_mean_square(2)
        return self


class HeteroskedasticNoise(Noise):
    r"""Noise that depends on x as far as unseen rows support it.

    Squared residuals divided by 1 - h_i, which are unbiased for the noise variance, are regressed on x with a gamma
    loss. The result g(x) enters as

    .. math:: \phi(x) = c\, g(x)^s, \qquad 0 \le s \le 1,

    with s chosen by the log score of g on unseen rows; s = 0, constant noise, unless the best s is better by more than
    one standard error. A log-linear g is tried first, with leave-one-out in closed form; boosted trees, for at least
    400 rows and at most 200 columns, replace it by the same rule. At most 5,000 rows are used.

    Parameters
    ----------
    regressor : regressor, default=None
        Any regressor with positive predictions, used instead of those two. Sparse X is made dense for a regressor that
        does not support it.
    cv : int, default=5
        Number of folds for the predictions of unseen rows.

    Attributes
    ----------
    shrinkage_ : float
        The exponent s: 0 is constant noise, 1 the regressor unchanged.
    regressor_ : regressor
        Fitted to squared residuals relative to their mean; absent if ``shrinkage_`` is 0.
    dispersion_ : float
        Mean of the squared residuals divided by 1 - h_i; if ``shrinkage_`` is 0, the dispersion of noise="dof".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 2, size=(400, 1))
    >>> y = X[:, 0] + np.exp(X[:, 0]) * rng.normal(size=400)
    >>> ribbon = RibbonRegressor(noise="heteroskedastic", law="normal").fit(X, y)
    >>> ribbon.predict_std([[0.0], [2.0]], kind="aleatoric").round(1)
    array([1. , 7.2])
    """

    def __init__(self, regressor: BaseEstimator | None = None, cv: int = 5):
        self.regressor = regressor
        self.cv = cv

    def fit(self, training: Any) -> Self:
        self.fit_held_out(training)
        return self

    def fit_held_out(self, training: Any) -> FloatArray:
        """Fit, and return the dispersions that the training rows would have had as unseen rows.

        Parameters
        ----------
        training : object
            As in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_rows,)
            The dispersions.
        """
        rows, counts = training.rows, training.rows.weight > 0  # a row of weight zero does not count
        X, weight = (rows.X, rows.weight) if counts.all() else (rows.X[counts], rows.weight[counts])
        self.dispersion_ = dof_dispersion(training)
        self.shrinkage_, self.scale_ = 0.0, 1.0
        dispersion = np.full(len(counts), self.dispersion_)
        squared = (training.squared_residuals * training.growth)[counts]
        mean = np.average(squared, weights=weight)
        if mean <= 0 or (self.regressor is not None and len(weight) < max(2 * self.cv, 3)):
            return dispersion
        squared = np.maximum(squared / mean, 1e-6)  # a gamma loss takes no zeros
        group = None if rows.groups is None else rows.groups.code[counts]
        best = ScaleChoice(np.ones(len(weight)), squared, weight, group)
        for regressor, screen in self._candidates(len(weight), X.shape[1], weight.sum()):
            unseen = self._unseen(regressor, X, best, screen)
            choice = best if unseen is None else best.shrunk(unseen)
            if choice.exponent > 0 and choice.beats(best):
                best, chosen = choice, regressor
        self.shrinkage_, self.scale_ = best.exponent, best.scale
        if self.shrinkage_ > 0:
            self.dispersion_, linear = float(mean), isinstance(chosen, LogLinearScale)  # which is fitted already
            self.regressor_ = chosen if linear else _fitted(chosen, X, squared, weight)
            self.range_ = best.g.min(), best.g.max()  # not trusted beyond the range seen on unseen rows
        dispersion[counts] = self.dispersion_ * best.phi
        return dispersion

    def _candidates(self, n, d, total):
        """Regressors to try, each with a faster one that tells in one fold whether it is worthwhile, or None."""
        if self.regressor is not None:
            return [(self.regressor, None)]
        found = [(LogLinearScale(), None)] if d <= min(50, total / 10) else []  # ten rows for each coefficient
        if n >= 400 and d <= 200:  # trees need many rows, and take dense columns
            from sklearn.ensemble import HistGradientBoostingRegressor

            trees = HistGradientBoostingRegressor(
                loss="gamma", learning_rate=0.1, max_iter=50, max_leaf_nodes=8, max_bins=63, early_stopping=False
            )
            found.append((trees, clone(trees).set_params(learning_rate=0.2, max_iter=15)))
        return found

    def _unseen(self, regressor, X, best, screen):
        """Predictions for unseen rows; None if a ``screen`` does no better in a first fold than the best so far."""
        target, weight = best.squared, best.weight
        if isinstance(regressor, LogLinearScale):
            return regressor.fit(_as_taken(X, regressor), target, weight).unseen_
        alone = np.arange(len(target)) if best.group is None else best.group
        g, folds = np.empty_like(target), list(folds_of_groups(self.cv, alone))

        def predictions(regressor, train, test):
            fitted = _fitted(regressor, X[train], target[train], weight[train])
            return fitted.predict(_as_taken(X[test], fitted))

        if screen is not None:
            there, unseen = best.at(folds[0][1]), predictions(screen, *folds[0])
            if not np.all(unseen > 0) or not there.shrunk(unseen).beats(there):
                return None
        for train, test in folds:
            g[test] = predictions(regressor, train, test)
        if np.all(g > 0):
            return g
        if screen is None:
            raise ValueError(f"{regressor!r} predicted a variance that is not positive; use a gamma or log loss.")
        return None  # trees may also underflow

    def predict(self, X: MatrixLike) -> float | FloatArray:
        if self.shrinkage_ == 0:
            return self.dispersion_
        g = np.clip(self.regressor_.predict(_as_taken(X, self.regressor_)), *self.range_)
        return self.dispersion_ * self.scale_ * g**self.shrinkage_


class JointNoise(Noise):
    r"""Noise of several outputs: each as if it were alone, and one correlation matrix for all rows.

    .. math:: \Sigma_\varepsilon(x) = \mathrm{diag}(\phi(x))^{1/2}\, C\, \mathrm{diag}(\phi(x))^{1/2}

    C is the correlation matrix of the residuals, each in units of its own scale. A fit to y (n, m) has this as
    ``noise_``.

    Parameters
    ----------
    noises : tuple of Noise
        Fitted, one per output.
    correlation : ndarray of shape (m, m)

    Examples
    --------
    >>> X, y = load_linnerud(return_X_y=True)
    >>> noise = RibbonRegressor(noise="dof").fit(X, y).noise_
    >>> noise.correlation.round(2)
    array([[ 1.  ,  0.86, -0.28],
           [ 0.86,  1.  , -0.24],
           [-0.28, -0.24,  1.  ]])
    """

    def __init__(self, noises: tuple[Noise, ...], correlation: FloatArray):
        self.noises = noises
        self.correlation = correlation

    @property
    def dispersion_(self) -> FloatArray:
        """Covariance (m, m) of the noise at the mean dispersions."""
        std = np.sqrt([noise.dispersion_ for noise in self.noises])
        return std[:, None] * self.correlation * std

    def fit(self, training: Any) -> Self:
        return self

    def predict(self, X: MatrixLike) -> FloatArray:
        """Dispersions at new rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
        """
        n = np.shape(X)[0]
        return np.stack([np.broadcast_to(noise.predict(X), n) for noise in self.noises], axis=1)

    def covariance(self, X: MatrixLike) -> FloatArray:
        """Covariance of the noise at new rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_outputs)
        """
        std = np.sqrt(self.predict(X))
        return std[:, :, None] * self.correlation * std[:, None, :]


@dataclass(frozen=True, eq=False)
class ScaleChoice:
    """A scale c g(x)^s with its normal log score at unseen rows."""

    g: np.ndarray
    squared: np.ndarray
    weight: np.ndarray
    group: np.ndarray | None
    exponent: float = 0.0
    scale: float = 1.0

    @property
    def phi(self):
        return self.scale * self.g**self.exponent

    def at(self, rows):
        """Choice with its score at some rows."""
        group = None if self.group is None else self.group[rows]
        return replace(self, g=self.g[rows], squared=self.squared[rows], weight=self.weight[rows], group=group)

    def shrunk(self, g):
        """Scale c g(x)^s with the best power s of another g."""
        exponents = np.linspace(0, 1, 11)
        powers = np.stack([g**s for s in exponents])
        scales = np.average(self.squared / powers, axis=1, weights=self.weight)
        losses = np.average(_losses(scales[:, None] * powers, self.squared), axis=1, weights=self.weight)
        best = losses.argmin()
        return replace(self, g=g, exponent=exponents[best], scale=scales[best])

    def beats(self, other):
        """Whether by more than one standard error."""
        gain = _losses(other.phi, self.squared) - _losses(self.phi, self.squared)
        return is_better(gain, self.weight, self.group)


def _losses(phi, squared):
    """Twice the negative log density of each row, up to a constant."""
    return np.log(phi) + squared / phi


class LogLinearScale(BaseEstimator):
    """log g(x) linear in standardized columns: a penalised gamma regression, with leave-one-out in closed form.

    Attributes
    ----------
    unseen_ : ndarray of shape (n,)
        Predictions of each training row without itself, by one Newton step.
    """

    def fit(self, X, squared, weight):
        squared = np.minimum(squared, 10.0)  # a single extreme row must not change the scale
        self.mean_ = np.average(X, axis=0, weights=weight)
        spread = np.sqrt(np.average((X - self.mean_) ** 2, axis=0, weights=weight))
        self.spread_ = np.where(spread > 1e-9 * np.abs(self.mean_), spread, np.inf)
        Z = self._columns(X)
        penalty = np.r_[np.ones(Z.shape[1] - 1), 0.0]
        ridge = np.diag(penalty + 1e-9 * weight.sum())
        beta = np.zeros(Z.shape[1])
        for _ in range(50):  # convex; steps with the expected curvature would need hundreds if rows are few
            ratio = squared * np.exp(-Z @ beta)
            factor = cho_factor((Z.T * (weight * ratio)) @ Z + ridge)
            step = cho_solve(factor, Z.T @ (weight * (ratio - 1)) - penalty * beta)
            beta = beta + step / max(1.0, np.abs(Z @ step).max())
            if np.abs(step).max() < 1e-8:
                break
        self.coef_ = beta
        # the expected curvature of a gamma loss behind a logarithm does not depend on beta
        factor = cho_factor((Z.T * weight) @ Z + ridge)
        h = np.minimum(np.einsum("ij,ji->i", Z, cho_solve(factor, Z.T)), 0.99)
        self.unseen_ = np.exp(Z @ beta - h / (1 - h) * (squared * np.exp(-Z @ beta) - 1))
        return self

    def _columns(self, X):
        return np.c_[(X - self.mean_) / self.spread_, np.ones(len(X))]

    def predict(self, X):
        log_g = np.empty(len(X))
        for rows in row_blocks(len(X), X.shape[1], 500):  # so many stay in the cache
            log_g[rows] = (X[rows] - self.mean_) / self.spread_ @ self.coef_[:-1]
        return np.exp(np.clip(log_g + self.coef_[-1], -700, 700))  # far rows would overflow


def _fitted(regressor, X, target, weight):
    regressor = clone(regressor)
    uniform = np.ptp(weight) == 0  # boosting takes a hundred times longer with weights, even equal ones
    weights = {} if uniform or not has_fit_parameter(regressor, "sample_weight") else {"sample_weight": weight}
    with limit_blas():  # few rows
        return regressor.fit(_as_taken(X, regressor), target, **weights)


def _as_taken(X, regressor):
    """X, dense if the regressor takes no sparse matrix."""
    return X.toarray() if sparse.issparse(X) and not get_tags(regressor).input_tags.sparse else X


def dof_dispersion(training):
    """Sum of squared residuals divided by n minus the sum of leverages.

    This assumes independent rows. With groups, products of residuals with those of the fit without the group are
    unbiased, whatever a group's rows have in common.
    """
    if training.rows.groups is not None:
        dispersion = training.grown_mean_square(1)
        if dispersion > 0:
            return dispersion
    return float(training.chi2 / (training.n * (1 - training.mean_leverage)))


def folds_of_groups(n_folds, group):
    """Train and test rows of shuffled folds that split no group."""
    codes, place = np.unique(group, return_inverse=True)
    for train, test in KFold(min(n_folds, len(codes)), shuffle=True, random_state=0).split(codes):
        yield np.flatnonzero(np.isin(place, train)), np.flatnonzero(np.isin(place, test))


def is_better(gain, weight, group=None):
    """Whether a gain per row is more than one standard error above zero on average."""
    return bool(np.average(gain, weights=weight) > standard_error(gain, weight, group))


def standard_error(values, weight, group=None):
    """Standard error of the mean of values that count ``weight`` times; values of one group are not independent.

    Nor are those that one row of a group stands for, so that a group of its own is not the same as no groups.
    """
    off, n = values - np.average(values, weights=weight), weight.sum()
    if group is None:
        return float(np.sqrt(np.average(off**2, weights=weight) / n))
    return float(np.sqrt(np.sum(np.bincount(group, weights=weight * off) ** 2)) / n)


# ---------------------------------------------------------------------- the shape of the noise
@dataclass(frozen=True, eq=False)
class Standardized:
    """Held-out residuals in units of their own predicted standard deviation.

    Attributes
    ----------
    z, weight : ndarray of shape (n,)
    share : float
        Share of the noise in those variances; the rest is the uncertainty of the predictions.
    """

    z: np.ndarray
    weight: np.ndarray
    share: float

    @classmethod
    def of(cls, residuals, dispersion, variance, weight):
        """Standardise residuals (n,) by the dispersion of the observations plus the variance of the predictions."""
        total = dispersion + variance
        kept = (weight > 0) & (total > 0) & np.isfinite(residuals)
        if not kept.any():
            return cls(np.zeros(0), np.zeros(0), 1.0)
        share = dispersion[kept] / total[kept]
        z, weight = residuals[kept] / np.sqrt(total[kept]), weight[kept]
        typical = 0.95 * float(sample_quantiles(share, weight, 0.1))  # most rows have at least this share
        return cls(z, weight, max(typical, 1e-3))

    def of_unit_size(self):
        """Residuals scaled to a mean square of one.

        If the noise was measured on these very residuals, its scale is known already; alpha, which scales the other
        part of their variance, must not change its shape.
        """
        size = np.sqrt(np.average(self.z**2, weights=self.weight)) if self.weight.sum() > 0 else 0.0
        return replace(self, z=self.z / size) if size > 0 else self

    def law(self, name):
        """The fitted law of that name; "auto" is the first of normal, Student and empirical that no other beats."""
        if name == "normal" or (name == "auto" and not is_spread(self.z, self.weight)):
            return NormalLaw()
        if name == "student":
            return best_student(self.z, self.weight)
        empirical = EmpiricalLaw(self.z, self.weight, self.share)
        if name == "empirical":
            return empirical
        return simplest([NormalLaw(), best_student(self.z, self.weight)], empirical)


def simplest(laws, empirical):
    """The first law, unless a later one is better by a standard error; each is scored at the sample's quantiles."""
    at = empirical.centres
    share = np.full(len(at), empirical.n / len(at))
    best, score = laws[0], laws[0].logpdf(at)
    for law, other in [(law, law.logpdf(at)) for law in laws[1:]] + [(empirical, empirical.log_score)]:
        if is_better(other - score, share):
            best, score = law, other
    return best


def best_student(z, weight):
    """Degrees of freedom and variance by maximum likelihood.

    A variance taken from the mean square would follow the few largest residuals, which the tails already explain.
    Without residuals, nothing is known about the tails.
    """
    nu = np.array([2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0])  # above 20, hardly different from normal noise
    if not z.any():
        return StudentLaw(20.0)
    share, z2, scale2 = weight / weight.sum(), z[:, None] ** 2, np.ones(len(nu))
    for _ in range(50):  # fixed points of reweighted mean squares
        before = scale2
        scale2 = share @ ((nu + 1) / (nu + z2 / scale2) * z2)
        scale2 = np.maximum(scale2, 1e-12)  # if most residuals are zero, the likelihood has its maximum at a point mass
        if (np.abs(scale2 - before) <= 1e-12 * before).all():
            break
    density = -(nu + 1) / 2 * (share @ np.log1p(z2 / (nu * scale2))) - np.log(nu * scale2) / 2 - betaln(nu / 2, 0.5)
    best = density.argmax()
    return StudentLaw(float(nu[best]), float(scale2[best] * nu[best] / (nu[best] - 2)))


# ---------------------------------------------------------------------- user input
_BY_NAME = {"train": TrainNoise, "dof": DofNoise, "loo": LooNoise, "heteroskedastic": HeteroskedasticNoise}


def resolve_noise(noise, auto=False):
    """An unfitted Noise object from a name, a number or an object; "auto" may stay."""
    if isinstance(noise, Noise):
        return clone(noise)
    if auto and isinstance(noise, str) and noise == "auto":
        return noise
    if isinstance(noise, str) and noise in _BY_NAME:
        return _BY_NAME[noise]()
    if isinstance(noise, Real) and np.isfinite(noise) and noise >= 0:
        return ConstantNoise(noise)
    if isinstance(noise, str) and noise == "cv":
        raise ValueError("noise='cv' is estimated from out-of-fold residuals; wrap this RibbonRegressor in a RibbonCV.")
    names = ", ".join(map(repr, (["auto"] if auto else []) + list(_BY_NAME)))
    raise ValueError(f"noise must be {names}, 'cv' inside a RibbonCV, a number >= 0 or a Noise object, got {noise!r}.")


def fit_noise(noise, training):
    """A fitted Noise, a sample of the training rows, and the dispersions that these would have had as unseen rows.

    "auto" checks whether the noise of an additive model depends on x, if there are enough rows to tell. Only that check
    uses the sample; everything else is estimated from all rows.
    """
    sample = training.sample(SAMPLE)
    if isinstance(noise, str):
        tells = training.has_exact_leverages and training.n >= 50 and training.mean_leverage < 0.5
        noise = HeteroskedasticNoise() if tells and training.rows.model.loss.law(1.0).location else DofNoise()
    if isinstance(noise, HeteroskedasticNoise):
        return noise, sample, noise.fit_held_out(sample)
    return noise, sample, np.broadcast_to(noise.fit(training).predict(sample.rows.X), len(sample.rows.y))


def is_covariance(noise):
    """Whether the noise was given as a matrix."""
    return not isinstance(noise, str | Noise) and np.ndim(noise) == 2


def check_covariance(noise, m):
    """Variances (m,) and correlations (m, m) of a user's covariance matrix."""
    covariance = np.asarray(noise, dtype=float)
    fine = covariance.shape == (m, m) and np.isfinite(covariance).all() and np.allclose(covariance, covariance.T)
    if not fine or np.linalg.eigvalsh(covariance).min() < -1e-10 * np.abs(covariance).max():
        raise ValueError(
            f"noise of {m} outputs may be a covariance: a symmetric ({m}, {m}) matrix without negative eigenvalues, "
            f"got {noise!r}."
        )
    return np.diag(covariance), correlation_of(covariance)


def correlation_of(covariance):
    """Correlations (m, m); zero for anything that does not vary."""
    std = np.sqrt(np.diag(covariance))
    std = np.where(std > 0, std, np.inf)
    correlation = np.clip(covariance / std[:, None] / std, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return correlation


def fit_noises(noise, parts, products, sample):
    """A fitted JointNoise, and for each output a sample of rows with their dispersions as unseen rows.

    Parameters
    ----------
    noise : Noise, "auto" or covariance
    parts : sequence of training rows, one per output
    products : ndarray of shape (m, m)
        Sums of products of residuals over all rows.
    sample : Rows
        The rows of which fit_noise returns a sample, with all outputs.
    """
    correlation = np.eye(len(parts)) if type(noise) is ConstantNoise else None  # a number means no correlation
    asked = [clone(noise) if isinstance(noise, Noise) else noise for _ in parts]
    if is_covariance(noise):
        variances, correlation = check_covariance(noise, len(parts))
        asked = [ConstantNoise(float(variance)) for variance in variances]
    told = [fit_noise(own, part) for own, part in zip(asked, parts, strict=True)]
    if correlation is None:
        dispersion = np.stack([dispersion for *_, dispersion in told], axis=1)
        if np.ptp(dispersion, axis=0).any():
            r = sample.map(attrgetter("u"))
            z = r * np.sqrt(np.divide(sample.weight[:, None], dispersion, out=np.zeros_like(r), where=dispersion > 0))
            products = z.T @ z
        correlation = correlation_of(products)
    return JointNoise(tuple(own for own, *_ in told), correlation), told


def check_law(law):
    """The name of a law, or a law."""
    if isinstance(law, NoiseLaw) or (isinstance(law, str) and law in get_args(LawName)):
        return law
    if isinstance(law, tuple | list) and len(law):
        return tuple(map(check_law, law))  # one for each output
    names = ", ".join(map(repr, get_args(LawName)))
    raise ValueError(f"law must be {names} or a law of skribbon.noise such as StudentLaw(5.0), got {law!r}.")
