"""Scale of the observation noise at every row."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import GammaRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from .._core import thresholds
from .._core.deals import deal, row_keys
from .._predict.held_out import HeldOut
from .._utils.compat import limit_blas
from .._utils.typing import FloatArray, MatrixLike


class Noise(BaseEstimator):
    r"""Scale of the observation noise: the dispersion :math:`\phi(x)`.

    .. math:: \mathrm{Var}(y \mid x) = \phi(x) V(\mu(x)), \qquad V = 1 \text{ for least squares.}

    To add a noise model, write ``fit`` and ``predict``, and pass an instance as ``noise=`` to RibbonRegressor.

    See Also
    --------
    ConstantNoise : A given variance.
    HeteroskedasticNoise : Noise that depends on x.
    NoiseLaw : Shape of the noise distribution.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

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

    _from_held_out = False  # whether the noise is fitted to a HeldOut record, by fit_held_out

    def fit(self, training: Any) -> Self:
        """Fit to the training rows.

        Parameters
        ----------
        training : object
            With ``squared_residuals``, ``leverages`` and ``growth`` (n_rows,), the ratio of leave-one-out to fitted
            residual; ``grown_mean_square(power)``, the mean of ``squared_residuals * growth**power`` for powers 1 and
            2, also for rows on Dask; ``rows`` with ``X``, ``y``, ``weight``, ``groups``; ``chi2``, the sum of squared
            residuals; ``n``, the number of observations; and ``mean_leverage``. If weights are exposures, squares are
            in units of an observation of weight one.

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
            Rows after the transformers of a pipeline.

        Returns
        -------
        float or ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        raise TypeError(f"{type(self).__name__} must define predict(X).")


class ConstantNoise(Noise):
    """Given dispersion for all rows.

    Parameters
    ----------
    dispersion : float, default=1.0

    Attributes
    ----------
    dispersion_ : float

    See Also
    --------
    Noise : Base class.
    DofNoise : Variance estimated from the residuals.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    >>> RibbonRegressor(noise=0.25).fit(X, y).noise_
    ConstantNoise(dispersion=0.25)
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

    See Also
    --------
    DofNoise : Allows for the number of parameters.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    References
    ----------
    * Gibson, G., Tipton, J., Rumsey, K. and Klein, N. Ribbon: Scalable Approximation and Robust Uncertainty
      Quantification.

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
            raise ValueError(f"noise='train' needs weights that sum to at least 2, got n_samples={training.n:g}.")
        self.dispersion_ = float(training.chi2 / (training.n - 1))
        return self


class DofNoise(TrainNoise):
    r"""Sum of squared residuals divided by n minus the sum of leverages: unbiased for the noise alone.

    .. math:: \hat\sigma^2 = \frac{1}{n - \sum_i h_i} \sum_i r_i^2

    With groups, it is the mean of :math:`r_i r_i^{(-g)}`, each residual times the residual without the row's group.

    See Also
    --------
    LooNoise : From leave-one-out residuals.
    HeteroskedasticNoise : Noise that depends on x.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

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

    which is noise *plus* estimation error, so the epistemic part is counted twice. With groups, each residual is from
    the fit without the row's group.

    See Also
    --------
    DofNoise : From residuals and degrees of freedom.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

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

    Squared residuals divided by 1 - h_i, which are unbiased for the noise variance, are regressed on x: first by a
    log-linear model, then, for what this leaves, by boosted trees if there are at least 400 rows and at most 200
    columns. Each regression g(x) is a factor of

    .. math:: \phi(x) = c\, g_1(x)^{s_1} g_2(x)^{s_2}, \qquad 0 \le s \le 1.

    An exponent s has the best log score on unseen rows, multiplied by a share that grows with the gain in this score:
    0 up to half a standard error, 1 from one standard error on. If all s are 0, the noise is constant. At most 5,000
    distinct rows are used. Identical rows are left out together.

    Parameters
    ----------
    regressor : regressor, default=None
        Regressor with positive predictions for g. Sparse X is made dense if it does not support sparse matrices.
    cv : int, default=None
        Number of folds for the predictions of unseen rows by trees, or by ``regressor``. None is 5, or 3 from 1,500
        rows on.

    Attributes
    ----------
    shrinkage_ : float
        The largest exponent s: 0 is constant noise, 1 is g itself.
    factors_ : tuple of (regressor, float, float, float)
        Fitted regressors, each with an exponent and the range to which its predictions are clipped. Regressors fitted
        without each fold share an exponent. Empty if ``shrinkage_`` is 0.
    dispersion_ : float
        Mean of the squared residuals divided by 1 - h_i; if ``shrinkage_`` is 0, the dispersion of noise="dof".

    See Also
    --------
    DofNoise : One variance for all rows.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 2, size=(400, 1))
    >>> y = X[:, 0] + np.exp(X[:, 0]) * rng.normal(size=400)
    >>> ribbon = RibbonRegressor(noise="heteroskedastic", law="normal").fit(X, y)
    >>> ribbon.predict_std([[0.0], [2.0]], kind="aleatoric").round(1)
    array([1.1, 7.2])
    """

    _from_held_out = True

    def __init__(self, regressor: BaseEstimator | None = None, cv: int | None = None):
        self.regressor = regressor
        self.cv = cv

    def fit(self, training: Any) -> Self:
        rows, squared = training.rows, training.squared_residuals * training.growth
        group = None if rows.groups is None else rows.groups.code
        self._fit_squares(rows.X, rows.y, squared, rows.weight, group, dof_dispersion(training))
        return self

    def fit_held_out(self, held_out: HeldOut, X: MatrixLike, dispersion: float) -> FloatArray:
        """Fit to held-out predictions; returns the dispersions of the rows as if they were unseen.

        Parameters
        ----------
        held_out : HeldOut
            Record of m rows with ``squared`` residuals.
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows after the transformers of a pipeline.
        dispersion : float
            Dispersion of constant noise.

        Returns
        -------
        ndarray of shape (m,)
        """
        return self._fit_squares(X, held_out.y, held_out.squared, held_out.weight, held_out.group, dispersion)

    @limit_blas()  # few rows
    def _fit_squares(self, X, y, squared, weight, group, constant):
        """Fit to squared residuals (m,) that are unbiased for the noise; returns dispersions (m,) as of unseen rows."""
        self.dispersion_, self.factors_, self.scale_, self.shrinkage_ = constant, (), 1.0, 0.0
        dispersion, rows = np.full(len(weight), constant), np.flatnonzero(weight > 0)
        keys = row_keys(y[rows], X[rows], None if group is None else group[rows])
        _, first, unit = np.unique(keys, return_index=True, return_inverse=True)
        if separate := group is not None or len(first) < thresholds.FEWEST_DISTINCT_ROWS:
            first = unit = np.arange(len(rows))
        some, weight = rows[first], np.bincount(unit, weights=weight[rows])  # copies of a row are merged
        X, squared, keys, group = X[some], squared[some], keys[first], None if group is None else group[some]
        mean = np.average(squared, weights=weight)
        if mean <= 0 or (self.regressor is not None and len(weight) < max(2 * (self.cv or 5), 3)):
            return dispersion
        ratio, phi = np.maximum(squared / mean, 1e-6), np.ones(len(weight))  # a gamma loss takes no zeros
        for regressor in self._candidates(len(weight), X.shape[1], weight.sum()):
            target = np.minimum(ratio / phi, 10.0)  # a single extreme row must not change the scale
            if isinstance(regressor, LogLinearScale):
                fitted = [regressor.fit(_as_taken(X, regressor), target, weight, 1.0 if separate else weight)]
                g = regressor.unseen_
            else:
                n_folds = self.cv or (5 if len(weight) < thresholds.MANY_NOISE_ROWS else 3)
                fitted, g = self._unseen(regressor, X, target, weight, deal(n_folds, keys, together=group is not None))
            if (exponent := shrunk_exponent(g, target, weight, group)) > 0:
                self.shrinkage_ = max(exponent, self.shrinkage_)
                self.factors_ += tuple((own, exponent / len(fitted), g.min(), g.max()) for own in fitted)
                phi = phi * g**exponent
                scale = np.average(ratio / phi, weights=weight)
                self.scale_, phi = self.scale_ * scale, phi * scale
        if self.factors_:
            self.dispersion_, dispersion[rows] = float(mean), (mean * phi)[unit]
        return dispersion

    def _candidates(self, n, d, total):
        """Regressors of the squared residuals that the scales before do not explain."""
        if self.regressor is not None:
            return [self.regressor]
        found = [LogLinearScale()] if d <= min(thresholds.LINEAR_NOISE_COLUMNS, total / 10) else []
        if n >= thresholds.TREE_NOISE_ROWS and d <= thresholds.TREE_NOISE_COLUMNS:
            from sklearn.ensemble import HistGradientBoostingRegressor

            # Newton steps of a Poisson loss are at least -1; those of a gamma loss are unbounded if the noise is small
            settings = {"max_iter": 15, "max_leaf_nodes": 16, "max_bins": 63, "early_stopping": False}
            found.append(HistGradientBoostingRegressor(loss="poisson", learning_rate=0.35, **settings))
        return found

    def _unseen(self, regressor, X, target, weight, folds):
        """Regressors fitted without each fold, and their predictions (n,) of unseen rows."""
        g, found, own_trees = np.empty_like(target), [], self.regressor is None
        seen = in_bins(_as_taken(X, regressor), regressor.max_bins) if own_trees and np.ptp(weight) else X
        for train, test in folds:
            found.append(fitted := _fitted(regressor, seen[train], target[train], weight[train]))
            g[test] = fitted.predict(_as_taken(X[test], fitted))
        if self.regressor is not None and not np.all(g > 0):
            raise ValueError(f"{regressor!r} predicted a variance that is not positive; use a gamma or log loss.")
        return found, np.maximum(g, 1e-12)  # trees may underflow

    def predict(self, X: MatrixLike) -> float | FloatArray:
        if not self.factors_:
            return self.dispersion_
        powers = [np.clip(g.predict(_as_taken(X, g)), low, high) ** s for g, s, low, high in self.factors_]
        return self.dispersion_ * self.scale_ * np.prod(powers, axis=0)


_BY_NAME = {"train": TrainNoise, "dof": DofNoise, "loo": LooNoise, "heteroskedastic": HeteroskedasticNoise}


class JointNoise(Noise):
    r"""Noise of several outputs: a Noise for each, and one correlation matrix for all rows.

    .. math:: \Sigma_\varepsilon(x) = \mathrm{diag}(\phi(x))^{1/2}\, C\, \mathrm{diag}(\phi(x))^{1/2}

    C is the correlation matrix of the standardized residuals.

    Parameters
    ----------
    noises : tuple of Noise
        Fitted, one per output.
    correlation : ndarray of shape (m, m)

    See Also
    --------
    Noise : Noise of one output.

    Notes
    -----
    User guide: :doc:`/user_guide/outputs`.

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


def shrunk_exponent(g, ratio, weight, group):
    """Exponent s of the factor g (n,) of the scale with the best log score at unseen rows, shrunk by its evidence."""
    log_g, s, ratio = np.log(g), 0.0, ratio / np.average(ratio, weights=weight)
    log_g = log_g - np.average(log_g, weights=weight)
    for _ in range(30):  # Newton steps; the loss, with the best constant factor, is convex in s
        share = weight * ratio * np.exp(-s * log_g)
        mean = share @ log_g / share.sum()
        step = mean / max(share @ (log_g - mean) ** 2 / share.sum(), 1e-12)
        s = min(max(s + np.clip(step, -0.2, 0.2), 0.0), 1.0)
    relative = ratio * np.exp(-s * log_g)
    mean = np.average(relative, weights=weight)
    return s * evidence(ratio - np.log(mean) - s * log_g - relative / mean, weight, group)


class LogLinearScale(BaseEstimator):
    """Penalized gamma regression with log link; ``unseen_`` (n,) are leave-one-out predictions by one Newton step."""

    def fit(self, X, squared, weight, left_out=1.0):
        """Fit to squares (n,); ``left_out`` is the part of a row's weight that its own prediction leaves out."""
        self.scaler_ = StandardScaler().fit(X, sample_weight=weight)
        Z = (X - self.scaler_.mean_) / self.scaler_.scale_
        if not np.isfinite(Z).all():
            name, most = max(("sample_weight", weight.max()), ("X", np.abs(X).max()), key=lambda pair: pair[1])
            raise ValueError(f"{name} has values up to {most:.0e}, whose squares overflow. Try: scale {name}.")
        gamma = GammaRegressor(alpha=1 / weight.sum(), solver="newton-cholesky", tol=1e-8)
        self.gamma_ = gamma.fit(Z, squared, sample_weight=weight)
        Z, g = np.c_[Z, np.ones(len(Z))], self.predict(X)
        penalty = np.append(np.ones(X.shape[1]), 0.0) + 1e-9 * weight.sum()
        factor = cho_factor((Z.T * weight) @ Z + np.diag(penalty))  # the expected curvature, which does not depend on g
        h = np.minimum(left_out * np.einsum("ij,ji->i", Z, cho_solve(factor, Z.T)), 0.99)
        self.unseen_ = g * np.exp(-h / (1 - h) * (squared / g - 1))
        return self

    def predict(self, X):
        """Predict g (n,)."""
        f = (X - self.scaler_.mean_) / self.scaler_.scale_ @ self.gamma_.coef_ + self.gamma_.intercept_
        return np.exp(np.clip(f, -700, 700))  # far rows would overflow


def in_bins(X, n_bins):
    """Round each column of X (n, d) to at most ``n_bins`` values, which trees sort into bins without weights."""
    columns, levels = [], np.linspace(0, 1, n_bins)
    for x in X.T:
        if len(values := np.unique(x)) > n_bins:
            values = np.unique(np.quantile(x, levels, method="nearest"))
        columns.append(values[np.searchsorted((values[1:] + values[:-1]) / 2, x)])  # trees split halfway
    return np.stack(columns, axis=1)


def _fitted(regressor, X, target, weight):
    """Fit a clone of the regressor, with weights if it takes them."""
    regressor = clone(regressor)
    uniform = np.ptp(weight) == 0  # weighted quantiles take boosting twenty times longer
    weights = {} if uniform or not has_fit_parameter(regressor, "sample_weight") else {"sample_weight": weight}
    return regressor.fit(_as_taken(X, regressor), target, **weights)


def _as_taken(X, regressor):
    """X, made dense if the regressor takes no sparse matrix."""
    return X.toarray() if sparse.issparse(X) and not get_tags(regressor).input_tags.sparse else X


def dof_dispersion(training):
    """Dispersion of noise="dof"; with groups, from products of fitted residuals and residuals without the group."""
    if training.rows.groups is not None and (dispersion := training.grown_mean_square(1)) > 0:
        return dispersion
    return float(training.chi2 / (training.n * (1 - training.mean_leverage)))


def evidence(gain, weight, group=None):
    """Share of a change that its mean gain per row supports: 0 up to half a standard error, 1 from one on."""
    mean, error = np.average(gain, weights=weight), standard_error(gain, weight, group)
    return float(np.clip(2 * mean / error - 1, 0, 1)) if mean > 0 else 0.0


def standard_error(values, weight, group=None):
    """Standard error of the weighted mean of values (n,); cluster-robust if groups are given."""
    off, n = values - np.average(values, weights=weight), weight.sum()
    if group is None:
        return float(np.sqrt(np.average(off**2, weights=weight) / n))
    return float(np.sqrt(np.sum(np.bincount(group, weights=weight * off) ** 2)) / n)
