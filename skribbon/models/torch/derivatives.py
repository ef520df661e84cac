"""Torch modules as parametric models: derivatives in double precision, by torch.func or from the layers' inputs."""

from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import accumulate, pairwise
from threading import RLock

import numpy as np
import torch
from torch.func import functional_call, grad, jacrev, jvp, vmap

from ..._utils.compat import cached_property
from ..base import Tangent
from ..layers import WIDE, WIDE_ROWS, LayeredModel, LayeredTangent
from ..trained import StoresFunctions

CALLS = RLock()  # calls of a module put parameters and hooks into it for a moment, one thread at a time
TWO_LOGITS = np.array([[-1.0], [1.0]])  # from logits of two classes to the log odds of the second


def tensor(A):
    """Float64 tensor of an array, which shares its memory if that is writeable and contiguous."""
    A = np.ascontiguousarray(A, dtype=np.float64)
    return torch.from_numpy(A if A.flags.writeable else A.copy())


@contextmanager
def explained(module):
    """Explain errors of torch.func's transforms of a user's module."""
    try:
        yield
    except (RuntimeError, ValueError, NotImplementedError, IndexError) as error:
        raise TypeError(
            f"torch.func cannot differentiate {type(module).__name__} for each row: {str(error).splitlines()[0]} Its "
            "forward must not branch on values, call .item(), write in place to its buffers, draw random numbers in "
            "evaluation mode, or use layers without a vmap rule such as LSTM. Try: torch.where for branches, and "
            "nn.Linear layers on rows (n, d), which need no vmap."
        ) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchModel(StoresFunctions, LayeredModel):
    """Model f = module(X) M of a torch module; theta = its parameters, each ravelled, in the order of the module."""

    _functions, __getstate__ = ("module",), StoresFunctions.__getstate__
    module: torch.nn.Module  # float64, in evaluation mode; theta takes the place of the parameters in ``shapes``
    shapes: dict  # shapes of the parameters that are not frozen, by name
    n_features: int | None  # columns of X, if known
    noisy: bool = False  # whether training steps use dropout and the statistics of their batch

    has_hessian = True

    @classmethod
    def from_module(cls, module, weight_decay, **fields):
        """Build from a copy of a module, in double precision and on the CPU; frozen parameters stay constants."""
        module = deepcopy(module).to("cpu", torch.float64).eval()
        params = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        if not params or not all(parameter.is_floating_point() for parameter in params.values()):
            raise TypeError(f"{type(module).__name__} needs at least one parameter with requires_grad, all of floats.")
        theta, shapes = joined(params.values(), 0), {name: tuple(leaf.shape) for name, leaf in params.items()}
        l2 = np.full(len(theta), float(weight_decay))
        return cls(theta=theta, l2=l2, module=module.requires_grad_(False), shapes=shapes, **fields)

    def module_at(self, theta):
        """Copy of the module with these parameters, which require gradients again."""
        module = deepcopy(self.module)
        for name, values in self.params(tensor(theta)).items():
            module.get_parameter(name).copy_(values).requires_grad_()
        return module

    @property
    def row_width(self):
        k, p = self.loss.n_outputs, len(self.theta)
        if self.has_layers:  # gradients of each output in every layer
            units = sum(sum(places.shape) for places in self.layers)
            return max(min(p, 2304), 2 * k * units) if p * k <= WIDE else 2 * k * units
        return WIDE_ROWS if p * k > WIDE else p * k

    # ------------------------------------------------------------------ the function
    def params(self, theta):
        """Parameters by name, views of theta (..., p), an array or tensor."""
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        places = pairwise(accumulate(sizes, initial=0))
        named = zip(self.shapes.items(), places, strict=True)
        return {name: theta[..., a:b].reshape(*theta.shape[:-1], *shape) for (name, shape), (a, b) in named}

    def of_params(self, params, Z):
        """Raw prediction (n, k) of tensors."""
        with CALLS:
            f = functional_call(self.module, params, (Z,)).reshape(len(Z), -1)
        return f if self.output_map is None else f @ tensor(self.output_map)

    def leaves(self, theta):
        """Parameters by name as separate tensors that require gradients."""
        return {name: leaf.clone().requires_grad_() for name, leaf in self.params(tensor(theta)).items()}

    def raw(self, Z, theta=None):
        with torch.no_grad():
            return self.of_params(self.params(tensor(self.theta if theta is None else theta)), tensor(Z)).numpy()

    def linearized(self, Z, theta):
        """Prediction f (n, k) at theta, and the function from U (n, k) to sum_i J_i' U_i, (p,)."""
        leaves = self.leaves(theta)
        with CALLS:
            self.module.train(self.noisy and len(Z) > 1)  # a batch of one row has no variance
            f = self.of_params(leaves, tensor(Z))
            self.module.eval()
        return f.detach().numpy(), lambda U: joined(gradients(f, leaves.values(), tensor(U)), 0)

    def tangent(self, Z):
        if self.has_layers:
            return DenseTangent(self, Z)
        return (WideTangent if len(self.theta) * self.loss.n_outputs > WIDE else TorchTangent)(self, Z)

    # ------------------------------------------------------------------ dense layers
    @cached_property
    def linear(self):
        """Names of the dense layers with a weight and biases in theta, by module."""
        parts = ((name, part) for name, part in self.module.named_modules() if isinstance(part, torch.nn.Linear))
        return {part: name for name, part in parts if {f"{name}.weight", f"{name}.bias"} <= set(self.shapes)}

    def recorded(self, params, Z):
        """Raw prediction (n, k), and the name, inputs and outputs of every call of a dense layer, in order."""
        calls = []

        def record(part, arguments, output):
            calls.append((self.linear[part], arguments[0], output if output.requires_grad else output.requires_grad_()))
            return output.clone()  # an activation may overwrite it

        with CALLS, ExitStack() as hooks:
            for part in self.linear:
                hooks.enter_context(part.register_forward_hook(record))
            return self.of_params(params, Z), calls

    @cached_property
    def traced(self):
        """Names of all layers if theta is theirs and each maps rows (n, in) once, else none; name of the last layer.

        The last layer's outputs are f. Derivatives by layers are compared with those of the parameters.
        """
        rng, leaves = np.random.default_rng(0), self.leaves(self.theta)
        for leaf in leaves.values():
            leaf.data += 1e-3 * tensor(rng.uniform(0.5, 1.5, leaf.shape))  # zeros would hide other uses of a layer
        try:
            f, calls = self.recorded(leaves, tensor(rng.random((3, self.n_features))))
            names, inputs, outputs = zip(*calls, strict=True)
        except Exception:  # the user's module gets rows that it was not written for, and may raise anything
            return (), ""
        found = gradients(f, [*leaves.values(), *outputs], tensor(rng.normal(size=f.shape)))
        of_leaves = dict(zip(leaves, found, strict=False))
        layers = [
            name
            for name, a, delta in zip(names, inputs, found[len(leaves) :], strict=True)
            if a.shape[:-1] == (3,)
            and _same(of_leaves[f"{name}.weight"], delta.T @ a)
            and _same(of_leaves[f"{name}.bias"], delta.sum(0))
        ]
        z, M = outputs[-1].reshape(3, -1), self.output_map
        z = z if M is None or len(M) != z.shape[1] else z @ tensor(M)
        last = names[-1] if names[-1] in layers and z.shape == f.shape and _same(z, f) else ""
        return tuple(layers) if {name.rpartition(".")[0] for name in self.shapes} == set(layers) else (), last

    @property
    def has_layers(self):
        return bool(self.traced[0])

    def unpack(self, theta):
        names, params = self.traced[0] or self.traced[1:], self.params(theta)
        return [params[f"{name}.weight"].swapaxes(-1, -2) for name in names], [params[f"{name}.bias"] for name in names]

    def last_inputs(self, Z):
        with torch.no_grad():
            _, calls = self.recorded(self.params(tensor(self.theta)), tensor(Z))
        return calls[-1][1].numpy()

    def last_layer(self):
        return super().last_layer() if self.traced[1] else self


def _same(A, B):
    return torch.allclose(A, B, rtol=1e-8, atol=1e-8 * float(A.detach().abs().max()))


def gradients(f, inputs, seed):
    """Gradients of seed . f in each of the inputs, zeros if it does not depend on them; the graph is kept."""
    return torch.autograd.grad(f, list(inputs), seed, retain_graph=True, allow_unused=True, materialize_grads=True)


def joined(tensors, lead):
    """Tensors with ``lead`` leading axes in common as one array (..., p)."""
    return torch.cat([t.reshape(*t.shape[:lead], -1) for t in tensors], dim=-1).detach().numpy()


class TorchTangent(Tangent):
    """Tangent of a module: the Jacobian of a block by reverse mode, vectorized over rows."""

    def __init__(self, model, Z):
        self.model, self.Z, self.f = model, tensor(Z), model.raw(Z)
        self._params = model.params(tensor(model.theta))

    def _row(self, params, z):
        """Raw prediction (k,) of one row z (d,)."""
        return self.model.of_params(params, z[None])[0]

    @cached_property
    def _jacobian(self):
        with explained(self.model.module):
            return joined(vmap(jacrev(self._row), (None, 0))(self._params, self.Z).values(), 2)

    def jacobian(self):
        return self._jacobian

    def _by_direction(self, function, V):
        """Results of ``function``, of parameters by name, at each column of V (p, r), along a last axis."""
        with explained(self.model.module):
            directions = self.model.params(tensor(V.T))
            # more directions in one pass save little, and each holds its own activations
            return np.moveaxis(vmap(function, chunk_size=16)(directions).numpy(), 0, -1)

    def hessian_product(self, C, u, V):
        seed = tensor(u)

        def product(direction):
            slope = grad(lambda params: (seed * self.model.of_params(params, self.Z)).sum())
            _, along = jvp(slope, (self._params,), (direction,))
            return torch.cat([part.reshape(-1) for part in along.values()])

        return self.vjp(C @ self.jvp(V)) + self._by_direction(product, V)


class WideTangent(TorchTangent):
    """Tangent of a module with many parameters: products by forward and reverse mode, without the Jacobian."""

    def jvp(self, V):
        def along(direction):
            return jvp(lambda params: self.model.of_params(params, self.Z), (self._params,), (direction,))[1]

        return self._by_direction(along, V)

    def vjp(self, U):
        _, pull = self.model.linearized(self.Z.numpy(), self.model.theta)
        return np.stack([pull(U[:, :, r]) for r in range(U.shape[2])], axis=1)

    def scores(self, u):
        with explained(self.model.module):
            of_row = grad(lambda params, z, seed: (seed * self._row(params, z)).sum())
            return joined(vmap(of_row, (None, 0, 0))(self._params, self.Z, tensor(u)).values(), 1)

    def squares(self, R):
        return sum((self.scores(R[:, :, r]) ** 2).sum(axis=0) for r in range(R.shape[2]))


class DenseTangent(LayeredTangent, TorchTangent):
    """Tangent of a module of dense layers: one forward pass, and one reverse pass for each output."""

    def __init__(self, model, Z):
        self.model, self.Z, self._params = model, tensor(Z), model.params(tensor(model.theta))
        self._f, calls = model.recorded(self._params, self.Z)
        names, inputs, self._outputs = zip(*calls, strict=True)
        if names != model.traced[0]:
            raise TypeError(f"{type(model.module).__name__} calls its layers in another order at some rows of X.")
        self.f, self.activations = self._f.detach().numpy(), [a.detach().numpy() for a in inputs]

    @cached_property
    def _unit_deltas(self):
        """Derivatives df/dz_l of every layer, (n, k, units)."""
        seeds = np.eye(self.f.shape[1])[:, None] * np.ones((len(self.f), 1))
        passes = [gradients(self._f, self._outputs, tensor(seed)) for seed in seeds]
        return [torch.stack(parts, dim=1).numpy() for parts in zip(*passes, strict=True)]

    def _deltas(self, U):
        return [(U.transpose(0, 2, 1) @ D).astype(U.dtype, copy=False) for D in self._unit_deltas]
