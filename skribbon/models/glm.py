"""Generalised linear models: Poisson, gamma, Tweedie of every power and link."""

from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor

from .base import as_parametric
from .linear import linear_model, with_coefficients
from .losses import Tweedie
from .newton import with_theta

for family in (PoissonRegressor, GammaRegressor, TweedieRegressor):
    with_theta.register(family, with_coefficients)


@as_parametric.register(PoissonRegressor)
def _(estimator, y, sample_weight):
    return linear_model(
        estimator, Tweedie(1, "log").suited_to(y), estimator.alpha
    )  # alpha is on the scale of the mean loss


@as_parametric.register(GammaRegressor)
def _(estimator, y, sample_weight):
    return linear_model(estimator, Tweedie(2, "log"), estimator.alpha)


@as_parametric.register(TweedieRegressor)
def _(estimator, y, sample_weight):
    link = {"auto": "identity" if estimator.power <= 0 else "log"}.get(estimator.link, estimator.link)
    return linear_model(estimator, Tweedie(estimator.power, link).suited_to(y), estimator.alpha)
