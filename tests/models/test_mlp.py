"""Networks of a single row: what is asked of many at once, in fewer steps."""

from itertools import pairwise

import numpy as np
import pytest

from skribbon.models.losses import Tweedie
from skribbon.models.mlp import MultilayerPerceptron


@pytest.mark.parametrize("activation", ["relu", "tanh", "identity"])
@pytest.mark.parametrize("units", [(), (5,), (6, 4, 3)])
def test_the_gradient_of_one_row_is_its_row_of_the_jacobian(activation, units):
    rng = np.random.default_rng(0)
    sizes = (3, *units, 1)
    p = sum((a + 1) * b for a, b in pairwise(sizes))
    network = MultilayerPerceptron(
        theta=rng.normal(size=p), loss=Tweedie(), l2=np.zeros(p), units=sizes, activation=activation
    )
    Z = rng.normal(size=(4, 3))
    J = network.tangent(Z).jacobian()
    for i in range(4):
        np.testing.assert_allclose(network.tangent(Z[i : i + 1]).jacobian(), J[i : i + 1], rtol=1e-12, atol=1e-14)
