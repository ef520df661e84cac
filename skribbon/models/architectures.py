"""Ready-made functions f(params, X) for :class:`~skribbon.AutogradRegressor` and :class:`~skribbon.AutogradClassifier`.

Rows may each have their own parameters: X is then (n, 1, d), a matrix (n, in, out), a vector (n, 1, out), f (n, 1, k).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any, Literal, TypeAlias

import autograd.numpy as np
import numpy
from autograd.extend import defjvp, defvjp, primitive
from numpy.lib.stride_tricks import sliding_window_view

from .._utils.compat import cached_property
from .._utils.typing import FloatArray
from .base import ParametricModel
from .mlp import ACTIVATIONS as UNTRACED
from .mlp import MultilayerPerceptron

__all__ = ["Architecture", "cnn", "linear_in_features", "michaelis_menten", "mlp", "monotone"]

Activation: TypeAlias = Literal["tanh", "relu", "logistic", "softplus", "identity"]


def _elementwise(phi, slope):
    """Activation phi as an autograd primitive with its derivative ``slope`` as a function of a = phi(z)."""
    traced = primitive(phi)
    defvjp(traced, lambda a, z: lambda g: g * slope(a))
    defjvp(traced, lambda g, a, z: g * slope(a))
    return traced


ACTIVATIONS = {name: _elementwise(phi, slope) for name, (phi, slope, _) in UNTRACED.items()}
ACTIVATIONS["softplus"] = _elementwise(UNTRACED["softplus"][0], lambda a: -np.expm1(-a))  # of autograd's numpy


class Architecture:
    """Ready-made function f(params, X) with its starting parameters; subclasses are frozen dataclasses.

    A subclass writes ``__call__(params, X)``, X (n, d) to f (n, k), in ``autograd.numpy``, and ``init``. Parameters are
    lists, tuples and dicts of float64 arrays; matrices are weights, vectors are biases.

    See Also
    --------
    skribbon.AutogradRegressor : Fits an architecture or a function of yours.

    Notes
    -----
    User guide: :doc:`/user_guide/networks`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import autograd.numpy as np
    >>> from skribbon.models import Architecture, AutogradRegressor
    >>> @dataclass(frozen=True)
    ... class wave(Architecture):
    ...     def init(self, X, n_outputs, random_state):
    ...         return {"height": np.array(1.0), "phase": np.array(0.0)}
    ...     def __call__(self, params, X):
    ...         return params["height"] * np.sin(X + params["phase"])
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> AutogradRegressor(wave()).fit(X, 2 * np.cos(X[:, 0])).predict([[0.0]]).round(3)
    array([2.])
    """

    dropout: float = 0.0  # probability with which ``noisy`` drops a unit
    is_network: bool = False  # whether single parameters mean nothing, so that there is no table of them

    def __call__(self, params: Any, X: FloatArray) -> FloatArray:
        """Compute f(params, X) (n, k), each row from that row of X alone."""
        raise TypeError(f"{type(self).__name__} must define __call__(params, X).")

    def init(self, X: FloatArray, n_outputs: int, random_state: np.random.RandomState) -> Any:
        """Starting values of the parameters.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        n_outputs : int
        random_state : RandomState

        Returns
        -------
        nest of ndarray
        """
        raise TypeError(f"{type(self).__name__} must define init(X, n_outputs, random_state).")

    def penalised(self, params: Any) -> Any:
        """Mark the parameters that a penalty applies to: weights, not biases.

        Parameters
        ----------
        params : nest of ndarray

        Returns
        -------
        nest of float
            Like ``params``: 1.0 for penalized parameters, 0.0 for others.
        """
        return map_leaves(lambda leaf: float(np.ndim(leaf) >= 2), params)

    def noisy(self, params: Any, X: FloatArray, rng: np.random.RandomState) -> FloatArray:
        """Compute f with new dropout masks, for a training step.

        Parameters
        ----------
        params : nest of ndarray
        X : ndarray of shape (n, d)
        rng : RandomState

        Returns
        -------
        ndarray of shape (n, k)
        """
        return self(params, X)

    def parametric(self, params: Any, l2: Any, **fields: Any) -> ParametricModel | None:
        """Model with analytic derivatives; None lets autograd differentiate the function.

        Parameters
        ----------
        params : nest of ndarray
        l2 : nest of float
        **fields
            The remaining fields of the model: loss, classes, ...

        Returns
        -------
        ParametricModel or None
        """
        return None


def _glorot(shapes, activation, random_state):
    """Draw weights and biases of layers (in, out) as scikit-learn's networks do; the last bias is zero."""
    params = []
    for n_in, n_out in shapes:
        bound = np.sqrt((2.0 if activation == "logistic" else 6.0) / (n_in + n_out))
        W = random_state.uniform(-bound, bound, (n_in, n_out))
        params.append((W, random_state.uniform(-bound, bound, n_out)))
    return [*params[:-1], (params[-1][0], np.zeros(n_out))]


def dropout_mask(shape, dropout, rng):
    """Random mask: zero for dropped units, 1 / (1 - dropout) for the others."""
    stays = 1 - dropout
    return (rng.uniform(size=shape) < stays) / stays


class Network(Architecture):
    """Network with ``activation`` and ``dropout``; a subclass writes ``_forward(params, X, mask)``."""

    is_network = True
    _forward: Any  # f, with mask applied to the units that may be dropped

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}; it must be one of {', '.join(ACTIVATIONS)}.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be at least 0 and less than 1.")

    def __call__(self, params: Any, X: FloatArray) -> FloatArray:
        return self._forward(params, X, lambda a: a)

    def noisy(self, params: Any, X: FloatArray, rng: np.random.RandomState) -> FloatArray:
        return self._forward(params, X, lambda a: a * dropout_mask(a.shape, self.dropout, rng))


@dataclass(frozen=True)
class mlp(Network):
    r"""Multilayer perceptron with dense layers.

    .. math:: z_l = a_{l-1} W_l + b_l, \qquad a_l = \varphi(z_l), \qquad f = z_L,

    with params = [(W_1, b_1), (W_2, b_2), ...].

    Parameters
    ----------
    hidden : tuple of int, default=(64,)
        Units of the hidden layers; ``()`` is a linear model.
    activation : {"tanh", "relu", "logistic", "softplus", "identity"}, default="tanh"
    dropout : float, default=0.0
        Probability with which a hidden unit is dropped during training; the others are scaled up by 1 / (1 - dropout).

    Examples
    --------
    >>> from skribbon.models.architectures import mlp
    >>> f = mlp(hidden=(8, 4), activation="softplus")
    >>> params = f.init(np.zeros((5, 3)), n_outputs=2, random_state=np.random.RandomState(0))
    >>> [W.shape for W, b in params]
    [(3, 8), (8, 4), (4, 2)]
    """

    hidden: tuple[int, ...] = (64,)
    activation: Activation = "tanh"
    dropout: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "hidden", tuple(int(units) for units in np.atleast_1d(self.hidden)))
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"hidden is {self.hidden}; every layer needs at least one unit.")

    def init(self, X: FloatArray, n_outputs: int, random_state: np.random.RandomState) -> Any:
        return _glorot(pairwise((X.shape[1], *self.hidden, n_outputs)), self.activation, random_state)

    def _forward(self, params, X, mask):
        phi, a = ACTIVATIONS[self.activation], X
        for W, b in params[:-1]:
            a = mask(phi(a @ W + b))
        W, b = params[-1]
        return a @ W + b

    def parametric(self, params: Any, l2: Any, **fields: Any) -> ParametricModel | None:
        arrays = [leaf for leaves in zip(*params, strict=True) for leaf in leaves]  # W_1, ..., W_L, b_1, ..., b_L
        penalties = [number for numbers in zip(*l2, strict=True) for number in numbers]
        fields |= {"units": (len(params[0][0]), *(len(b) for _, b in params)), "activation": self.activation}
        l2 = np.repeat(np.array(penalties, dtype=float), [leaf.size for leaf in arrays])
        return MultilayerPerceptron(theta=join(arrays), l2=l2, **fields)


@dataclass(frozen=True)
class cnn(Network):
    """Small convolutional network: convolution, activation and average pooling, repeated, then one dense layer.

    Rows of X are flattened images, channels last. Convolutions have no padding; incomplete pooling windows are left
    out. params = [(W_1, b_1), ...] with W_l (kernel * kernel * channels in, channels out).

    Parameters
    ----------
    image_shape : tuple of int
        (height, width) or (height, width, channels).
    channels : tuple of int, default=(8, 16)
        Channels that each convolution gives.
    kernel : int, default=3
        Height and width of the convolutions.
    pool : int, default=2
        Height and width of the pooling windows; 1 is no pooling.
    activation : {"relu", "tanh", "logistic", "softplus", "identity"}, default="relu"
        A smooth one makes the exact Hessian meaningful.
    dropout : float, default=0.0
        Probability with which an input of the dense layer is dropped during training; the others are scaled up by
        1 / (1 - dropout).

    Examples
    --------
    >>> from skribbon.models.architectures import cnn
    >>> f = cnn((8, 8), channels=(4,))
    >>> params = f.init(np.zeros((5, 64)), n_outputs=10, random_state=np.random.RandomState(0))
    >>> [W.shape for W, b in params]
    [(9, 4), (36, 10)]
    """

    image_shape: tuple[int, ...]
    channels: tuple[int, ...] = (8, 16)
    kernel: int = 3
    pool: int = 2
    activation: Activation = "relu"
    dropout: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        shape = tuple(int(length) for length in np.atleast_1d(self.image_shape))
        if len(shape) not in (2, 3):
            raise ValueError(f"image_shape is {shape}; it must be (height, width) or (height, width, channels).")
        object.__setattr__(self, "image_shape", shape if len(shape) == 3 else (*shape, 1))
        object.__setattr__(self, "channels", tuple(int(count) for count in np.atleast_1d(self.channels)))
        if not self.channels or min(self.channels) < 1:
            raise ValueError(f"channels is {self.channels}; it needs at least one convolution, each with a channel.")
        if min(self._final_shape) < 1:
            raise ValueError(
                f"image_shape {shape} leaves nothing after {len(self.channels)} convolutions with kernel={self.kernel} "
                f"and pool={self.pool}; choose fewer channels, a smaller kernel or a smaller pool."
            )

    @property
    def _final_shape(self):
        """Shape of an image before the dense layer."""
        high, wide, _ = self.image_shape
        for _ in self.channels:
            high, wide = ((length - self.kernel + 1) // self.pool for length in (high, wide))
        return high, wide, self.channels[-1]

    def init(self, X: FloatArray, n_outputs: int, random_state: np.random.RandomState) -> Any:
        if X.shape[1] != np.prod(self.image_shape):
            raise ValueError(f"X has {X.shape[1]} features, but image_shape={self.image_shape} needs their product.")
        counts = pairwise((self.image_shape[-1], *self.channels))
        convolutions = [(self.kernel**2 * n_in, n_out) for n_in, n_out in counts]
        dense = int(np.prod(self._final_shape)), n_outputs
        return _glorot([*convolutions, dense], self.activation, random_state)

    def _forward(self, params, X, mask):
        phi, images = ACTIVATIONS[self.activation], np.reshape(X, (-1, *self.image_shape))
        for W, b in params[:-1]:
            windows = patches(images, self.kernel)  # (n, h', w', kernel, kernel, channels)
            # one product for all rows, or one for each row if each has its own W
            z = np.reshape(windows, (*W.shape[:-2], -1, W.shape[-2])) @ W + b
            images = pool(np.reshape(phi(z), (*windows.shape[:3], -1)), self.pool)
        W, b = params[-1]
        return mask(np.reshape(images, (*X.shape[:-1], -1))) @ W + b


@dataclass(frozen=True)
class linear_in_features(Architecture):
    r"""Linear in basis functions that have no parameters.

    .. math:: f = \Phi(x) w + b,

    with params = (w, b).

    Parameters
    ----------
    features : callable
        X (n, d) to Phi (n, m).

    Examples
    --------
    >>> from skribbon.models.architectures import linear_in_features
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> f = linear_in_features(lambda X: np.hstack([np.sin(X), np.cos(X), X]))
    >>> w, b = f.init(X, n_outputs=1, random_state=np.random.RandomState(0))
    >>> w.shape, f((w, b), X).shape
    ((3, 1), (5, 1))
    """

    features: Callable[[FloatArray], FloatArray]

    def init(self, X: FloatArray, n_outputs: int, random_state: np.random.RandomState) -> Any:
        return np.zeros((self._features(X).shape[-1], n_outputs)), np.zeros(n_outputs)

    def __call__(self, params: Any, X: FloatArray) -> FloatArray:
        w, b = params
        return self._features(X) @ w + b

    def _features(self, X):
        n = X.size // X.shape[-1]
        Phi = np.asarray(self.features(np.reshape(X, (n, -1))), dtype=float)
        if Phi.ndim != 2 or len(Phi) != n:
            raise ValueError(f"features must map X ({n}, {X.shape[-1]}) to an array ({n}, m); it gave {Phi.shape}.")
        return np.reshape(Phi, (*X.shape[:-1], -1))


@dataclass(frozen=True)
class michaelis_menten(Architecture):
    r"""Saturating growth of Michaelis and Menten.

    .. math:: f = \frac{v x}{k + x}, \qquad v, k > 0,

    with params = {"log_v": ..., "log_k": ...}, two numbers without penalty: f approaches v, and f(k) = v / 2.

    Examples
    --------
    >>> from skribbon.models.architectures import michaelis_menten
    >>> params = {"log_v": np.log(3.0), "log_k": np.log(0.5)}
    >>> michaelis_menten()(params, np.array([[0.5], [1.0]])).ravel()
    array([1.5, 2. ])
    """

    def init(self, X: FloatArray, n_outputs: int, random_state: np.random.RandomState) -> Any:
        if X.shape[1] != 1 or n_outputs != 1:
            raise ValueError(f"michaelis_menten maps 1 feature to 1 output; got {X.shape[1]} and {n_outputs}.")
        positive = X[X > 0]
        return {"log_v": np.array(0.0), "log_k": np.array(np.log(np.median(positive)) if positive.size else 0.0)}

    def __call__(self, params: Any, X: FloatArray) -> FloatArray:
        return np.exp(params["log_v"]) * X / (np.exp(params["log_k"]) + X)


@dataclass(frozen=True)
class monotone(Architecture):
    r"""Network with one hidden layer that increases in chosen features, whatever its parameters.

    .. math:: f = \tanh(x_{increasing} e^A + x_{rest} B + b)\, e^C + c;

    for a decreasing feature change its sign. Only B is penalized, since log weights of zero are weights of one.

    Parameters
    ----------
    increasing : tuple of int, default=(0,)
        Indices of the features in which f increases; all outputs do.
    hidden : int, default=16
        Units of the hidden layer.

    Examples
    --------
    >>> from skribbon.models.architectures import monotone
    >>> X = np.linspace(-2, 2, 50)[:, None]
    >>> f = monotone()
    >>> params = f.init(X, n_outputs=1, random_state=np.random.RandomState(0))
    >>> bool((np.diff(f(params, X), axis=0) > 0).all())
    True
    """

    increasing: tuple[int, ...] = (0,)
    hidden: int = 16
    is_network = True

    def __post_init__(self):
        object.__setattr__(self, "increasing", tuple(int(index) for index in np.atleast_1d(self.increasing)))

    def _split(self, X):
        chosen = list(self.increasing)
        return X[..., chosen], np.delete(X, chosen, axis=-1)

    def init(self, X: FloatArray, n_outputs: int, random_state: np.random.RandomState) -> Any:
        spread = np.std(X, axis=0)
        spread_up, spread_rest = self._split(np.where(spread > 0, spread, 1.0))
        A = 0.5 * random_state.standard_normal((len(spread_up), self.hidden)) - np.log(spread_up)[:, None]
        B = 0.5 * random_state.standard_normal((len(spread_rest), self.hidden)) / spread_rest[:, None]
        up, rest = self._split(X[random_state.randint(len(X), size=self.hidden)])  # units bend where the data are
        b = -np.sum(up.T * np.exp(A), axis=0) - np.sum(rest.T * B, axis=0)
        C = np.full((self.hidden, n_outputs), -np.log(self.hidden))
        return {"A": A, "B": B, "b": b, "C": C, "c": np.zeros(n_outputs)}

    def penalised(self, params: Any) -> Any:
        return {name: float(name == "B") for name in params}

    def __call__(self, params: Any, X: FloatArray) -> FloatArray:
        up, rest = self._split(X)
        z = up @ np.exp(params["A"]) + rest @ params["B"] + params["b"]
        return ACTIVATIONS["tanh"](z) @ np.exp(params["C"]) + params["c"]


# Windows and tiles of images (n, h, w, c), as linear maps that autograd can trace in both directions
@primitive
def patches(images, size):
    """View of the square windows of images (n, h, w, c), (n, h', w', size, size, c)."""
    return sliding_window_view(images, (size, size), axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)


@primitive
def add_patches(patches, shape):
    """Sum of windows (n, h', w', size, size, c) at their places in images of ``shape``: the transpose of patches."""
    images = np.zeros(shape)
    _, high, wide, size, _, _ = patches.shape
    for i, column in product(range(size), range(wide)):  # runs of size * c adjacent numbers, not of c alone
        images[:, i : i + high, column : column + size] += patches[:, :, column, i]
    return images


@primitive
def pool(images, size):
    """Averages of size x size tiles, (n, h // size, w // size, c); incomplete tiles are left out."""
    high, wide = (length // size * size for length in images.shape[1:3])
    rows = sum(images[:, i:high:size, :wide] for i in range(size))
    return sum(rows[:, :, j::size] for j in range(size)) / size**2


@primitive
def spread_tiles(tiles, size, shape):
    """Tiles repeated over size x size pixels, divided by size^2, in images of ``shape``: the transpose of pool."""
    images = np.zeros(shape)
    high, wide = (length * size for length in tiles.shape[1:3])
    images[:, :high, :wide] = np.repeat(np.repeat(tiles / size**2, size, axis=1), size, axis=2)
    return images


defvjp(patches, lambda ans, x, size: lambda g: add_patches(g, x.shape), argnums=(0,))
defvjp(add_patches, lambda ans, x, shape: lambda g: patches(g, x.shape[3]), argnums=(0,))
defvjp(pool, lambda ans, x, size: lambda g: spread_tiles(g, size, x.shape), argnums=(0,))
defvjp(spread_tiles, lambda ans, x, size, shape: lambda g: pool(g, size), argnums=(0,))
for _linear_map in (patches, add_patches, pool, spread_tiles):
    defjvp(_linear_map, "same")


# ---------------------------------------------------------------------- nested parameters and the flat vector theta
def open_nest(tree):
    """Keys of a dict, list or tuple and a function that builds it from its entries; None for a leaf."""
    if isinstance(tree, dict):
        return list(tree), lambda entries: dict(zip(tree, entries, strict=True))
    if isinstance(tree, list | tuple):
        return list(range(len(tree))), getattr(tree, "_make", type(tree))
    return None


def map_leaves(function, tree):
    """Nest of ``function`` of every leaf of nested lists, tuples and dicts."""
    if (nest := open_nest(tree)) is None:
        return function(tree)
    keys, build = nest
    return build([map_leaves(function, tree[key]) for key in keys])


def leaves_of(tree):
    """Leaves in the order in which lists, tuples and dicts hold them."""
    leaves = []
    map_leaves(leaves.append, tree)
    return leaves


def join(leaves):
    """Leaves as one vector (p,)."""
    return numpy.concatenate([numpy.ravel(leaf) for leaf in leaves])


@dataclass(frozen=True, eq=False)
class Tree:
    """Nest of parameters without their values: theta is its leaves, each ravelled, one after the other."""

    skeleton: object  # the nest, with the number of the leaf at each place
    shapes: tuple

    @classmethod
    def of(cls, params):
        """Nest of ``params``, and its leaves as one float64 vector (p,)."""
        leaves = [_as_number(leaf) for leaf in leaves_of(params)]
        if not sum(leaf.size for leaf in leaves):
            raise ValueError("init has no parameters; give at least one number or array that f depends on.")
        numbers = iter(range(len(leaves)))
        tree = cls(map_leaves(lambda _: next(numbers), params), tuple(leaf.shape for leaf in leaves))
        return tree, join(leaves)

    @cached_property
    def slices(self):
        """Slice of theta of each leaf."""
        ends = [0, *accumulate(prod(shape) for shape in self.shapes)]
        return [slice(start, stop) for start, stop in pairwise(ends)]

    @property
    def names(self):
        """Names of the parameters: keys of the nest and indices in arrays, such as "K", "rates.in" or "W[0, 1]"."""
        paths = [path.removeprefix("params.") for path in _paths(self.skeleton, "params")]
        pairs = zip(paths, self.shapes, strict=True)
        return [f"{path}{list(index) or ''}" for path, shape in pairs for index in numpy.ndindex(shape)]

    def rebuild(self, leaves):
        """Nest with these leaves, a sequence."""
        return map_leaves(lambda number: leaves[number], self.skeleton)

    def split(self, theta):
        """Leaves of theta (p,), a tuple."""
        return tuple(theta[place].reshape(shape) for place, shape in zip(self.slices, self.shapes, strict=True))

    def unpack(self, theta):
        """Nest of theta (p,), which autograd may be tracing."""
        return self.rebuild(self.split(theta))

    def last(self):
        """Nest of the last entry at the top level, and its start in theta; None for a leaf."""
        if (nest := open_nest(self.skeleton)) is None:
            return None
        branch = self.skeleton[nest[0][-1]]
        first = leaves_of(branch)[0]
        return Tree(map_leaves(lambda i: i - first, branch), self.shapes[first:]), self.slices[first].start


def _paths(nest, path):
    """Paths to the leaves of a nest: ".key" for text, "[key]" for other keys."""
    if (opened := open_nest(nest)) is None:
        return [path]
    fields = zip(opened[0], getattr(nest, "_fields", opened[0]), strict=True)
    inside = [(nest[key], f".{field}" if field == str(field) else f"[{field}]") for key, field in fields]
    return [found for branch, step in inside for found in _paths(branch, path + step)]


def spread(prefix, params, name="l2"):
    """Number per leaf of ``params``, from a nest of numbers that may stop at any branch above the leaves."""
    if (given := open_nest(prefix)) is not None:
        nest = open_nest(params)
        if nest is None or isinstance(prefix, dict) != isinstance(params, dict) or set(given[0]) != set(nest[0]):
            raise ValueError(
                f"{name} does not match the parameters: give one number for all, or a number for each entry of "
                f"{map_leaves(numpy.shape, params)}; got {prefix!r}."
            )
        return nest[1]([spread(prefix[key], params[key], name) for key in nest[0]])
    try:
        number = float(prefix)
    except (TypeError, ValueError):
        number = numpy.nan
    if not 0 <= number < numpy.inf:
        raise ValueError(f"{name} must be a finite number >= 0, or a nest of them like the parameters; got {prefix!r}.")
    return map_leaves(lambda _: number, params)


def _as_number(leaf):
    array = numpy.asarray(leaf)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"init must hold numbers or numeric arrays in a nest; found {leaf!r}, a {type(leaf).__name__}.")
    return array.astype(numpy.float64)
