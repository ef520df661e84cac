"""Pointwise losses of the raw prediction ``f`` (n, k), before the inverse link, and a target ``y`` (n,) or (n, m).

A loss has derivatives in f and a family of distributions of y given f; a classifier's also ``probabilities(f)``.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.linalg import helmert
from scipy.special import expit, logsumexp, softmax, xlogy

from .._laws.families import TweedieFamily
from .._laws.noise_distributions import NORMAL, LocationFamily, NoiseLaw, NormalLaw, StudentLaw
from .._utils.typing import FloatArray


class Loss:
    """Contract of a loss. Losses with ``k == 1`` may write ``_derivatives`` instead of three methods."""

    n_outputs = 1  # k: how many raw predictions the loss takes
    n_classes = 0  # K, of a classifier
    by_output: tuple["Loss", ...] = ()  # losses of the columns of y if y is (n, m)
    output_map: FloatArray | None = None  # (K, k), from logits to the coordinates f of the loss; None for the identity
    curvature_rank = 1  # rank of the expected curvature R R'
    convex = True  # whether the loss is convex in f, so that its Hessian is never indefinite
    quadratic = False  # whether the loss is quadratic in f, so that one Newton step minimises a linear model
    additive = True  # whether y is f plus noise, whose distribution is a location family
    least_target = -np.inf  # smallest target at which the loss is defined
    probabilities: Callable[[FloatArray], FloatArray]  # of a classifier: f (n, k, ...) to (n, K, ...)

    # ------------------------------------------------------------------ what an observation is
    def row_weight(self, y: FloatArray) -> FloatArray | float:
        """Weights that the loss gives to rows by their class.

        Parameters
        ----------
        y : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n,), or 1
        """
        return 1.0

    def mean(self, f: FloatArray) -> FloatArray:
        """Inverse link: the mean of y at the raw prediction.

        Parameters
        ----------
        f : ndarray

        Returns
        -------
        ndarray, of the same shape
        """
        return f

    def from_mean(self, mu: FloatArray) -> FloatArray:
        """Link: the raw prediction at a mean, infinite beyond the possible means.

        Parameters
        ----------
        mu : ndarray

        Returns
        -------
        ndarray, of the same shape
        """
        return mu

    def mean_derivative(self, f: FloatArray) -> FloatArray:
        """Derivative of :meth:`mean`.

        Parameters
        ----------
        f : ndarray

        Returns
        -------
        ndarray, of the same shape
        """
        return np.ones_like(f)

    def law(self, dispersion: FloatArray, shape: NoiseLaw = NORMAL) -> LocationFamily | TweedieFamily:
        """Family of distributions of y given f, with Var(y | f) = dispersion V(mu).

        Parameters
        ----------
        dispersion : ndarray
        shape : NoiseLaw
            Distribution of additive noise; a generalized linear model has a family of its own.

        Returns
        -------
        LocationFamily or TweedieFamily
        """
        return LocationFamily(dispersion, shape)

    def gradient_bound(self, y: FloatArray) -> FloatArray:
        """Largest norm of the gradient over all f; infinite unless the loss grows at most linearly.

        Parameters
        ----------
        y : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.full(len(y), np.inf)

    def squared_residuals(self, f: FloatArray, y: FloatArray) -> FloatArray:
        """Pearson's (y - mu)^2 / V(mu), relative to the noise scale that f predicts.

        Parameters
        ----------
        f, y : ndarray of shape (n, k) and (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        return (y - f[:, 0]) ** 2 / self.noise_scale(f)

    def noise_scale(self, f: FloatArray) -> FloatArray:
        """Relative variance of the noise as f predicts it: one unless the loss models it.

        Parameters
        ----------
        f : ndarray of shape (n, k)

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.ones(len(f))

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        """Loss of each row.

        Parameters
        ----------
        f, y : ndarray of shape (n, k) and (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        raise TypeError(f"{type(self).__name__} must define value(f, y).")

    def _derivatives(self, f, y):
        """First derivative, second derivative and expected second derivative in the scalar f, each (n,)."""
        raise TypeError(f"{type(self).__name__} must define _derivatives(f, y) or gradient, hessian, curvature_root.")

    def gradient(self, f: FloatArray, y: FloatArray) -> FloatArray:
        """First derivative of the loss in f.

        Parameters
        ----------
        f, y : ndarray of shape (n, k) and (n,)

        Returns
        -------
        ndarray of shape (n, k)
        """
        return self._derivatives(f[:, 0], y)[0][:, None]

    def hessian(self, f: FloatArray, y: FloatArray) -> FloatArray:
        """Second derivative of the loss in f, exact and possibly indefinite.

        Parameters
        ----------
        f, y : ndarray of shape (n, k) and (n,)

        Returns
        -------
        ndarray of shape (n, k, k)
        """
        return self._derivatives(f[:, 0], y)[1][:, None, None]

    def curvature_root(self, f: FloatArray, y: FloatArray) -> FloatArray:
        """Root R of the expected second derivative given x, R R': the Gauss-Newton weight, never indefinite.

        Parameters
        ----------
        f, y : ndarray of shape (n, k) and (n,)

        Returns
        -------
        ndarray of shape (n, k, r)
        """
        with np.errstate(invalid="ignore"):  # a mean out of its range makes sums that are checked later
            return np.sqrt(self._derivatives(f[:, 0], y)[2])[:, None, None]


def expected_hessian(loss: Loss, f: FloatArray, y: FloatArray) -> FloatArray:
    """Expected second derivative R R' (n, k, k), as the Hessian of a loss that it equals."""
    R = loss.curvature_root(f, y)
    return R @ R.transpose(0, 2, 1)


class Tweedie(Loss):
    r"""Half deviance of the Tweedie family, with mean f or exp(f).

    Power 0 is half the squared error, 1 Poisson, 2 gamma, 3 inverse Gaussian.

    .. math:: \mathrm{Var}(y) = \phi \mu^{power}, \qquad
              \frac{\partial \ell}{\partial \mu} = (\mu - y)\, \mu^{-power}

    Parameters
    ----------
    power : float, default=0.0
    link : {"identity", "log"}, default="identity"
    counts : bool, default=True
        Whether observations of power 1 are whole numbers. Others, such as rates, have a distribution with a density.

    See Also
    --------
    WithOffset : GLMs with an offset or exposure.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> from skribbon.models import Tweedie
    >>> Tweedie(power=1, link="log").gradient(np.array([[0.0]]), np.array([3.0]))  # mean minus y
    array([[-2.]])
    """

    def __init__(self, power: float = 0.0, link: Literal["identity", "log"] = "identity", counts: bool = True):
        self.power, self.link, self.counts = float(power), link, counts
        self._log = link == "log"
        self.additive = self.quadratic = self.power == 0 and not self._log
        self.convex = self.quadratic or (self._log and 1 <= self.power <= 2)
        self.least_target = -np.inf if self.power < 1 else 0.0 if self.power < 2 else np.nextafter(0.0, 1.0)

    def mean(self, f: FloatArray) -> FloatArray:
        if not self._log:
            return f
        with np.errstate(over="ignore"):  # a mean may overflow to infinity
            return np.exp(f)

    def from_mean(self, mu: FloatArray) -> FloatArray:
        if not self._log:
            return mu
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(mu, 0.0))

    def mean_derivative(self, f: FloatArray) -> FloatArray:
        return self.mean(f) if self._log else np.ones_like(f)

    def squared_residuals(self, f: FloatArray, y: FloatArray) -> FloatArray:
        mu = self.mean(f[:, 0])
        return (y - mu) ** 2 / np.abs(mu) ** self.power  # identity links may give negative means

    def law(self, dispersion: FloatArray, shape: NoiseLaw = NORMAL) -> LocationFamily | TweedieFamily:
        if self.additive:
            return LocationFamily(dispersion, shape)
        return TweedieFamily(dispersion, self.power, self.link, self.counts)

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        mu, p = self.mean(f[:, 0]), self.power
        if p == 0:
            return (mu - y) ** 2 / 2
        if p == 1:
            return xlogy(y, y) - xlogy(y, mu) - y + mu
        if p == 2:
            return y / mu - 1 - np.log(y / mu)
        return np.maximum(y, 0) ** (2 - p) / ((1 - p) * (2 - p)) - y * mu ** (1 - p) / (1 - p) + mu ** (2 - p) / (2 - p)

    def _derivatives(self, f, y):
        mu = self.mean(f) if self._log else f
        V = mu**self.power
        dl = (mu - y) / V
        d2l = 1 / V - self.power * dl / mu if self.power else np.ones_like(mu)
        if not self._log:
            return dl, d2l, 1 / V
        return dl * mu, (d2l * mu + dl) * mu, mu * mu / V  # mu' = mu'' = mu

    def __repr__(self):
        return f"Tweedie(power={self.power:g}, link={self.link!r})"


class SquaredErrors(Loss):
    r"""Half the squared error summed over m outputs, f and y (n, m).

    .. math:: \ell = \tfrac12 \sum_j (f_j - y_j)^2

    Parameters
    ----------
    n_outputs : int

    See Also
    --------
    skribbon.RibbonRegressor : Takes models of several outputs.

    Notes
    -----
    User guide: :doc:`/user_guide/outputs`.

    Examples
    --------
    >>> from skribbon.models import SquaredErrors
    >>> SquaredErrors(2).value(np.array([[0.0, 1.0]]), np.array([[2.0, 1.0]]))
    array([2.])
    """

    def __init__(self, n_outputs: int):
        self.n_outputs = self.curvature_rank = int(n_outputs)
        self.by_output = (Tweedie(),) * self.n_outputs

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return ((f - y) ** 2).sum(axis=1) / 2

    def gradient(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return f - y

    def hessian(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return np.broadcast_to(np.eye(self.n_outputs), (len(f), self.n_outputs, self.n_outputs))

    curvature_root = hessian

    def squared_residuals(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return ((f - y) ** 2).sum(axis=1)

    def __repr__(self):
        return f"SquaredErrors({self.n_outputs})"


class Huber(Loss):
    r"""Huber's loss with a fixed threshold.

    .. math:: \ell(r) = r^2 / 2 \text{ where } |r| \le \epsilon, \qquad
              \epsilon |r| - \epsilon^2 / 2 \text{ elsewhere.}

    Parameters
    ----------
    epsilon : float
        In units of y.

    See Also
    --------
    StudentT : A likelihood that is robust to outliers.
    skribbon.AutogradRegressor : Takes a loss.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> from skribbon.models import Huber
    >>> Huber(1.0).value(np.array([[0.0], [0.0]]), np.array([0.5, 3.0]))
    array([0.125, 2.5  ])
    """

    def __init__(self, epsilon: float):
        self.epsilon = float(epsilon)

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        r = np.abs(f[:, 0] - y)
        return np.where(r <= self.epsilon, r**2 / 2, self.epsilon * (r - self.epsilon / 2))

    def gradient_bound(self, y: FloatArray) -> FloatArray:
        return np.full(len(y), self.epsilon)

    def _derivatives(self, f, y):
        r = f - y
        inside = (np.abs(r) <= self.epsilon).astype(float)
        return np.clip(r, -self.epsilon, self.epsilon), inside, inside


class SquaredEpsilonInsensitive(Loss):
    """Squared epsilon-insensitive loss (|r| - epsilon)_+^2."""

    def __init__(self, epsilon):
        self.epsilon = float(epsilon)

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return np.maximum(np.abs(f[:, 0] - y) - self.epsilon, 0) ** 2

    def _derivatives(self, f, y):
        r = f - y
        excess = np.maximum(np.abs(r) - self.epsilon, 0)
        h = 2.0 * (excess > 0)
        return 2 * np.sign(r) * excess, h, h


class StudentT(Loss):
    r"""Negative log likelihood of Student's t distribution around f, whose influence falls off for large residuals.

    .. math:: \ell(r) = \frac{\nu + 1}{2} \log\left(1 + \frac{r^2}{\nu s^2}\right) + \text{constant}

    Parameters
    ----------
    df : float, default=5.0
        Degrees of freedom.
    scale : float, default=1.0
        In units of y, fixed.

    See Also
    --------
    Huber : A convex loss that is robust to outliers.
    skribbon.AutogradRegressor : Takes a loss.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> from skribbon.models import StudentT
    >>> StudentT(df=3).gradient(np.array([[1.0], [100.0]]), np.zeros(2)).round(2)
    array([[1.  ],
           [0.04]])
    """

    convex = False

    def __init__(self, df: float = 5.0, scale: float = 1.0):
        self.df, self.scale = float(df), float(scale)

    def law(self, dispersion: FloatArray, shape: NoiseLaw = NORMAL) -> LocationFamily | TweedieFamily:
        own = StudentLaw(max(self.df, 2.1))  # with 2 or fewer degrees of freedom it has no variance
        return LocationFamily(dispersion, own if isinstance(shape, NormalLaw) else shape)

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return (self.df + 1) / 2 * np.log1p(((f[:, 0] - y) / self.scale) ** 2 / self.df)

    def _derivatives(self, f, y):
        nu, s2 = self.df, self.scale**2
        r = f - y
        q = nu * s2 + r**2
        expected = np.full_like(r, (nu + 1) / ((nu + 3) * s2))  # the Fisher information of the location
        return (nu + 1) * r / q, (nu + 1) * (nu * s2 - r**2) / q**2, expected


class GaussianNLL(Loss):
    r"""Normal log likelihood with f = (mean, log variance): the model predicts its own noise.

    .. math:: \ell = \tfrac12 \left(f_2 + (y - f_1)^2 e^{-f_2}\right)

    See Also
    --------
    StudentT : Robust to outliers.
    skribbon.AutogradRegressor : Takes a loss.

    Notes
    -----
    User guide: :doc:`/user_guide/noise`.

    Examples
    --------
    >>> from skribbon.models import GaussianNLL
    >>> GaussianNLL().value(np.array([[0.0, 0.0], [0.0, np.log(4.0)]]), np.array([2.0, 2.0])).round(2)
    array([2.  , 1.19])
    """

    convex = False
    curvature_rank = 2
    n_outputs = 2

    def noise_scale(self, f: FloatArray) -> FloatArray:
        return np.exp(f[:, 1])

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return (f[:, 1] + (y - f[:, 0]) ** 2 * np.exp(-f[:, 1])) / 2

    def gradient(self, f: FloatArray, y: FloatArray) -> FloatArray:
        r, precision = y - f[:, 0], np.exp(-f[:, 1])
        return np.stack([-r * precision, (1 - r**2 * precision) / 2], axis=1)

    def hessian(self, f: FloatArray, y: FloatArray) -> FloatArray:
        r, precision = y - f[:, 0], np.exp(-f[:, 1])
        H = np.empty((len(f), 2, 2))
        H[:, 0, 0], H[:, 1, 1] = precision, r**2 * precision / 2
        H[:, 0, 1] = H[:, 1, 0] = r * precision
        return H

    def curvature_root(self, f: FloatArray, y: FloatArray) -> FloatArray:
        R = np.zeros((len(f), 2, 2))
        R[:, 0, 0], R[:, 1, 1] = np.exp(-f[:, 1] / 2), np.sqrt(0.5)
        return R


class HuberWithScale(Loss):
    """Huber's loss s + s rho((y - eta)/s) of location and scale f = (eta, s), with a Hessian of rank one.

    The Hessian counts rows up to ``window`` times the threshold, each by 1 / window: near epsilon = 1 few rows are
    below the threshold, and the density of residuals near zero is known better from more rows.
    """

    n_outputs = 2

    def __init__(self, epsilon, window=1.0):
        self.epsilon, self.window = float(epsilon), float(window)

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return f[:, 1] * (1 + self._standardized(f, y)[1])

    def _standardized(self, f, y):
        z = (y - f[:, 0]) / f[:, 1]
        outside = 2 * self.epsilon * np.abs(z) - self.epsilon**2
        return z, np.where(np.abs(z) <= self.epsilon, z**2, outside)

    def gradient(self, f: FloatArray, y: FloatArray) -> FloatArray:
        z, rho = self._standardized(f, y)
        psi = 2 * np.clip(z, -self.epsilon, self.epsilon)
        return np.stack([-psi, 1 + rho - psi * z], axis=1)

    hessian = expected_hessian

    def curvature_root(self, f: FloatArray, y: FloatArray) -> FloatArray:
        z = (y - f[:, 0]) / (f[:, 1] * self.window)
        root = np.sqrt(2 / (f[:, 1] * self.window)) * (np.abs(z) <= self.epsilon)
        return np.stack([root, root * z], axis=1)[:, :, None]


class ClassLoss(Loss):
    """Loss of a class index y; ``class_weight`` (K,), or None, multiplies each row's loss."""

    class_weight: FloatArray | None
    n_classes = 2
    additive = False

    def row_weight(self, y):
        return 1.0 if self.class_weight is None else self.class_weight[y.astype(int)]

    def gradient_bound(self, y: FloatArray) -> FloatArray:
        return self.row_weight(y) * np.full(len(y), 1.0 if self.n_classes == 2 else np.sqrt(2.0))  # of |P - e_y|

    def curvature_trace(self, f, y):
        """Trace (n,) of the expected second derivative given x, R R'."""
        return np.square(self.curvature_root(f, y)).sum(axis=(1, 2))


class Bernoulli(ClassLoss):
    """Logistic log loss of a class index y in {0, 1}."""

    def __init__(self, class_weight=None):
        self.class_weight = class_weight

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        return self.row_weight(y) * np.logaddexp(0, (1 - 2 * y) * f[:, 0])

    def _derivatives(self, f, y):
        P, Q, c = expit(f), expit(-f), self.row_weight(y)  # Q is 1 - P to full relative precision
        h = c * P * Q
        return c * (P * (1 - y) - Q * y), h, h

    def probabilities(self, f):
        """Probabilities (n, 2, ...) at raw predictions (n, 1, ...)."""
        return np.concatenate([expit(-f), expit(f)], axis=1)


class Categorical(ClassLoss):
    """Softmax log loss of a class index y; logits f B' sum to zero, with B (K, K - 1) an orthonormal basis of these."""

    def __init__(self, n_classes, class_weight=None):
        self.class_weight = class_weight
        self.n_classes = n_classes
        self.basis = self.output_map = helmert(n_classes).T.copy()
        self.curvature_rank = self.n_outputs = n_classes - 1

    def value(self, f: FloatArray, y: FloatArray) -> FloatArray:
        eta = f @ self.basis.T
        own = np.arange(len(y)), y.astype(int)
        behind = eta - eta[own][:, None]
        behind[own] = -np.inf
        return self.row_weight(y) * np.logaddexp(0, logsumexp(behind, axis=1))  # log(1 + small) to full precision

    def gradient(self, f: FloatArray, y: FloatArray) -> FloatArray:
        residual = softmax(f @ self.basis.T, axis=1)
        own = np.arange(len(y)), y.astype(int)
        residual[own] = 0.0
        residual[own] = -residual.sum(axis=1)  # P_y - 1 to full relative precision, also if P_y is close to one
        return (residual @ self.basis) * np.reshape(self.row_weight(y), (-1, 1))

    hessian = expected_hessian

    def curvature_root(self, f: FloatArray, y: FloatArray) -> FloatArray:
        # diag(q) (I - q q') with q = sqrt(P) has one column too many. A reflection that maps q to the axis of the most
        # probable class t makes column t zero and column j equal to q_j (e_j - e_t - sum_i P_i (e_i - e_t) / (1 + q_t))
        P = softmax(f @ self.basis.T, axis=1)
        n, K = P.shape
        t, j = P.argmax(axis=1), np.arange(K - 1)
        others = j + (j >= np.arange(K)[:, None])  # all classes but t, (K, K - 1)
        from_top = (self.basis[others] - self.basis[:, None])[t]  # (n, K - 1, k)
        p = np.take_along_axis(P, others[t], 1)
        rest = (p[:, None] @ from_top) / (1 + np.sqrt(P[np.arange(n), t]))[:, None, None]
        scale = np.sqrt(p * np.reshape(self.row_weight(y), (-1, 1)))
        return ((from_top - rest) * scale[:, :, None]).transpose(0, 2, 1)

    def probabilities(self, f):
        """Probabilities (n, K, ...) at raw predictions (n, k, ...)."""
        return softmax(np.tensordot(f, self.basis, axes=(1, 1)).swapaxes(1, -1), axis=1)
