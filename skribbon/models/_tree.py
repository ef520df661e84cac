"""Nested parameters and the flat vector that the mathematics works on."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np


def map_leaves(function, tree):
    """``function`` of every leaf of nested lists, tuples and dicts, in the same nest."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, branch) for key, branch in tree.items()}
    if isinstance(tree, list | tuple):
        branches = [map_leaves(function, branch) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else type(tree)(branches)
    return function(tree)


def leaves_of(tree):
    """Leaves in the order in which lists, tuples and dicts hold them."""
    leaves = []
    map_leaves(leaves.append, tree)
    return leaves


def join(leaves):
    """Leaves as one vector (p,)."""
    return np.concatenate([np.ravel(leaf) for leaf in leaves])


@dataclass(frozen=True, eq=False)
class Tree:
    """The nest of some parameters without their values: theta is its leaves, each ravelled, one after the other."""

    skeleton: object  # the nest, with the number of the leaf at each place
    shapes: tuple

    @classmethod
    def of(cls, params):
        """The nest of ``params`` and its leaves as one float64 vector (p,)."""
        leaves = [_as_number(leaf) for leaf in leaves_of(params)]
        if not sum(leaf.size for leaf in leaves):
            raise ValueError("init has no parameters; give at least one number or array that f depends on.")
        numbers = iter(range(len(leaves)))
        tree = cls(map_leaves(lambda _: next(numbers), params), tuple(leaf.shape for leaf in leaves))
        return tree, join(leaves)

    @cached_property
    def slices(self):
        """Where each leaf lies in theta."""
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self.shapes)])
        return [slice(int(start), int(stop)) for start, stop in pairwise(ends)]

    def rebuild(self, leaves):
        """The nest with these leaves, a sequence."""
        return map_leaves(lambda number: leaves[number], self.skeleton)

    def split(self, theta):
        """The leaves of theta (p,), a tuple."""
        return tuple(theta[place].reshape(shape) for place, shape in zip(self.slices, self.shapes, strict=True))

    def unpack(self, theta):
        """The nest of theta (p,), which autograd may be tracing."""
        return self.rebuild(self.split(theta))

    def last(self):
        """The last entry at the top level: its key, its own nest, and where it begins in theta; None for a leaf."""
        if not isinstance(self.skeleton, dict | list | tuple):
            return None
        key = list(self.skeleton)[-1] if isinstance(self.skeleton, dict) else len(self.skeleton) - 1
        numbers = leaves_of(self.skeleton[key])
        tree = Tree(map_leaves(lambda i: i - numbers[0], self.skeleton[key]), self.shapes[numbers[0] :])
        return key, tree, self.slices[numbers[0]].start


def spread(prefix, params, name="l2"):
    """A number per leaf of ``params`` from a nest of numbers that may stop at any branch above the leaves."""
    if isinstance(prefix, dict | list | tuple):
        _check_same_nest(prefix, params, name)
        if isinstance(prefix, dict):
            return {key: spread(prefix[key], params[key], name) for key in params}
        branches = [spread(a, b, name) for a, b in zip(prefix, params, strict=True)]
        return type(params)(*branches) if hasattr(params, "_fields") else type(params)(branches)
    try:
        number = float(prefix)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 <= number < np.inf:
        raise ValueError(f"{name} must be a finite number >= 0, or a nest of them like the parameters; got {prefix!r}.")
    return map_leaves(lambda _: number, params)


def _check_same_nest(prefix, params, name):
    if isinstance(prefix, dict):
        same = isinstance(params, dict) and set(prefix) == set(params)
    else:
        same = isinstance(params, list | tuple) and len(prefix) == len(params)
    if not same:
        raise ValueError(
            f"{name} does not match the parameters: give one number for all, or a number for each entry of "
            f"{_sketch(params)}; got {prefix!r}."
        )


def _sketch(params):
    """What the parameters look like, without their values."""
    return map_leaves(np.shape, params)


def _as_number(leaf):
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"init must hold numbers or numeric arrays in lists, tuples and dicts; found {leaf!r} "
            f"of type {type(leaf).__name__}."
        )
    return array.astype(np.float64)
