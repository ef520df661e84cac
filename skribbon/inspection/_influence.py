"""Influence of training rows on predictions and on the width of intervals."""

from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._core.rows import row_blocks
from .._core.thresholds import CERTAIN
from .._core.training import Training
from .._core.units import moved
from .._utils.checks import check_count, check_name, coarsest
from .._utils.compat import cached_property
from .._utils.frames import index_of, polars_in_polars_out
from .._utils.typing import FloatArray, MatrixLike, PerRow
from ..curvature import machine_bytes
from ..exceptions import LeverageWarning, warn_user
from ._coefficients import Terms
from ._functional import Response, fitted_ribbon, stated_temperature
from ._population import training_again
from ._predictions import row_labels
from ._row_influence import Top, contributions, group_left_out, influences, left_out_step, measures

Scale: TypeAlias = Literal["prediction", "raw"]


@polars_in_polars_out
def influence(
    ribbon: BaseEstimator,
    X_train: MatrixLike,
    y_train: ArrayLike,
    X: MatrixLike,
    sample_weight: PerRow = None,
    groups: PerRow = None,
    *,
    scale: Scale = "prediction",
    top: int | None = None,
) -> pd.DataFrame:
    r"""How far each training row, or group, has moved each prediction: with the row minus without it.

    Nothing is refitted. The fit without row i is one Newton step away,

    .. math:: \hat f(x) - \hat f_{(i)}(x) \approx -J_x H_r^{-1} J_i' (I - C_i A_i)^{-1} u_i / n,

    with the row's block :math:`C_i A_i` of the hat matrix, zero for curvatures without leverages, and the gradient
    :math:`u_i` of its loss. For least squares and ridge the result equals that of a refit.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier or RibbonCV
    X_train : {array-like, sparse matrix} of shape (n_train, n_features)
        The training rows, which a Ribbon does not keep. Other rows are refused.
    y_train : array-like of shape (n_train,)
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows whose predictions are explained.
    sample_weight : array-like of shape (n_train,), default=None
        A row is left out with all its copies.
    groups : array-like of shape (n_train,), default=None
        If the Ribbon was fitted with groups, whole groups are left out.
    scale : {"prediction", "raw"}, default="prediction"
        "prediction" is what ``predict`` returns, or class probabilities; "raw" is the linear predictor, the logits, or
        the transformed target.
    top : int, default=None
        Return only the rows of largest influence, this many for each prediction, without building the full table.

    Returns
    -------
    DataFrame
        A row per training row (its index, or position) or group, and a column per prediction, or per prediction and
        class. With ``top``, columns prediction, class, row (or group) and influence, the largest first.

    See Also
    --------
    influence_measures : Leverages and distances of rows.
    leave_out : Predictions without some rows.

    Notes
    -----
    User guide: :doc:`/user_guide/influence`.

    References
    ----------
    * Koh, P. W. and Liang, P. (2017). Understanding Black-box Predictions via Influence Functions. ICML.
    * Giordano, R., Stephenson, W., Liu, R., Jordan, M. I. and Broderick, T. (2019). A Swiss Army Infinitesimal
      Jackknife. AISTATS.

    Examples
    --------
    >>> from skribbon.inspection import influence
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> influence(RibbonRegressor().fit(X, y), X, y, X[:1], top=2).round(2)
       prediction  row  influence
    0           0  290       1.42
    1           0  362       1.26
    """
    asked = Question("influence", ribbon, (X_train, y_train, sample_weight, groups), X, scale)
    values, certain = influences(asked.training, asked.jacobian, asked.change, asked.checked_top(top))
    _warn_if_certain(certain, asked.training.rows.groups is None)
    return asked.table(values, "influence")


@polars_in_polars_out
def variance_contributions(
    ribbon: BaseEstimator,
    X_train: MatrixLike,
    y_train: ArrayLike,
    X: MatrixLike,
    sample_weight: PerRow = None,
    groups: PerRow = None,
    *,
    share: bool = True,
    scale: Scale = "prediction",
    top: int | None = None,
) -> pd.DataFrame:
    r"""How much each training row, or group, contributes to the epistemic variance of each prediction.

    The variance is a sum over rows,

    .. math:: \mathrm{Var}\, f(x) = \frac{1}{n\alpha + 1} \frac1n \sum_i \big(J_x H_r^{-1} (g_i - \bar g)\big)^2,

    with the corrected scores :math:`g_i` of the Ribbon; for a Ribbon held as draws, it is the limit of many draws.

    Parameters
    ----------
    ribbon, X_train, y_train, X, sample_weight, groups : see :func:`~skribbon.inspection.influence`
    share : bool, default=True
        Whether to return shares, which add up to one, or variances, which add up to the epistemic variance.
    scale, top : see :func:`~skribbon.inspection.influence`; behind a link, by the delta method

    Returns
    -------
    DataFrame
        As in :func:`~skribbon.inspection.influence`; with ``top`` the last column is ``contribution``.

    See Also
    --------
    influence : Influence on the prediction itself.

    Notes
    -----
    User guide: :doc:`/user_guide/influence`.

    Examples
    --------
    >>> from skribbon.inspection import variance_contributions
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> variance_contributions(RibbonRegressor().fit(X, y), X, y, X[:1], top=2).round(3)
       prediction  row  contribution
    0           0  290         0.040
    1           0  362         0.031
    """
    asked = Question("variance_contributions", ribbon, (X_train, y_train, sample_weight, groups), X, scale)
    found = contributions(asked.training, asked.gradients, asked.estimator.ribbon_.alpha, asked.checked_top(top))
    if share:
        total = found.total if isinstance(found, Top) else found.sum(axis=0)
        total = np.where(total > 0, total, 1.0)
        found = replace(found, values=found.values / total) if isinstance(found, Top) else found / total
    return asked.table(found, "contribution")


@polars_in_polars_out
def leave_out(
    ribbon: BaseEstimator,
    X_train: MatrixLike,
    y_train: ArrayLike,
    rows: ArrayLike,
    X: MatrixLike,
    sample_weight: PerRow = None,
    groups: PerRow = None,
    *,
    scale: Scale = "prediction",
) -> pd.DataFrame:
    """Predictions of the fit without some training rows: one row, a set, or a whole group.

    Nothing is refitted. For least squares and ridge the result equals that of a refit; for other models it is the first
    Newton step, which is accurate if few rows out of many are left out.

    Parameters
    ----------
    ribbon, X_train, y_train : see :func:`~skribbon.inspection.influence`
    rows : label, array-like of labels or bool array-like of shape (n_train,)
        The rows to leave out: labels from the index of ``X_train``, positions if it has none, or a mask.
    X, sample_weight, groups, scale : see :func:`~skribbon.inspection.influence`

    Returns
    -------
    DataFrame
        With the index of X; columns class (for a classifier), prediction, left_out, and change = left_out - prediction.

    See Also
    --------
    influence : Every row at once.

    Notes
    -----
    User guide: :doc:`/user_guide/influence`.

    References
    ----------
    * Giordano, R., Stephenson, W., Liu, R., Jordan, M. I. and Broderick, T. (2019). A Swiss Army Infinitesimal
      Jackknife. AISTATS.

    Examples
    --------
    >>> from skribbon.inspection import leave_out
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> leave_out(RibbonRegressor().fit(X, y), X, y, [290, 362], X[:2]).round(1)
       prediction  left_out  change
    0       206.1     203.4    -2.7
    1        68.1      69.1     1.0
    """
    asked = Question("leave_out", ribbon, (X_train, y_train, sample_weight, groups), X, scale)
    index = _positions(rows, index_of(X_train), len(asked.training.rows.y))
    if not (np.delete(asked.training.rows.weight, index) > 0).any():
        raise ValueError("rows would leave out everything; keep some rows.")
    step, certain = left_out_step(asked.training, index)
    _warn_if_certain(certain, by_rows=False)
    before, change = asked.values, asked.change((asked.jacobian @ step)[None])[0]
    columns = {"prediction": before, "left_out": before - change, "change": -change}
    labels, K = asked.labels, 1 if asked.outputs is None else len(asked.outputs)
    if asked.outputs is not None:
        columns = {"class": np.tile(asked.outputs, len(labels)), **columns}
    return pd.DataFrame(columns, index=labels.repeat(K))


@polars_in_polars_out
def influence_measures(
    ribbon: BaseEstimator,
    X_train: MatrixLike,
    y_train: ArrayLike,
    sample_weight: PerRow = None,
    groups: PerRow = None,
    *,
    dfbetas: bool = False,
) -> pd.DataFrame:
    r"""How far each training row, or group, lies from the fit without it, and how far it moves that fit.

    With the step :math:`\Delta\theta_{(i)}` to the fit without row i,

    .. math:: D_i = \frac{n\, \Delta\theta_{(i)}' H_r \Delta\theta_{(i)}}{p\, \phi}, \qquad
              \mathrm{DFFITS}_i = \frac{\hat f_i - \hat f_{i(i)}}{\sqrt{\phi_{(i)}\, h_i / C_i}}, \qquad
              \mathrm{DFBETAS}_{ij} = \frac{\hat\theta_j - \hat\theta_{j(i)}}{\sqrt{\phi_{(i)}\, (H_r^{-1})_{jj} / n}}.

    For least squares these are Cook's distance, DFFITS and DFBETAS of Belsley, Kuh and Welsch. Here p is the effective
    number of parameters, and the dispersion :math:`\phi` is Pearson's statistic over n - p, or one for a classifier.

    Parameters
    ----------
    ribbon : fitted RibbonRegressor, RibbonClassifier or RibbonCV
        With a curvature that knows leverages: "hessian", "ggn", "fisher" or "last_layer".
    X_train, y_train, sample_weight, groups : see :func:`~skribbon.inspection.influence`
    dfbetas : bool, default=False
        Also return a column "dfbetas: term" for each coefficient of a linear model.

    Returns
    -------
    DataFrame
        A row per training row, with its index, or per group. Columns leverage, residual, left_out_residual,
        studentised_residual, cooks_distance, dffits. Residuals are on the scale of the transformed target and after the
        link; for a classifier they are one minus the probability of the true class, and are not studentised. For
        groups, residuals are means over their rows. DFFITS is not defined for groups and for more than two classes.

    See Also
    --------
    influence : Influence on each prediction.
    skribbon.plotting.InfluenceDisplay : Plot of the result.

    Notes
    -----
    User guide: :doc:`/user_guide/influence`.

    References
    ----------
    * Cook, R. D. (1977). Detection of Influential Observation in Linear Regression. Technometrics 19.

    Examples
    --------
    >>> from skribbon.inspection import influence_measures
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> table = influence_measures(RibbonRegressor().fit(X, y), X, y)
    >>> table.nlargest(1, "cooks_distance")[["leverage", "left_out_residual", "cooks_distance", "dffits"]].round(3)
         leverage  left_out_residual  cooks_distance  dffits
    382     0.054           -120.829           0.024  -0.521
    """
    asked = Question("influence_measures", ribbon, (X_train, y_train, sample_weight, groups))
    training = asked.training
    if not training.curvature.knows_leverages:
        name = type(training.curvature).__name__
        raise TypeError(f"influence_measures needs leverages, but {name} has only rough ones; use a dense curvature.")
    terms = Terms.of(ribbon, "influence_measures(dfbetas=True)") if dfbetas else None
    by_rows = training.rows.groups is None
    table = _measure_rows(training, terms) if by_rows else _measure_groups(training, terms)
    certain = int((table["leverage"] > CERTAIN).sum()) if by_rows and training.rows.model.loss.n_outputs == 1 else 0
    _warn_if_certain(certain, by_rows)
    return pd.DataFrame(table, index=asked.units)


def _measure_rows(training, terms):
    """Columns of the table of measures, (n_rows,) each."""
    E, spread = _coefficients(training, terms)
    h, move, distance, grown, betas = measures(training, E)
    rows, output = training.rows, training.outputs[0]
    scale, without = _dispersions(training, rows.mass * grown, rows.weight)
    residual, left_out = _residuals(rows, np.zeros_like(move)), _residuals(rows, move)
    table = {"leverage": h, "residual": residual, "left_out_residual": left_out}
    if rows.model.loss.n_outputs == 1 and not rows.model.loss.n_classes:
        table["studentised_residual"] = np.sign(residual) * np.sqrt(grown * output.precision / output.unit / without)
    table["cooks_distance"] = distance / scale
    if rows.model.loss.n_outputs == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.nan_to_num(distance / np.abs(move[:, 0]) ** 2)  # C / h, as n step' H step = C move^2 / h
        table["dffits"] = -move[:, 0] * np.sqrt(size / without)
    return table | _dfbetas(terms, -betas, spread, without)


def _measure_groups(training, terms):
    """Columns of the table of measures, (n_groups,) each."""
    rows, (steps, _) = training.rows, group_left_out(training)
    groups, (E, spread) = rows.groups, _coefficients(training, terms)
    distance = training.n * np.einsum("gp,gp->g", steps @ training.H_r.to_dense(), steps)
    move = rows.map(partial(moved, steps))
    residual, left_out = _residuals(rows, np.zeros_like(move)), _residuals(rows, move)
    squared = training.record.squared[:, 0]
    ratio = np.divide(left_out, residual, out=np.ones_like(residual), where=residual != 0)
    scale, without = _dispersions(training, _sums(groups, rows.mass * squared * ratio), groups.weight)
    each = np.where(groups.weight > 0, groups.weight, 1.0)
    table = {
        "leverage": _sums(groups, measures(training, E[:, :0])[0]),
        "residual": _sums(groups, rows.mass * residual) / each,
        "left_out_residual": _sums(groups, rows.mass * left_out) / each,
        "cooks_distance": distance / scale,
    }
    betas = steps @ training.H_r.to_dense() @ E  # E holds H_r^-1
    return table | _dfbetas(terms, -betas, spread, without)


def _sums(groups, values):
    return np.bincount(groups.code, weights=values, minlength=len(groups.count))


def _residuals(rows, move):
    """Residuals of the target as the loss sees it, (n_rows,), at raw predictions moved by (n_rows, k)."""
    loss, f = rows.model.loss, rows.map(attrgetter("f")) + move
    if loss.n_classes:
        return 1 - np.take_along_axis(loss.probabilities(f), rows.y.astype(int)[:, None], axis=1)[:, 0]
    with np.errstate(all="ignore"):
        return rows.y - loss.mean(f[:, 0])


def _dispersions(training, removed, weight):
    """Dispersion times the number of parameters, for Cook's distance, and dispersions without each unit (units,)."""
    parameters, tiny = training.effective_parameters, np.finfo(float).tiny
    if training.rows.model.loss.n_classes:
        return max(parameters, tiny), np.ones_like(removed)
    chi2 = training.outputs[0].chi2 / training.outputs[0].unit
    phi = chi2 / (training.n * (1 - training.outputs[0].mean_leverage))
    freedom = training.n - weight - parameters
    few, rest = freedom <= 0, np.maximum(chi2 - removed, 1e-12 * chi2)
    without = np.maximum(np.where(few, phi, rest / np.where(few, 1.0, freedom)), tiny)
    return max(phi, tiny) * max(parameters, tiny), without


def _coefficients(training: Training, terms: Terms | None) -> tuple[FloatArray, FloatArray]:
    """H_r^-1 times the gradients of the coefficients, (p, T), and their variances at unit dispersion, (T,)."""
    p = len(training.rows.model.theta)
    if terms is None:
        return np.zeros((p, 0)), np.zeros(0)
    uncentred = training.rows.model.uncentred
    E = terms.move(uncentred(training.H_r.solve(np.eye(p)))).T
    return E, (terms.move(uncentred(training.H_r.inverse_root)) ** 2).sum(axis=1) / training.n


def _dfbetas(terms: Terms | None, betas: FloatArray, spread: FloatArray, without: FloatArray) -> dict[str, Any]:
    names = [] if terms is None else terms.qualified
    scale = np.sqrt(np.where(spread > 0, spread, np.inf) * without[:, None])
    return {f"dfbetas: {name}": column for name, column in zip(names, (betas / scale).T, strict=True)}


def _positions(rows: Any, index: pd.Index | None, n: int) -> NDArray[np.intp]:
    """Positions of labels, or of a mask, among n rows."""
    given = np.atleast_1d(np.asarray(rows))
    if given.ndim != 1 or not given.size:
        raise ValueError(f"rows must be a label, a sequence of labels, or a mask, got {rows!r}.")
    if given.dtype == bool:
        if len(given) != n:
            raise ValueError(f"rows: a mask must have a value for each of {n} training rows, got {len(given)}.")
        if not given.any():
            raise ValueError("rows: the mask leaves nothing out; mark at least one row.")
        return np.flatnonzero(given)
    names = pd.RangeIndex(n) if index is None else index
    unknown = given[~np.isin(given, names)] if given.dtype != object else [r for r in given if r not in names]
    if len(unknown):
        cure = f"positions are 0 to {n - 1}" if index is None else f"its index has {list(names[:5])} and others"
        raise ValueError(f"rows: {unknown[0]!r} is not a row of X_train; {cure}.")
    return np.flatnonzero(names.isin(given))


def _warn_if_certain(certain, by_rows):
    """Warn if rows or groups determine a direction alone, so that there is no fit without them."""
    if certain:
        warn_user(
            f"{certain} training {'rows' if by_rows else 'groups'} alone determine a direction of the parameters, so "
            "their influence is understated. Try: merge rare categories, or penalize the base model.",
            LeverageWarning,
        )


class Question:
    """Training rows of a fitted Ribbon, and the predictions whose dependence on them is asked for."""

    def __init__(self, asking, ribbon, train, X=None, scale: Scale = "prediction"):
        check_name(scale, "scale", get_args(Scale))
        X_train, _, _, groups = train
        estimator = fitted_ribbon(ribbon, asking, tuned=True)
        if isinstance(getattr(estimator, "n_groups_", None), tuple):
            raise ValueError(f"{asking} leaves out whole groups, but groups cross here; fit with one grouping.")
        self.asking, self.estimator, self.scale = asking, estimator, scale
        self.X = np.zeros((0, 0)) if X is None else estimator._prepared(X)
        self.training = training_again(asking, estimator, train)
        self.model = self.training.rows.model  # in the coordinates of the training rows
        n = len(self.training.rows.y)
        units = row_labels(X_train, n) if groups is None else coarsest(groups, n)
        self.units = pd.Index(units if groups is None else pd.unique(units))  # labels of training rows, or groups
        self.labels = pd.Index([] if X is None else row_labels(X, self.X.shape[0]))
        one_logit = scale == "raw" and self.model.loss.n_outputs == 1
        self.outputs = None if one_logit else estimator.model_.classes  # (K,); None if predictions are single numbers

    @cached_property
    def _tangents(self) -> tuple[FloatArray, FloatArray]:
        """Raw predictions (m, k) and Jacobians (m, k, p) of all rows of X."""
        blocks = row_blocks(self.X.shape[0], self.model.loss.n_outputs * len(self.model.theta))
        pieces = [self.model.tangent(self.model.rows(self.X[rows])) for rows in blocks]
        return np.concatenate([t.f for t in pieces]), np.concatenate([t.jacobian() for t in pieces])

    @property
    def jacobian(self) -> FloatArray:
        """Jacobian of all raw predictions, (m k, p)."""
        J = self._tangents[1]
        return J.reshape(-1, J.shape[2])

    @cached_property
    def values(self) -> FloatArray:
        """Predictions by the fit to all rows, (m K,)."""
        return self._predicted(self._tangents[0]).ravel()

    def _predicted(self, f: FloatArray) -> FloatArray:
        """Predictions (n, K) at raw predictions (n, k)."""
        model = self.estimator.model_
        if self.scale == "raw":
            return f @ _raw_basis(model.loss).T
        if model.classes is not None:
            return model.loss.probabilities(f / stated_temperature(self.estimator))
        with np.errstate(all="ignore"):
            return model.decode_target(model.loss.mean(f[:, 0]))[:, None]

    def change(self, moves: FloatArray) -> FloatArray:
        """Effects of b training rows on predictions, (b, m K), from changes (b, m k) as each row is left out."""
        f = self._tangents[0]
        without = f + moves.reshape(len(moves), *f.shape)  # (b, m, k)
        return self.values - self._predicted(without.reshape(-1, f.shape[1])).reshape(len(moves), -1)

    @property
    def gradients(self) -> FloatArray:
        """Gradients of the predictions in the parameters, (m K, p)."""
        f, J = self._tangents
        options = {"class_": self.estimator.model_.classes, "statistic": "median"}
        is_raw, response = self.scale == "raw", Response(self.estimator, self.asking, **options)
        slopes = _raw_basis(self.estimator.model_.loss) if is_raw else response.at(f, self.X)[1]
        return (slopes @ J).reshape(-1, J.shape[2])

    def checked_top(self, top: int | None) -> int | None:
        """Limit ``top`` to the number of rows, and refuse None if the table of all rows is too large."""
        n, q = len(self.units), len(self.values)
        if top is None and 16 * n * q > machine_bytes() / 2:
            raise MemoryError(
                f"{self.asking} of {n} rows on {q} predictions is a table of {8e-9 * n * q:.3g} GB; ask for top=20."
            )
        return top if top is None else min(check_count(top, "top"), n)

    def table(self, found: FloatArray | Top, name: str) -> pd.DataFrame:
        """Table of rows by predictions, or of the largest effects on each prediction."""
        if not isinstance(found, Top):
            columns = self.labels.rename("prediction")
            if self.outputs is not None:
                columns = pd.MultiIndex.from_product([self.labels, self.outputs], names=["prediction", "class"])
            return pd.DataFrame(found, index=self.units, columns=columns)
        k, K = len(found.values), 1 if self.outputs is None else len(self.outputs)
        row = "row" if self.training.rows.groups is None else "group"
        table: dict[str, Any] = {"prediction": self.labels.repeat(K * k)}
        if self.outputs is not None:
            table["class"] = np.tile(np.repeat(self.outputs, k), len(self.labels))
        table |= {row: self.units[found.rows.T.ravel()], name: found.values.T.ravel()}
        return pd.DataFrame(table)


def _raw_basis(loss):
    """Matrix (K, k) that turns raw predictions into logits of all classes, or into the location."""
    return np.eye(loss.n_outputs)[:1] if loss.output_map is None else loss.output_map
