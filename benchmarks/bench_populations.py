"""Coverage of 90% intervals of population effects, and of coefficients with groupings that cross, by simulation.

Effects: the change of the average prediction as a binary column goes from 0 to 1, in a table of n rows drawn from a
population in which the effect varies with another column. The target is the population's effect, known for rows that
follow the model, and else the average of the estimates, since a penalty or an effect of groups biases them.

    python benchmarks/bench_populations.py [effects] [crossed] [--tables 400]
"""

import argparse
import warnings

import numpy as np
import pandas as pd
import records
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

from skribbon import RibbonClassifier, RibbonRegressor
from skribbon.inspection import coefficients, comparisons

LEVELS = np.array(list("abcdefgh"))


def products(model):
    """Model of all columns and of their products in pairs."""
    return make_pipeline(PolynomialFeatures(2, interaction_only=True, include_bias=False), model)


def penalized():
    """Ridge on categories, numbers and their products."""
    columns = make_column_transformer((OneHotEncoder(sparse_output=False), ["c"]), remainder="passthrough")
    return make_pipeline(columns, PolynomialFeatures(2, interaction_only=True, include_bias=False), Ridge(10.0))


VARYING = {"linear": 2.0, "logistic": 2.0, "Poisson": 0.5, "penalized": 2.0}  # change of the effect with x


def linear_predictor(kind, x, t):
    return 0.3 * x + t * (0.4 + VARYING[kind] * x)


KINDS = {
    "linear": lambda: RibbonRegressor(products(LinearRegression()), noise="dof"),
    "logistic": lambda: RibbonClassifier(products(LogisticRegression(C=1e6, max_iter=1000)), temperature=1.0),
    "Poisson": lambda: RibbonRegressor(products(PoissonRegressor(alpha=1e-8, max_iter=1000)), noise="dof"),
    "penalized": lambda: RibbonRegressor(penalized(), noise="dof"),
}


def draw(kind, n, grouped, rng):
    """Table of n rows, target, and groups of five rows, or None."""
    group = np.arange(n) // 5 if grouped else None
    shared = (lambda: rng.normal(size=n // 5)[group]) if grouped else (lambda: 0.0)
    x = (rng.normal(size=n) + shared()) / np.sqrt(1 + grouped)
    table = pd.DataFrame({"x": x, "t": rng.integers(0, 2, n) * 1.0})
    eta = linear_predictor(kind, table["x"], table["t"]) + 0.5 * shared()
    if kind == "penalized":
        table["c"] = rng.choice(LEVELS, n)
        eta = eta + 0.2 * table["c"].map(dict(zip(LEVELS, range(8), strict=True))) * table["t"]
    if kind == "logistic":
        return table, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int), group
    if kind == "Poisson":
        return table, rng.poisson(np.exp(eta - 0.25 * grouped)), group
    return table, eta + rng.normal(size=n), group


def known_effect(kind):
    """Effect in the population of independent rows that follow the model; None if a penalty moves estimates."""
    x = np.random.default_rng(1).normal(size=2_000_000)
    if kind == "penalized":
        return None
    mean = {"linear": lambda eta: eta, "Poisson": np.exp, "logistic": lambda eta: 1 / (1 + np.exp(-eta))}[kind]
    return np.mean(mean(linear_predictor(kind, x, 1)) - mean(linear_predictor(kind, x, 0)))


def effects(n_tables):
    """Print coverage of the population's effect by the three kinds of intervals."""
    rows = []
    print(f"{'':12}{'rows':>7}{'':>8}  {'these rows':>11}{'population':>11}{'with y':>8}{'se / sd':>9}")
    for kind, estimator in KINDS.items():
        truth = known_effect(kind)
        for grouped in (False, True):
            for n in (100, 200, 1000):
                rng, found = np.random.default_rng(n), []
                for _ in range(n_tables):
                    X, y, group = draw(kind, n, grouped, rng)
                    ribbon = estimator().fit(X, y, groups=group)
                    options = ({}, {"population": True, "groups": group}, {"population": True, "groups": group, "y": y})
                    tables = [comparisons(ribbon, X, "t", **option).iloc[0] for option in options]
                    found.append([[t["conf_low"], t["conf_high"], t["estimate"], t["std_error"]] for t in tables])
                low, high, estimate, error = np.moveaxis(np.array(found, dtype=float), 2, 0)
                target = estimate.mean() if truth is None or grouped else truth
                cover = np.mean((low <= target) & (target <= high), axis=0)
                ratio = np.mean(error[:, 2]) / estimate[:, 2].std()
                name = "groups" if grouped else "rows"
                names = ("these rows", "population", "with y", "se / sd")
                rows.append({"kind": kind, "n": n, "of": name, **dict(zip(names, [*cover, ratio], strict=True))})
                print(
                    f"{kind:12}{n:>7}{name:>8}  {cover[0]:>11.3f}{cover[1]:>11.3f}{cover[2]:>8.3f}{ratio:>9.2f}",
                    flush=True,
                )
    return rows


def crossed(n_tables):
    """Print coverage of the coefficients of columns of each grouping and of rows, by the groups that a fit knows."""
    rows = []
    print(f"{'groups':>10}{'rows':>7}  {'fit with':10}{'column of a':>12}{'column of b':>12}{'of rows':>9}")
    for A, B, n in ((15, 20, 300), (15, 20, 900), (40, 40, 1600), (40, 40, 800)):
        rng, found = np.random.default_rng(A + n), {}
        for _ in range(n_tables):
            a, b = np.divmod(rng.permutation(max(A * B, n))[:n] % (A * B), B)
            X = np.column_stack([rng.normal(size=A)[a], rng.normal(size=B)[b], rng.normal(size=n)])
            X[:, 2] += rng.normal(size=A)[a] + rng.normal(size=B)[b]
            y = X.sum(axis=1) + rng.normal(size=A)[a] + rng.normal(size=B)[b] + rng.normal(size=n)
            for name, groups in {"rows": None, "a": a, "b": b, "a and b": (a, b)}.items():
                table = coefficients(RibbonRegressor(LinearRegression(), noise="dof").fit(X, y, groups=groups))[:3]
                found.setdefault(name, []).append((table["conf_low"] <= 1) & (table["conf_high"] >= 1))
        for name, hits in found.items():
            cover = np.mean(hits, axis=0)
            rows.append({"groups": [A, B], "n": n, "fit with": name, "coverage": cover})
            print(f"{A:>5} x {B:<2}{n:>7}  {name:10}{cover[0]:>12.3f}{cover[1]:>12.3f}{cover[2]:>9.3f}", flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["effects", "crossed"])
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--again", action="store_true", help="measure even if there is a record of this code")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in arguments.parts:
        if not records.skip(part, arguments.again):
            rows = {"effects": effects, "crossed": crossed}[part](arguments.tables)
            records.write(part, rows, "benchmarks/bench_populations.py", {"tables": arguments.tables})
