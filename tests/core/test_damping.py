"""Which networks are damped: those stopped early, and those that nearly interpolate."""

from types import SimpleNamespace

import pytest

from skribbon._core.thresholds import INTERPOLATING, MAX_PARAMETERS_PER_ROW, STOPPED_EARLY
from skribbon._core.training import is_flexible


def training(per_row, stationarity, linear=False):
    model = SimpleNamespace(is_linear=linear, loss=SimpleNamespace(n_classes=2))
    curvature = SimpleNamespace(factors_again=True, knows_leverages=True)
    rows = SimpleNamespace(model=model)
    return SimpleNamespace(rows=rows, curvature=curvature, parameters_per_row=per_row, stationarity=stationarity)


@pytest.mark.parametrize(
    "per_row, stationarity, linear, expected",
    [
        (INTERPOLATING + 0.01, 0.0, False, True),  # at a minimum, but a parameter for nearly every row
        (INTERPOLATING - 0.01, 0.0, False, False),
        (MAX_PARAMETERS_PER_ROW + 0.01, STOPPED_EARLY + 0.01, False, True),  # stopped early
        (MAX_PARAMETERS_PER_ROW + 0.01, STOPPED_EARLY - 0.01, False, False),
        (MAX_PARAMETERS_PER_ROW - 0.01, 10.0, False, False),
        (0.99, 10.0, True, False),
    ],
)
def test_is_flexible(per_row, stationarity, linear, expected):
    assert is_flexible(training(per_row, stationarity, linear)) == expected
