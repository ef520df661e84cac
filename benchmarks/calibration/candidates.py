"""The candidates: each is a function of a case that returns something fitted, which has ``predict_distribution(X)``.

A distribution has ``interval(levels)``, (n, 2, L); with a density also ``cdf``, ``cdf_below``, ``logpdf`` and ``crps``.
"""

from functools import partial

import numpy as np
from scipy.stats import norm, poisson
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from skribbon import RibbonCV, RibbonRegressor

LEVELS = (0.5, 0.8, 0.9, 0.95)


# ---------------------------------------------------------------------- Ribbon
def ribbon(case, **wanted):
    """A RibbonRegressor with those of the wanted parameters that it has, so that older and newer versions can run."""
    known = RibbonRegressor().get_params(deep=False)
    return RibbonRegressor(case.base, **{k: v for k, v in wanted.items() if k in known}).fit(case.X, case.y)


def ribbon_cv(case):
    return RibbonCV(case.base).fit(case.X, case.y)


# ---------------------------------------------------------------------- the base model alone
class Around:
    """A scipy law around the base model's predictions."""

    def __init__(self, law):
        self.law, self.counts = law, law.dist.name == "poisson"

    def interval(self, levels):
        return np.stack([np.stack(self.law.interval(level), axis=-1) for level in levels], axis=-1)  # (n, 2, L)

    def cdf(self, y):
        return self.law.cdf(y)

    def cdf_below(self, y):
        return self.law.cdf(y - 1) if self.counts else self.law.cdf(y)

    def logpdf(self, y):
        return self.law.logpmf(y) if self.counts else self.law.logpdf(y)

    def crps(self, y):
        if not self.counts:
            z, scale = (y - self.law.mean()) / self.law.std(), self.law.std()
            return scale * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
        k = np.arange(max(y.max(), self.law.ppf(1 - 1e-9).max()) + 1)  # beyond them both step functions are 1
        mean = np.asarray(self.law.args[0])
        return ((poisson.cdf(k, mean[:, None]) - (y[:, None] <= k)) ** 2).sum(axis=1)


class Plain:
    """The base model with constant normal noise; with Poisson's law at its mean for counts."""

    def __init__(self, model, variance, counts):
        self.model, self.variance, self.counts = model, variance, counts

    def predict_distribution(self, X):
        mean = self.model.predict(X)
        return Around(poisson(mean) if self.counts else norm(mean, np.sqrt(self.variance)))


def plain(case):
    model = clone(case.base).fit(case.X, case.y)
    return Plain(model, np.mean((case.y - model.predict(case.X)) ** 2), case.counts)


def best_constant(case):
    """Not attainable: the constant noise is the error on the test rows."""
    model = clone(case.base).fit(case.X, case.y)
    return Plain(model, np.mean((case.y_test - model.predict(case.X_test)) ** 2), False)


# ---------------------------------------------------------------------- conformal intervals
class Intervals:
    """Intervals alone, without a density: ``ends(X, level)`` gives the lower and the upper ones."""

    def __init__(self, ends, X=None):
        self.ends, self.X = ends, X

    def predict_distribution(self, X):
        return Intervals(self.ends, X)

    def interval(self, levels):
        return np.stack([np.stack(self.ends(self.X, level), axis=-1) for level in levels], axis=-1)  # (n, 2, L)


def conformal_quantile(scores, level):
    """The ceil((n + 1) level)-th smallest of n scores, infinite where there are too few of them."""
    k = int(np.ceil((len(scores) + 1) * level - 1e-9))
    return np.sort(scores)[k - 1] if k <= len(scores) else np.inf


def split_conformal(case):
    """Absolute residuals of a quarter of the rows, around a base model fitted to the others."""
    X, X_held, y, y_held = train_test_split(case.X, case.y, test_size=0.25, random_state=0)
    model = clone(case.base).fit(X, y)
    scores = np.abs(y_held - model.predict(X_held))

    def ends(X, level):
        mean, half = model.predict(X), conformal_quantile(scores, level)
        return mean - half, mean + half

    return Intervals(ends)


def quantile_boosting(case):
    """Conformalised quantile regression by boosted trees, a pair for each level; a quarter of the rows calibrates."""
    X, X_held, y, y_held = train_test_split(case.X, case.y, test_size=0.25, random_state=0)
    boosting = partial(HistGradientBoostingRegressor, loss="quantile", random_state=0)
    pairs = {level: [boosting(quantile=(1 + s * level) / 2).fit(X, y) for s in (-1, 1)] for level in LEVELS}

    def ends(X, level):
        lower, upper = (model.predict(X_held) for model in pairs[level])
        shift = conformal_quantile(np.maximum(lower - y_held, y_held - upper), level)
        lower, upper = (model.predict(X) for model in pairs[level])
        return lower - shift, upper + shift

    return Intervals(ends)


CANDIDATES = {
    "default": ribbon,
    "RibbonCV": ribbon_cv,
    "before": lambda case: ribbon(case, noise="dof", damping=0.0),
    "paper": lambda case: ribbon(case, noise="train", correction="HC0", damping=0.0),
    "plain": plain,
    "split conformal": split_conformal,
    "quantile boosting": quantile_boosting,
    "best constant": best_constant,  # in the part "networks" alone
}
