"""GLMs with an offset: a column of X that enters the linear predictor with coefficient one."""

from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import expit
from sklearn import linear_model as lm
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import accuracy_score, d2_tweedie_score
from sklearn.utils import ClassifierTags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .._utils.checks import check_fitted, checked_weight, listed
from .._utils.compat import VersionedEstimator
from .._utils.typing import FloatArray, MatrixLike, PerRow
from .base import as_parametric, polish, with_theta
from .linear import GLM, LinearPredictor, LinearTangent, logistic_penalty, tweedie_loss

NUMBERS = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class WithOffset(MetaEstimatorMixin, VersionedEstimator):
    r"""GLM with an offset: a column of X that is added to the linear predictor, without a coefficient.

    .. math:: g(\mathrm{E}\, y_i) = o_i + x_i^\top \beta, \qquad o_i = \log(\mathrm{exposure}_i)

    With a log link, the exposure is the time, area or population in which events were counted. The penalty of the base
    model keeps its meaning: ``alpha`` is relative to the mean deviance, ``C`` to the sum of the losses.

    Parameters
    ----------
    estimator : PoissonRegressor, GammaRegressor, TweedieRegressor or LogisticRegression
        A TweedieRegressor needs a log link, or power 0. A LogisticRegression needs two classes and no L1 penalty.
    offset : str or int, default=None
        Name or position of the column of X with the offset: a logarithm for a log link, or log odds of the second
        class for a LogisticRegression.
    exposure : str or int, default=None
        Name or position of a positive column whose logarithm is the offset.

    Attributes
    ----------
    estimator_ : estimator
        Fitted base model of the other columns. Its predictions have an offset of zero: an exposure of one.
    classes_ : ndarray of shape (2,)
        Labels of a classifier.
    n_features_in_ : int
        Number of columns of X, with the offset.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these columns, if all are strings.

    See Also
    --------
    Tweedie : The loss of these models.
    skribbon.RibbonRegressor : Intervals for these models.

    Notes
    -----
    In a pipeline, WithOffset is the last step, and the transformers before it keep the column of the offset::

        keep = ColumnTransformer([("exposure", "passthrough", ["years"])], remainder=StandardScaler())
        make_pipeline(keep, WithOffset(PoissonRegressor(), exposure=0))

    Predictions are for the exposure of each row. For a rate, e.g. claims per year, set the exposure to 1 in the rows to
    predict, or the offset to 0: ``predict(X.assign(exposure=1.0))``. Intervals of a Ribbon follow the same rule.

    With a log link, the base model is fitted by its own solver to ``y / exposure`` with weights ``sample_weight *
    exposure ** (2 - power)``, which has the same likelihood. A LogisticRegression is fitted by Newton steps.

    User guide: :doc:`/user_guide/weights`.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import PoissonRegressor
    >>> from skribbon.models import WithOffset
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(18, 80, 1000), "years": rng.uniform(0.1, 1, 1000)})
    >>> claims = rng.poisson(X["years"] * np.exp(-0.02 * X["age"]))
    >>> model = WithOffset(PoissonRegressor(alpha=0, solver="newton-cholesky"), exposure="years")
    >>> ribbon = RibbonRegressor(model).fit(X, claims)
    >>> new = pd.DataFrame({"age": [40.0, 40.0], "years": [0.5, 1.0]})
    >>> ribbon.predict_interval(new, kind="confidence").round(2)  # claims in half a year, and in a year
    array([[0.18, 0.22],
           [0.35, 0.45]])
    """

    def __init__(self, estimator: BaseEstimator, offset: str | int | None = None, exposure: str | int | None = None):
        self.estimator = estimator
        self.offset = offset
        self.exposure = exposure

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: PerRow = None) -> Self:
        """Fit the base model, given the offset.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, and the column of the offset.
        y : array-like of shape (n_samples,)
            Counts or amounts as observed, not divided by the exposure; or labels of two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the losses, on top of the exposure.

        Returns
        -------
        self : WithOffset
        """
        leaf = clone(self.estimator)
        logistic = isinstance(leaf, lm.LogisticRegression) and not hasattr(leaf, "Cs") and not logistic_penalty(leaf)[1]
        if not (logistic or isinstance(leaf, GLM)):
            raise TypeError(
                f"WithOffset does not take {leaf!r}. Supported are PoissonRegressor, GammaRegressor, TweedieRegressor "
                "and LogisticRegression without an L1 penalty. In a pipeline, put WithOffset around the last step."
            )
        Z, y = validate_data(self, X, y, **NUMBERS)
        weight = checked_weight(sample_weight, Z)
        Z, offset = self._split(Z, check=False)
        if not logistic:
            self.estimator_ = _fit_glm(leaf, Z, y, offset, weight)
            return self
        tol = leaf.tol
        leaf.set_params(tol=1e100).fit(Z, y, sample_weight=weight).set_params(tol=tol)  # a start for Newton steps
        if len(leaf.classes_) > 2:
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        self.estimator_, self.classes_ = leaf, leaf.classes_
        self.estimator_ = polish(self, X, y, weight, max_iter=leaf.max_iter, tol=tol).estimator_
        return self

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Predict the mean for the offset or exposure of each row; for a classifier, its class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if is_classifier(self):
            log_odds = self.decision_function(X)
            return self.classes_[(log_odds > 0).astype(int)]
        Z, offset = self._split(X)
        mean = self.estimator_.predict(Z)
        return mean + offset if tweedie_loss(self.estimator_, 0.0).additive else mean * np.exp(offset)

    @available_if(is_classifier)
    def decision_function(self, X: MatrixLike) -> FloatArray:
        """Log odds of the second class, with the offset.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        Z, offset = self._split(X)
        return self.estimator_.decision_function(Z) + offset

    @available_if(is_classifier)
    def predict_proba(self, X: MatrixLike) -> FloatArray:
        """Probabilities of both classes, with the offset.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        log_odds = self.decision_function(X)
        return np.column_stack([expit(-log_odds), expit(log_odds)])

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: PerRow = None) -> float:
        """Share of the deviance that the model explains, D²; for a classifier, its accuracy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        if is_classifier(self):
            return accuracy_score(y, self.predict(X), sample_weight=sample_weight)
        power = tweedie_loss(self.estimator, 0.0).power
        return d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=power)

    def _place(self):
        """Position of the offset's column in X, and whether it holds an exposure."""
        if (self.offset is None) == (self.exposure is None):
            raise ValueError("Set one of offset and exposure: the name or position of a column of X.")
        column, d = self.exposure if self.offset is None else self.offset, self.n_features_in_
        if np.ndim(column):
            raise ValueError("offset and exposure must be the name or position of a column of X, not its values.")
        names = [*getattr(self, "feature_names_in_", ()), *range(d), *range(-d, 0)]
        if column not in names:
            raise ValueError(
                f"X has no column {column!r} for offset or exposure; its columns are {listed(names[:d])}. After "
                "transformers, give the position, or use set_output(transform='pandas')."
            )
        return names.index(column) % d, self.offset is None

    def _split(self, X, check=True):
        """Columns of X that have coefficients, and the offset (n,)."""
        if check:
            check_fitted(self, "estimator_")
            X = validate_data(self, X, reset=False, **NUMBERS)
        position, is_exposure = self._place()
        Z = X[:, np.arange(X.shape[1]) != position] if sparse.issparse(X) else np.delete(X, position, axis=1)
        return Z, offset_of(X, position, is_exposure)[:, 0]

    def __sklearn_tags__(self):
        tags = get_tags(self.estimator)
        tags.array_api_support = False
        tags.classifier_tags = tags.classifier_tags and ClassifierTags(multi_class=False)
        return tags


def offset_of(X, position, is_exposure):
    """Offset (n, 1) in a column of X, or the logarithm of the exposure there."""
    column = X[:, [position]]
    column = (column.toarray() if sparse.issparse(column) else column).astype(np.float64)
    if is_exposure and not (column > 0).all():
        raise ValueError(f"{(column <= 0).sum()} of {len(column)} exposures are not positive; do not scale them.")
    return np.log(column) if is_exposure else column


def _fit_glm(estimator, X, y, offset, weight):
    """Fit a GLM with a log link to y / exp(offset), or with an identity link and power 0 to y - offset."""
    loss = tweedie_loss(estimator, 0.0)
    if loss.additive:
        return estimator.fit(X, y - offset, sample_weight=weight)
    if loss.link != "log":
        raise TypeError(f"WithOffset needs link='log' for power={loss.power:g}, got link={loss.link!r}.")
    if np.ptp(offset) > 100:  # exposures that differ by a factor of 1e43
        raise ValueError(f"offset varies by {np.ptp(offset):.3g}, too much for a logarithm. Try: exposure= instead.")
    alpha, exposure = estimator.alpha, np.exp(offset)
    scaled = weight * exposure ** (2 - loss.power)  # half deviances: d(y, e mu) = e^(2 - power) d(y / e, mu)
    estimator.set_params(alpha=alpha * (weight.sum() / scaled.sum()))  # which is relative to the mean over ``scaled``
    return estimator.fit(X, y / exposure, sample_weight=scaled).set_params(alpha=alpha)


# ---------------------------------------------------------------------- parametric model
@dataclass(frozen=True, kw_only=True, eq=False)
class OffsetPredictor(LinearPredictor):
    """Linear model with an offset, f = X~ Theta' + o; rows Z are a pair of X~ (n, d) and o (n, 1)."""

    position: int  # of the offset among the columns of X
    is_exposure: bool  # whether o is the logarithm of this column

    def rows(self, X):
        return super().rows(X), offset_of(X, self.position, self.is_exposure)

    def raw(self, Z, theta=None):
        return super().raw(Z[0], theta) + Z[1]

    def tangent(self, Z):
        return LinearTangent(Z[0], self.raw(Z))


@as_parametric.register(WithOffset)
def _(estimator, y, sample_weight):
    base, (position, is_exposure) = as_parametric(estimator.estimator_, y, sample_weight), estimator._place()
    columns = np.delete(np.arange(estimator.n_features_in_), position)
    known = {field.name: getattr(base, field.name) for field in fields(base)} | {"columns": columns}
    return OffsetPredictor(**known, position=position, is_exposure=is_exposure)


@with_theta.register(WithOffset)
def _(estimator, model, theta):
    estimator = copy(estimator)
    estimator.estimator_ = with_theta(estimator.estimator_, model, theta)
    return estimator
