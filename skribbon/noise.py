"""Noise models: how large the observation noise is, at every row."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from ._laws import LocationFamily
from ._typing import FloatArray, MatrixLike

__all__ = ["ConstantNoise", "DofNoise", "HeteroskedasticNoise", "LooNoise", "Noise", "TrainNoise"]


class Noise(BaseEstimator):
    r"""How large the observation noise is: the dispersion :math:`\phi(x)`.

    That is the variance of a least-squares model's noise, and in general

    .. math:: \mathrm{Var}(y \mid x) = \phi(x) V(\mu(x)), \qquad V = 1 \text{ for least squares.}

    To write a new noise model, write ``fit`` and ``predict``, and pass an object as ``noise=`` to RibbonRegressor.

    Attributes
    ----------
    tails_ : float
        Degrees of freedom (> 4) of Student's law around least-squares predictions; infinity, the default, is normal.

    Examples
    --------
    >>> import numpy as np
    >>> from skribbon import RibbonRegressor
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

    tails_ = np.inf

    def fit(self, training: Any) -> Self:
        """Learn from the training rows.

        Parameters
        ----------
        training : object
            With ``squared_residuals`` and ``leverages`` (n_rows,), ``rows`` with ``X`` and ``weight``, ``moments`` with
            ``chi2``, the sum of squared residuals, and ``n``, the number of observations.

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
            Rows behind the transformers of a pipeline.

        Returns
        -------
        float or ndarray of shape (n_samples,)
        """
        raise TypeError(f"{type(self).__name__} must define predict(X).")


class ConstantNoise(Noise):
    """The same given dispersion everywhere.

    Parameters
    ----------
    dispersion : float, default=1.0

    Attributes
    ----------
    dispersion_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from skribbon import RibbonRegressor
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
    r"""Sum of squared residuals over n - 1, as in the paper; too small for a flexible model.

    .. math:: \hat\sigma^2 = \frac{1}{n - 1} \sum_i r_i^2

    Attributes
    ----------
    dispersion_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from skribbon import RibbonRegressor
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
        self.dispersion_ = float(training.moments.chi2 / (training.n - 1))
        return self


class DofNoise(TrainNoise):
    r"""Sum of squared residuals over n minus the sum of leverages: an unbiased estimate of the noise alone.

    .. math:: \hat\sigma^2 = \frac{1}{n - \sum_i h_i} \sum_i r_i^2

    Attributes
    ----------
    dispersion_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from skribbon import RibbonRegressor
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    >>> round(RibbonRegressor(noise="dof").fit(X, y).noise_.dispersion_, 3)
    0.676
    """

    def fit(self, training: Any) -> Self:
        self.dispersion_ = float(training.moments.chi2 / (training.n * (1 - training.mean_leverage)))
        return self


class LooNoise(TrainNoise):
    r"""Mean square of leave-one-out residuals.

    .. math:: \hat\sigma^2 = \frac1n \sum_i \left(\frac{r_i}{1 - h_i}\right)^2,

    noise *and* estimation error, so that the epistemic part is counted twice.

    Attributes
    ----------
    dispersion_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from skribbon import RibbonRegressor
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    >>> round(RibbonRegressor(noise="loo").fit(X, y).noise_.dispersion_, 3)
    0.867
    """

    def fit(self, training: Any) -> Self:
        squared = training.squared_residuals / (1 - training.leverages) ** 2
        self.dispersion_ = float(training.rows.weight @ squared / training.n)
        return self


class HeteroskedasticNoise(Noise):
    r"""Noise that depends on x, from a regression on squared residuals, as far as unseen rows ask for it.

    Squared residuals over 1 - h_i, which are unbiased for the noise, are regressed on x with a gamma loss. The result
    g(x) enters as

    .. math:: \phi(x) = c\, g(x)^s, \qquad 0 \le s \le 1,

    with s chosen by the log score of out-of-fold g; s = 0, a constant, unless the best s beats it by more than one
    standard error. What the scale cannot explain goes into the tails: Student's law takes the normal law's place by the
    same rule.

    Parameters
    ----------
    regressor : regressor, default=None
        Any regressor with positive predictions; gradient boosting with a gamma loss if None. Sparse X is made dense for
        a regressor that does not take it, as gradient boosting does not.
    tails : "auto" or float, default="auto"
        Degrees of freedom of Student's law, more than 4; infinity for normal noise; "auto" asks the data.
    cv : int, default=5
        Folds of the out-of-fold predictions.

    Attributes
    ----------
    shrinkage_ : float
        s: 0 is constant noise, 1 the regressor as it is.
    regressor_ : regressor
        Fitted on squared residuals relative to their mean; absent where ``shrinkage_`` is 0.
    dispersion_ : float
        Mean of the squared residuals over 1 - h_i.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import GammaRegressor
    >>> from skribbon import RibbonRegressor
    >>> from skribbon.noise import HeteroskedasticNoise
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 2, size=(400, 1))
    >>> y = X[:, 0] + np.exp(X[:, 0]) * rng.normal(size=400)
    >>> noise = HeteroskedasticNoise(GammaRegressor(alpha=0), tails=np.inf)
    >>> RibbonRegressor(noise=noise).fit(X, y).predict_std([[0.0], [2.0]], kind="aleatoric").round(1)
    array([1. , 7.4])
    """

    def __init__(self, regressor: BaseEstimator | None = None, tails: float | Literal["auto"] = "auto", cv: int = 5):
        self.regressor = regressor
        self.tails = tails
        self.cv = cv

    def fit(self, training: Any) -> Self:
        X, weight = training.rows.X, training.rows.weight
        squared = training.squared_residuals / (1 - training.leverages)
        self.dispersion_ = float(np.average(squared, weights=weight))
        self.shrinkage_, self.scale_ = 0.0, 1.0
        self.tails_ = np.inf if isinstance(self.tails, str) else self._checked_tails()
        if self.dispersion_ == 0 or len(squared) < 2 * self.cv:
            return self
        relative = np.maximum(squared / self.dispersion_, 1e-6)  # a gamma loss takes no zeros
        g = self._out_of_fold(X, relative, weight)
        self.shrinkage_, self.scale_ = _best_shrinkage(g, relative, weight)
        if isinstance(self.tails, str):
            self.tails_, factor = _best_tails(np.sqrt(relative / (self.scale_ * g**self.shrinkage_)), weight)
            self.scale_ *= factor
        if self.shrinkage_ > 0:
            self.regressor_ = self._fitted(X, relative, weight)
            self.range_ = g.min(), g.max()  # the regressor is not trusted beyond what unseen rows have shown
        return self

    def _checked_tails(self):
        if not isinstance(self.tails, Real) or not self.tails > 4:
            raise ValueError(f"tails must be 'auto' or a number > 4, got {self.tails!r}.")
        return float(self.tails)

    def _fitted(self, X, target, weight):
        regressor = HistGradientBoostingRegressor(
            loss="gamma", learning_rate=0.05, max_iter=100, max_leaf_nodes=8, early_stopping=False, random_state=0
        )
        regressor = regressor if self.regressor is None else clone(self.regressor)
        weights = {"sample_weight": weight} if has_fit_parameter(regressor, "sample_weight") else {}
        return regressor.fit(_as_taken(X, regressor), target, **weights)

    def _out_of_fold(self, X, target, weight):
        g = np.empty_like(target)
        for train, test in KFold(self.cv, shuffle=True, random_state=0).split(target):
            regressor = self._fitted(X[train], target[train], weight[train])
            g[test] = regressor.predict(_as_taken(X[test], regressor))
        if not np.all(g > 0):
            raise ValueError(f"{self.regressor!r} predicted a variance that is not positive; use a gamma or log loss.")
        return g

    def predict(self, X: MatrixLike) -> float | FloatArray:
        if self.shrinkage_ == 0:
            return self.dispersion_ * self.scale_
        g = np.clip(self.regressor_.predict(_as_taken(X, self.regressor_)), *self.range_)
        return self.dispersion_ * self.scale_ * g**self.shrinkage_


def _as_taken(X, regressor):
    """X, dense where the regressor takes no sparse matrix."""
    return X.toarray() if sparse.issparse(X) and not get_tags(regressor).input_tags.sparse else X


def _best_shrinkage(g, squared, weight):
    """Exponent s and scale c of c g^s by the normal log score, constant unless better by a standard error."""
    exponents = np.linspace(0, 1, 11)
    scores, scales = [], []
    for s in exponents:
        scale = np.average(squared / g**s, weights=weight)
        scores.append(np.log(scale * g**s) + squared / (scale * g**s))  # twice the negative log density
        scales.append(scale)
    best = _better_than_the_first(scores, weight)
    return float(exponents[best]), float(scales[best])


def _best_tails(z, weight):
    """Degrees of freedom and variance of Student's law for standardised residuals z, both by likelihood.

    Infinity and one unless better by a standard error. A variance taken from the mean square would follow the few
    largest residuals, which the tails explain already.
    """
    candidates = [(np.inf, 1.0)] + [(nu, _student_variance(z, nu, weight)) for nu in (4.5, 5.0, 6.0, 8.0, 12.0, 20.0)]
    laws = [LocationFamily(variance, nu).conditional(np.zeros_like(z)) for nu, variance in candidates]
    return candidates[_better_than_the_first([-law.logpdf(z) for law in laws], weight)]


def _student_variance(z, nu, weight, n_steps=50):
    """Variance of a centred Student law by maximum likelihood, as a fixed point of reweighted mean squares."""
    scale2 = 1.0
    for _ in range(n_steps):
        scale2 = np.average((nu + 1) / (nu + z**2 / scale2) * z**2, weights=weight)
    return scale2 * nu / (nu - 2)


def _better_than_the_first(scores, weight):
    """Index of the best of several row-wise losses; the first unless another beats it by one standard error."""
    best = int(np.argmin([np.average(score, weights=weight) for score in scores]))
    gain = scores[0] - scores[best]
    mean = np.average(gain, weights=weight)
    standard_error = np.sqrt(np.average((gain - mean) ** 2, weights=weight) / weight.sum())
    return best if mean > standard_error else 0


_BY_NAME = {"train": TrainNoise, "dof": DofNoise, "loo": LooNoise, "heteroskedastic": HeteroskedasticNoise}


def resolve_noise(noise):
    """A Noise object, not fitted, from what the user wrote: a name, a number or an object."""
    if isinstance(noise, Noise):
        return clone(noise)
    if isinstance(noise, str) and noise in _BY_NAME:
        return _BY_NAME[noise]()
    if isinstance(noise, Real) and np.isfinite(noise) and noise >= 0:
        return ConstantNoise(noise)
    if isinstance(noise, str) and noise == "cv":
        raise ValueError("noise='cv' is made of out-of-fold residuals; put this RibbonRegressor into a RibbonCV.")
    names = ", ".join(map(repr, _BY_NAME))
    raise ValueError(f"noise must be {names}, 'cv' inside a RibbonCV, a number >= 0 or a Noise object, got {noise!r}.")
