"""Section 4 and the appendix: covariance of draws, error of the update, Laplace and the sandwich, tuned coverage."""

from functools import partial

import numpy as np
from _cells import Experiment, mean_sd, table
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from skribbon import RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon._core.rows import Block
from skribbon.metrics import interval_coverage_score

ALPHAS = (0.3, 1.0, 3.0)
SIZES = (100, 200, 400, 800, 1600, 3200)


def experiment(quick):
    refits, samples = (100, 150) if quick else (2000, 1500)
    cells = {}
    for alpha in ALPHAS:
        cells[f"covariance alpha={alpha:g}"] = partial(covariance, alpha, refits)
    for n in SIZES[: 4 if quick else None]:
        cells[f"update n={n}"] = partial(update_error, n, 50 if quick else 300)
    for kind in ("right", "wrong"):
        cells[f"laplace {kind}"] = partial(laplace_and_sandwich, kind, samples)
    for n in (100, 400, 1600):
        cells[f"coverage n={n}"] = partial(tuned_coverage, n, 20 if quick else 100)
    setting = {"refits": refits, "samples": samples, "sizes": SIZES, "version": 3}
    return Experiment("theory", "The theorems, by simulation", setting, cells, str, report, draw_ellipses)


# ---------------------------------------------------------------------- theorem 1
def logistic_data(n, seed, wrong=False):
    """Three features; a ``wrong`` model does not know that the last one bends the log odds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    eta = 0.5 + X @ [1.0, -0.7, 0.4] + (0.8 * X[:, 2] ** 2 if wrong else 0.0)
    return X, (eta + rng.logistic(size=n) > 0).astype(int)


def covariance(alpha, n_refits):
    """The formula against drawn shifts and against refits at drawn weights, in units of the formula's own root."""
    X, y = logistic_data(500, 0)
    base = LogisticRegression(C=1e6, solver="newton-cholesky", tol=1e-10)
    formula = RibbonClassifier(base, alpha=alpha, temperature=1.0, correction="HC0").fit(X, y)
    options = {"temperature": 1.0, "correction": "HC0", "predictive": "pushforward", "n_draws": 20_000}
    drawn = RibbonClassifier(base, alpha=alpha, random_state=0, **options).fit(X, y)
    report = formula.check_linearization(X, y, n_refits=n_refits, random_state=1)
    whiten = np.linalg.inv(np.linalg.cholesky(formula.covariance_))
    return {
        "draws": relative_variances(whiten @ drawn.ribbon_.shifts),
        "refits": relative_variances(whiten @ report.refitted_shifts),
        "n_refits": n_refits,
    }


def relative_variances(Z):
    """Smallest and largest eigenvalue of the covariance of whitened draws: one where the formula is exact."""
    values = np.linalg.eigvalsh(np.cov(Z))
    return [values[0], values[-1]]


# ---------------------------------------------------------------------- theorem 2
def update_error(n, n_refits):
    """Root mean squared distance of the linear step from the refit."""
    X, y = logistic_data(n, 0)
    ribbon = RibbonClassifier(LogisticRegression(C=1e6, solver="newton-cholesky", tol=1e-10), temperature=1.0).fit(X, y)
    report = ribbon.check_linearization(X, y, n_refits=n_refits, random_state=0)
    error = report.shifts - report.refitted_shifts
    return {"error": np.sqrt((error**2).sum(axis=0).mean()), "move": np.sqrt((report.shifts**2).sum(axis=0).mean())}


# ---------------------------------------------------------------------- Laplace and the sandwich
def poisson_data(n, seed, kind):
    """Counts that are Poisson, or over-dispersed more and more along x where the model is wrong."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    mean = np.exp(0.5 + 0.6 * x[:, 0])
    if kind == "wrong":
        mean = mean * rng.gamma(1 / (0.2 + 0.5 * x[:, 0] ** 2), 0.2 + 0.5 * x[:, 0] ** 2)
    return x, rng.poisson(mean).astype(float)


def laplace_and_sandwich(kind, samples):
    """Both covariances of one fit, averaged over samples, and the true one: that of the fitted coefficients."""
    n = 1000
    coefficients, sandwiches, inverses = [], [], []
    for seed in range(samples):
        X, y = poisson_data(n, seed, kind)
        ribbon = RibbonRegressor(PoissonRegressor(alpha=0, solver="newton-cholesky", tol=1e-10), correction="HC0")
        ribbon.fit(X, y)
        model = ribbon.model_
        Z = model.rows(model.prepare(X))
        coefficients.append(model.theta)
        sandwiches.append(ribbon.covariance_)
        inverses.append(np.linalg.inv(Block(model, Z, y, np.ones(n)).hessian()))
    return {
        "true": np.cov(np.transpose(coefficients)),
        "sandwich": np.mean(sandwiches, axis=0),
        "laplace": np.mean(inverses, axis=0),
        "centre": np.mean(coefficients, axis=0),
        "coefficients": np.array(coefficients)[:500],
        "samples": samples,
    }


# ---------------------------------------------------------------------- theorem 3
def tuned_coverage(n, trials):
    """Coverage of new rows after alpha was tuned on folds of the training rows."""
    values = []
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 4000, 5))
        y = X @ [1.0, 0.5, 0.0, 0.0, -0.5] + rng.normal(size=n + 4000)
        tuned = RibbonCV(RibbonRegressor(noise="dof"), scoring="coverage").fit(X[:n], y[:n])
        values.append(interval_coverage_score(y[n:], tuned.predict_interval(X[n:])))
    return {"coverage": values}


# ---------------------------------------------------------------------- report
def report(values):
    parts = ["**Theorem 1.** " + THEOREM_1]
    rows = []
    for name, cell in found(values, "covariance alpha=").items():
        ranges = [f"{low:.3f} to {high:.3f}" for low, high in (cell["draws"], cell["refits"])]
        rows.append([name, *ranges, cell["n_refits"]])
    parts.append(table(["alpha", "20,000 draws of the linear step", "exact refits", "refits"], rows))
    sizes = [n for n in SIZES if f"update n={n}" in values]
    errors = [values[f"update n={n}"]["error"] for n in sizes]
    moves = [values[f"update n={n}"]["move"] for n in sizes]
    text = "Root mean square distance over draws between the linear step and the exact refit of a logistic regression."
    if len(sizes) > 1:
        slopes = [np.polyfit(np.log(sizes), np.log(distances), 1)[0] for distances in (errors, moves)]
        text += f" It falls as n to the power {slopes[0]:.2f} (the theorem: -1), the move itself as n to the power "
        text += f"{slopes[1]:.2f} (-1/2)."
    parts.append("**Theorem 2.** " + text)
    parts.append(
        table(
            ["n", "error of the step", "size of the move"],
            [[n, f"{e:.4f}", f"{m:.4f}"] for n, e, m in zip(sizes, errors, moves, strict=True)],
        )
    )
    parts.append("**Laplace and the sandwich.** " + LAPLACE)
    rows = []
    for kind, cell in found(values, "laplace ").items():
        true = np.diag(cell["true"])
        ratios = [np.sqrt(np.diag(cell[name]) / true) for name in ("sandwich", "laplace")]
        rows.append([kind, *(f"{ratio[0]:.3f}, {ratio[1]:.3f}" for ratio in ratios), cell["samples"]])
    parts.append(table(["model", "Ribbon / true (slope, intercept)", "Laplace / true", "samples"], rows))
    parts.append("![Sampling distribution of two coefficients with Ribbon's and Laplace's ellipses](theory.png)")
    parts.append("**Theorem 3.** " + TUNED)
    tuned = found(values, "coverage n=")
    rows = [[n, mean_sd(cell["coverage"]), len(cell["coverage"])] for n, cell in tuned.items()]
    parts.append(table(["rows", "coverage of new rows", "samples"], rows))
    return "\n\n".join(parts)


def found(values, prefix):
    """The cells whose names start so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


THEOREM_1 = """The covariance is $H^{-1} H_F H^{-1} / (n \\alpha + 1)$. For a logistic regression with 500 rows and
four parameters, the table shows the smallest and the largest variance over all directions, relative to the formula.
Draws of the linear step agree within their Monte Carlo error. Exact refits differ by terms of higher order, which
grow as alpha falls."""
LAPLACE = """Standard errors of a Poisson regression with 1,000 rows, averaged over many samples and divided by the
true ones, the standard deviations of the fitted coefficients. In the right model, counts are Poisson. In the wrong
one, their dispersion grows along x, which Laplace ignores."""
TUNED = """alpha is tuned to 90% coverage on five folds of the training rows of a linear model with five features.
Mean and standard deviation over independent samples:"""


def draw_ellipses(values, folder):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 200)), np.sin(np.linspace(0, 2 * np.pi, 200))])
    for ax, (kind, cell) in zip(axes, found(values, "laplace ").items(), strict=False):
        points, centre = np.array(cell["coefficients"]), np.array(cell["centre"])
        ax.scatter(*points.T, s=6, color="0.75", linewidths=0, label="fitted coefficients")
        for name, colour, style in (("true", "0.2", "-"), ("sandwich", "#0072B2", "-"), ("laplace", "#D55E00", "--")):
            root = np.linalg.cholesky(np.array(cell[name]))
            label = {"true": "their covariance", "sandwich": "Ribbon", "laplace": "Laplace"}[name]
            ax.plot(*(centre[:, None] + np.sqrt(4.605) * root @ circle), color=colour, ls=style, lw=2, label=label)
        ax.set(xlabel="slope", title=f"The model is {kind}")
    axes[0].set_ylabel("intercept")
    axes[0].legend(frameon=False, fontsize=9)
    figure.suptitle("90% ellipses of two Poisson coefficients", fontsize=11)
    figure.savefig(folder / "theory.png", dpi=130)
    plt.close(figure)
