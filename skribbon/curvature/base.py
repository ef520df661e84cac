"""Curvature of the training loss: the contract, the dense curvatures, and the choice by name."""

import os
from contextlib import suppress
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import BaseEstimator

from .._core.linalg import Dense, Factor, batch_gram
from .._core.rows import Block, Moments, Rows, Sums
from .._core.thresholds import CLOSED_FORM_LIMIT, DENSE_MEMORY, DENSE_WORK, MAX_MEMORY
from .._utils.typing import CurvatureName, FloatArray
from ..exceptions import ApproximateCurvatureWarning, CurvatureError, warn_user


class Curvature(BaseEstimator):
    r"""Base class of curvatures of the training loss; subclass it to add your own.

    A subclass implements ``of_block``, its sum over a block of rows (any object that adds), and ``factored``, which
    turns the mean of that plus a diagonal into a Factor, or ``factor`` if it needs more than one pass over the rows.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        Added to the diagonal, on the scale of the mean loss. "auto" adds nothing, except to networks with many
        effective parameters per row: the parameter ``damping`` of :class:`~skribbon.RibbonRegressor` has the rule.

    See Also
    --------
    Hessian : Exact Hessian, dense.
    GaussNewton : Generalized Gauss-Newton matrix, dense.
    KFAC : Kronecker products, for large networks.
    MatrixFree : Products with vectors, for large models.

    Notes
    -----
    The penalized curvature is

    .. math:: H_r = H + \mathrm{diag}(l2) + \mathrm{damping}\; I

    User guide: :doc:`/user_guide/curvature`.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skribbon.curvature import Hessian
    >>> from skribbon.metrics import neg_nll_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(curvature=Hessian())
    >>> search = GridSearchCV(ribbon, {"curvature__damping": [0.0, 1.0]}, scoring=neg_nll_scorer).fit(X, y)
    >>> search.best_params_
    {'curvature__damping': 0.0}
    """

    knows_leverages = False  # whether H is exact enough to correct each score by the row's own leverage
    reweights = False  # whether H is a plain sum over rows, so that drawn weights give another H
    factors_again = False  # whether another damping costs little, from the same sums
    square_limit: float = CLOSED_FORM_LIMIT  # parameters up to which the p x p sandwich is formed; draws beyond it
    peak_squares = 8  # p x p arrays that are alive at once while the sandwich is formed

    def __init__(self, damping: float | Literal["auto"] = "auto"):
        self.damping = damping

    def of_block(self, block: Block) -> Any:
        """Sum over a block of rows, each counted ``weight`` times.

        Parameters
        ----------
        block : Block

        Returns
        -------
        array, or any object that adds and divides
        """
        raise TypeError(f"{type(self).__name__} must define of_block(block).")

    def of_loss(self, block: Block) -> FloatArray:
        """Curvature of each row's loss in f, from which leverages are computed.

        Parameters
        ----------
        block : Block

        Returns
        -------
        ndarray of shape (b, k, k)
        """
        return batch_gram(block.R)

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        """Factor of the mean over rows plus diag(shift).

        Parameters
        ----------
        mean : object
            Result of :meth:`of_block`, summed over all blocks and divided by n.
        shift : ndarray of shape (p,)
            Penalty and damping.

        Returns
        -------
        Factor
        """
        raise TypeError(f"{type(self).__name__} must define factored(mean, shift).")

    def factor(self, rows: Rows, moments: Moments) -> Factor:
        """Factor of H_r.

        Parameters
        ----------
        rows : Rows
        moments : Moments

        Returns
        -------
        Factor
        """
        return self.factored(moments.curvature / moments.n, self.shift(rows.model))

    def view(self, model: Any) -> Any:
        """Model whose parameters are uncertain: the model itself, unless some parameters are kept fixed.

        Parameters
        ----------
        model : ParametricModel

        Returns
        -------
        ParametricModel
        """
        return model

    def predicted_bytes(self, p: int) -> int:
        """Peak memory of a fit, beyond X and one block of rows.

        Parameters
        ----------
        p : int
            Number of parameters.

        Returns
        -------
        int
        """
        return 8 * self.peak_squares * p**2 if p <= self.square_limit else 0

    def shift(self, model: Any) -> FloatArray:
        """Diagonal that is added to H: penalty and damping.

        Parameters
        ----------
        model : ParametricModel

        Returns
        -------
        ndarray of shape (p,)
        """
        if self.damping == "auto":
            return model.l2
        if not isinstance(self.damping, Real) or not 0 <= self.damping < np.inf:
            raise ValueError(f"damping must be 'auto' or a number >= 0, got {self.damping!r}.")
        return model.l2 + float(self.damping)


class DenseCurvature(Curvature):
    """Curvature held as a p x p array."""

    knows_leverages = True
    factors_again = True
    square_limit = np.inf
    peak_squares = 9  # two sums, H_r, its factor and inverse root, H_Fc, and three arrays that its root takes

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        return Dense(mean, shift)


class Hessian(DenseCurvature):
    r"""Exact Hessian of the mean loss; indefinite away from a minimum, or for a non-convex model.

    .. math:: H = \frac1n \sum_i \nabla^2_\theta \ell(z_i, \hat\theta)

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    See Also
    --------
    GaussNewton : Never indefinite.

    Notes
    -----
    User guide: :doc:`/user_guide/curvature`.

    Examples
    --------
    >>> from skribbon.curvature import Hessian
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000)
    >>> RibbonClassifier(model, curvature=Hessian()).fit(X[:, :2], y).predict_proba(X[:1, :2]).round(2)
    array([[0.8, 0.2]])
    """

    reweights = True

    def of_block(self, block: Block) -> FloatArray:
        if not block.model.has_hessian:
            raise TypeError(f"{type(block.model).__name__} has no exact Hessian; use curvature='ggn' or 'fisher'.")
        return block.hessian()

    def of_loss(self, block: Block) -> FloatArray:
        return block.C


class GaussNewton(DenseCurvature):
    r"""Generalized Gauss-Newton matrix, or expected Hessian; never indefinite.

    .. math:: H = \frac1n \sum_i J_i' \,\mathrm{E}\left[\frac{\partial^2 \ell_i}{\partial f^2}\right] J_i

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    See Also
    --------
    Hessian : Exact second derivative.
    KFAC : Approximation for large networks.

    Notes
    -----
    User guide: :doc:`/user_guide/curvature`.

    Examples
    --------
    >>> from skribbon.curvature import GaussNewton
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1), curvature=GaussNewton(damping=1e-4)).fit(X, y)
    >>> round(ribbon.effective_parameters_, 1)
    8.2
    """

    reweights = True

    def of_block(self, block: Block) -> FloatArray:
        return block.ggn()


class EmpiricalFisher(DenseCurvature):
    r"""Empirical Fisher matrix; equals the Hessian only for a correct likelihood, in large samples.

    .. math:: H = H_F / \phi, \qquad H_F = \frac1n \sum_i g_i g_i', \qquad
              \phi = \sum_i \left|\frac{\partial \ell_i}{\partial f}\right|^2 \Big/
              \sum_i \mathrm{tr}\, \mathrm{E}\left[\frac{\partial^2 \ell_i}{\partial f^2}\right]

    Phi is the residual variance for squared error, the dispersion of a GLM, and about one for a classifier.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    See Also
    --------
    GaussNewton : Does not depend on the residuals.

    Notes
    -----
    User guide: :doc:`/user_guide/curvature`.

    Examples
    --------
    >>> from skribbon.curvature import EmpiricalFisher
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ribbon = RibbonRegressor(Ridge(alpha=0.1), curvature=EmpiricalFisher()).fit(X, y)
    >>> round(ribbon.effective_parameters_, 1)
    8.5
    """

    def of_block(self, block: Block) -> Sums:
        squared, expected, H_F = block.u**2, (block.R**2).sum(axis=2), block.score_scatter(block.u)
        m = block.model.loss.n_outputs if block.model.outputs_are_separate else 1
        if m > 1:  # keep the blocks of the separate outputs
            H_F = H_F * np.kron(np.eye(m), np.ones((len(H_F) // m,) * 2))
        return Sums([H_F, *((block.weight @ values).reshape(m, -1).sum(axis=1) for values in (squared, expected))])

    def factored(self, mean: Any, shift: FloatArray) -> Factor:
        H_F, squared_gradient, expected_curvature = mean
        if not squared_gradient.all():
            raise CurvatureError("curvature='fisher' needs scores that are not all zero; use 'ggn' or 'hessian'.")
        scale = np.repeat(expected_curvature / squared_gradient, len(H_F) // len(squared_gradient))
        return super().factored(scale * H_F, shift)


class LastLayer(DenseCurvature):
    """Dense curvature of the last layer; all layers before it are treated as known.

    Cheap for any depth, but it understates uncertainty away from the data, where the last hidden units vary little.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
        See :class:`Curvature`.

    See Also
    --------
    KFAC : All layers of a large network.

    Notes
    -----
    User guide: :doc:`/user_guide/curvature`, :doc:`/user_guide/networks`.

    Examples
    --------
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> network = MLPRegressor(hidden_layer_sizes=(2,), activation="tanh", solver="lbfgs", alpha=0.01, random_state=0)
    >>> len(RibbonRegressor(network, curvature="last_layer").fit(X, y).model_.theta)  # two weights and a bias
    3
    """

    reweights = True
    peak_squares = Curvature.peak_squares

    def view(self, model: Any) -> Any:
        return model.last_layer()

    def of_block(self, block: Block) -> FloatArray:
        return block.hessian() if block.model.exact_is_psd else block.ggn()

    def of_loss(self, block: Block) -> FloatArray:
        return block.C if block.model.exact_is_psd else super().of_loss(block)


CURVATURES: dict[str, type[Curvature]] = {"hessian": Hessian, "ggn": GaussNewton, "fisher": EmpiricalFisher}
CURVATURES["last_layer"] = LastLayer


def resolve_curvature(
    curvature: CurvatureName | Curvature, damping: float | Literal["auto"], model: Any, n: int
) -> Curvature:
    """Return a Curvature for "auto", a name with the estimator's ``damping``, or an object.

    "auto" is the exact Hessian of linear models and GLMs, else Gauss-Newton; if these take too much memory or time,
    KFAC for networks of dense layers and MatrixFree for other models. Raises MemoryError before allocating too much.

    Parameters
    ----------
    curvature : str or Curvature
    damping : "auto" or float
        "auto" if ``curvature`` is an object, which has its own.
    model : ParametricModel
    n : int
        Number of training rows.

    Returns
    -------
    Curvature

    Examples
    --------
    >>> from skribbon.curvature import resolve_curvature
    >>> from skribbon.models import as_parametric
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0])
    >>> model = as_parametric(Ridge().fit(X, y), y, np.ones(3))
    >>> resolve_curvature("auto", 0.1, model, n=3)
    Hessian(damping=0.1)
    """
    if isinstance(curvature, Curvature):
        if damping != "auto":
            raise ValueError("damping is set twice; with a curvature object, pass damping to that object only.")
        chosen = curvature
    elif not isinstance(curvature, str) or curvature not in get_args(CurvatureName):
        names = ", ".join(map(repr, get_args(CurvatureName)))
        raise ValueError(f"curvature must be {names} or a Curvature object, got {curvature!r}.")
    elif curvature != "auto":
        chosen = CURVATURES[curvature](damping=damping)
    else:
        dense = (Hessian if model.exact_is_psd or model.is_linear else GaussNewton)(damping=damping)
        p = len(model.theta)
        rank = 1 if model.outputs_are_separate else model.loss.curvature_rank
        needed, work = dense.predicted_bytes(p), n * rank * p**2
        if needed <= DENSE_MEMORY * machine_bytes() and work <= DENSE_WORK:
            return dense
        chosen = CURVATURES["kfac" if model.has_layers else "matrix_free"](damping=damping)
        warn_user(
            f"{p} parameters make a dense curvature of {needed / 1e9:.3g} GB and some {work:.1g} multiplications, so "
            f"curvature='auto' uses {type(chosen).__name__}, whose intervals are approximate. Try: name a curvature.",
            ApproximateCurvatureWarning,
        )
    p = len(chosen.view(model).theta)
    needed, available = chosen.predicted_bytes(p), machine_bytes()
    if needed > MAX_MEMORY * available:
        raise MemoryError(
            f"{type(chosen).__name__} would take {needed / 1e9:.3g} GB of {available / 1e9:.3g} GB for {p} parameters. "
            "Use curvature='kfac' (networks), 'matrix_free', 'low_rank', 'diag' or 'last_layer': no p x p array."
        )
    return chosen


@cache
def machine_bytes():
    """Memory that this process may use: the machine's, or its container's limit if that is smaller."""
    known = [2**40]  # assumed if the system gives no number: larger arrays then raise MemoryError by themselves
    with suppress(AttributeError, OSError, ValueError):  # not on every platform
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # no such limit
        known.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(known)
