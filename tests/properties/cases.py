"""Random cases of the public interface: model, data and container.

A case is a small frozen record. Its repr leaves out what has its default, can be pasted back as code, and is all that
a failure needs to be made again.
"""

from dataclasses import MISSING, dataclass, field, fields, replace

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)

from skribbon import AutogradClassifier, AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor
from skribbon.models.architectures import mlp

MODELS = {
    model.__name__: model
    for model in (
        *(LinearRegression, Ridge, RidgeCV, BayesianRidge, ElasticNet, Lasso, HuberRegressor, SGDRegressor),
        *(PoissonRegressor, GammaRegressor, TweedieRegressor, MLPRegressor, AutogradRegressor),
        *(LogisticRegression, LogisticRegressionCV, SGDClassifier, MLPClassifier, AutogradClassifier),
    )
}
FAMILIES = {  # the last two draw their base model from all others
    "linear": ("LinearRegression", "Ridge", "RidgeCV", "BayesianRidge"),
    "l1": ("ElasticNet", "Lasso"),
    "huber": ("HuberRegressor",),
    "glm": ("PoissonRegressor", "GammaRegressor", "TweedieRegressor"),
    "sgd": ("SGDRegressor", "SGDClassifier"),
    "network": ("MLPRegressor", "MLPClassifier"),
    "autograd": ("AutogradRegressor", "AutogradClassifier"),
    "logistic": ("LogisticRegression",) * 9 + ("LogisticRegressionCV",),
    "target": ("LinearRegression", "Ridge", "HuberRegressor", "ElasticNet", "MLPRegressor", "PoissonRegressor"),
    "cv": (
        *("LinearRegression", "Ridge", "PoissonRegressor", "GammaRegressor", "HuberRegressor", "LogisticRegression"),
        *("LogisticRegression", "MLPRegressor", "MLPClassifier", "AutogradRegressor"),
    ),
}
CLASSIFIERS = ("LogisticRegression", "LogisticRegressionCV", "SGDClassifier", "MLPClassifier", "AutogradClassifier")
WEIGHTLESS = ("MLPRegressor", "MLPClassifier")  # take weights in some versions of scikit-learn only
TARGETS = ("log", "sqrt", "reciprocal", "power", "quantile", "quantile_normal", "standard")
UNSCALED = ("power", "quantile", "quantile_normal")
DENSE = ("float64", "float32", "int", "list", "frame", "fortran", "readonly", "slice")
SPARSE = ("csr_matrix", "csc_matrix", "csr_array", "csc_array")
MILD = ("duplicated", "copies", "integers")  # what X may be while optima stay well determined
TAKE_TABLES = ("LinearRegression", "Ridge", "RidgeCV", "MLPRegressor", "AutogradRegressor")
TWINS = ("rows", "columns", "weights", "container", "alpha", "batch", "pickle", "refit", "failed_refit", "inplace")
TWINS += ("groups", "conformal")


@dataclass(frozen=True, repr=False)
class Case:
    """One fit with all its predictions. See ``draw_case`` for the values a field can take."""

    family: str = "linear"
    model: str = "LinearRegression"
    params: dict = field(default_factory=dict)  # of the base model
    prepare: str = "none"  # what stands before it
    target: str = "none"  # the transform of its target
    options: dict = field(default_factory=dict)  # of the Ribbon
    cv: dict | None = None  # of the RibbonCV around it
    n: int = 30
    d: int = 2
    x: tuple = ()  # what is wrong with X
    offset: float = 0.0  # of the first column, in units of its spread
    x_scale: float = 1.0
    y: str = "linear"
    y_scale: float = 1.0
    classes: int = 2
    labels: str = "int"
    container: str = "float64"
    y_container: str = "array"
    weights: str = "none"
    groups: str = "none"
    rows: str = "mixed"  # which rows are predicted
    twin: str = "batch"  # the law that compares with another fit
    seed: int = 0

    def __repr__(self):
        given = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != _default(f)]
        return f"Case({', '.join(given)})"

    def __hash__(self):
        return hash(repr(self))

    @property
    def is_classifier(self):
        return self.model in CLASSIFIERS

    @property
    def is_tame(self):
        """Whether X, y and the weights are well-behaved, so that two ways to the same optimum agree closely."""
        return (
            set(self.x) <= set(MILD)
            and self.offset == 0
            and self.x_scale == 1
            and self.y in ("linear", "noise", "counts", "positive", "labels")
            and self.n >= 3 * self.d + 6
            and self.weights in ("none", "integers", "zeros")
        )


def _default(f):
    return f.default if f.default is not MISSING else f.default_factory()


# ---------------------------------------------------------------------- drawing: rng is a random.Random
def draw_case(rng, family=None):
    """A random case; ``rng`` is a random.Random."""
    family = family or rng.choice(list(FAMILIES))
    model = rng.choice(FAMILIES[family])
    classifier = model in CLASSIFIERS
    target = rng.choice(TARGETS) if family == "target" else "none"
    params = _draw_params(rng, model)
    prepare = _draw_prepare(rng, family)
    container = _draw_container(rng, model, prepare)
    n, d = _draw_size(rng)
    x, offset, x_scale = _draw_x(rng)
    y = _draw_y(rng, model, params, target)
    # these models lose digits below 1e-7 in any unit of y
    scalable = not classifier and y not in ("counts", "zeros") and target not in UNSCALED
    case = Case(
        family=family,
        model=model,
        params=params,
        prepare=prepare,
        target=target,
        options=_draw_options(rng, model, params),
        cv=_draw_cv(rng, classifier) if family == "cv" else None,
        n=n,
        d=d,
        x=x,
        offset=offset,
        x_scale=x_scale,
        y=y,
        y_scale=_rarely(rng, 1.0, lambda: _log_uniform(rng, 1e-13, 1e13)) if scalable else 1.0,
        classes=rng.choice([2] * 9 + [3] if model == "SGDClassifier" else [2, 2, 3, 4, 5]) if classifier else 2,
        labels=rng.choice(["int", "int", "str", "negative"]) if classifier else "int",
        container=container,
        y_container=rng.choice(["array", "array", "list", "series", "column"]),
        weights=_draw_weights(rng, model),
        groups=_rarely(rng, "none", lambda: rng.choice(["few", "some", "some", "unequal", "own", "one"]), 0.3),
        rows=rng.choice(["train", "near", "far", "absurd", "single", "mixed", "mixed"]),
        twin=rng.choice(TWINS),
        seed=rng.randint(0, 10**6),
    )
    if case.y_container == "column" and case.model in TAKE_TABLES:  # of one output, with shapes of their own
        case = replace(case, y_container="array")
    if case.twin in ("rows", "columns", "weights"):
        return _tamed(rng, case)
    if case.twin == "groups" and case.groups == "one":
        return replace(case, groups="some")
    if case.twin == "container" and case.container in ("float64", "float32"):
        return replace(case, container=rng.choice([kind for kind in DENSE if kind not in ("float64", "float32")]))
    return case


def _tamed(rng, case):
    """The case on well-behaved data, for laws that compare two optima."""
    weights = rng.choice(["integers", "zeros"]) if case.twin == "weights" and case.model not in WEIGHTLESS else "none"
    options = {k: v for k, v in case.options.items() if k not in ("curvature", "predictive", "n_draws")}
    return replace(
        case,
        n=max(case.n, 3 * case.d + 6),
        x=tuple(kind for kind in case.x if kind in MILD),
        offset=0.0,
        x_scale=1.0,
        y={"labels": "labels", "counts": "counts", "positive": "positive"}.get(_kind_of_y(case.y), "linear"),
        weights=weights,
        options=options,
        container=case.container if case.container not in ("float32", *SPARSE) else "float64",
        prepare="none" if case.prepare == "frozen" else case.prepare,
        rows=case.rows if case.rows in ("train", "single") else "near",
    )


def _kind_of_y(y):
    kinds = {
        "labels": ("labels", "separated", "rare", "random", "one_class"),
        "counts": ("counts", "zeros", "rates", "big_counts", "mostly_zeros"),
        "positive": ("positive", "positive_constant", "heavy"),
    }
    return next((kind for kind, members in kinds.items() if y in members), "linear")


def _rarely(rng, usual, draw, probability=0.25):
    return draw() if rng.random() < probability else usual


def _log_uniform(rng, low, high):
    """Draw a log-uniform number, rounded to two digits for readable descriptions."""
    return float(f"{10 ** rng.uniform(np.log10(low), np.log10(high)):.1e}")


def _draw_params(rng, model):
    """Draw non-default arguments of the base model; solvers of convex models get tight tolerances."""
    p = {}
    if model in ("LinearRegression", "Ridge", "ElasticNet", "Lasso", "HuberRegressor", "LogisticRegression"):
        p |= _rarely(rng, {}, lambda: {"fit_intercept": False}, 0.15)
    if model == "LinearRegression":
        p |= _rarely(rng, {}, lambda: {"positive": True}, 0.1)
    elif model == "Ridge":
        p |= {"alpha": rng.choice([0.0, 1.0, _log_uniform(rng, 1e-6, 1e6)])}
    elif model in ("ElasticNet", "Lasso"):
        p |= {"alpha": _log_uniform(rng, 1e-4, 10.0), "tol": 1e-10, "max_iter": 5000}
        p |= _rarely(rng, {}, lambda: {"positive": True}, 0.1)
        if model == "ElasticNet":
            p |= {"l1_ratio": rng.choice([0.0, 0.1, 0.5, 0.9])}
    elif model == "HuberRegressor":
        epsilon = round(rng.uniform(1.0, 2.0), 2)
        p |= {"epsilon": epsilon, "alpha": rng.choice([0.0, 1e-4, 1.0]), "tol": 1e-9, "max_iter": 1000}
    elif model in ("PoissonRegressor", "GammaRegressor", "TweedieRegressor"):
        p |= {"alpha": rng.choice([0.0, 1e-3, 1.0, 1.0, 10.0]), "tol": 1e-9, "max_iter": 200}
        p |= _rarely(rng, {}, lambda: {"solver": "newton-cholesky"})
        if model == "TweedieRegressor":
            power = rng.choice([0, 1, 1.5, 1.9, 2, 3])
            p |= {"power": power, "link": rng.choice(["auto", "log", "log", "identity"])}
    elif model in ("SGDRegressor", "SGDClassifier"):
        p |= {"alpha": rng.choice([1e-4, 1e-2, 1.0]), "max_iter": rng.choice([5, 200]), "random_state": 0}
        p |= {"loss": "log_loss"} if model == "SGDClassifier" else {}
    elif model in ("MLPRegressor", "MLPClassifier"):
        p |= {"hidden_layer_sizes": rng.choice([(2,), (3,), (3, 2)]), "activation": rng.choice(["tanh", "relu"])}
        p |= {"solver": "lbfgs", "alpha": rng.choice([0.0, 1e-4, 0.1]), "max_iter": rng.choice([2, 30, 200])}
        p |= {"random_state": 0}
    elif model in ("AutogradRegressor", "AutogradClassifier"):
        p |= {"hidden": rng.choice([(), (2,), (3,)]), "l2": rng.choice([0.0, 1e-3, 0.1]), "max_iter": 30}
        p |= {"random_state": 0}
        if model == "AutogradRegressor":
            p |= _rarely(rng, {}, lambda: {"loss": rng.choice(["poisson", "gamma", "huber", "student_t"])}, 0.4)
    elif model == "LogisticRegression":
        p |= {"C": _log_uniform(rng, 1e-3, 1e6), "tol": 1e-9, "max_iter": 2000}
        p |= _rarely(rng, {}, lambda: {"class_weight": "balanced"}, 0.2)
    elif model == "LogisticRegressionCV":
        p |= {"Cs": 3, "cv": 2, "max_iter": 300}
    return p


def _draw_prepare(rng, family):
    common = ["none"] * 10 + ["scaler"] * 4 + ["scaler_inplace"] * 2 + ["spline"] * 2 + ["frozen"] * 2 + ["text"]
    if family in ("sgd", "network", "autograd"):  # these rarely converge on raw columns
        common += ["scaler"] * 12
    return rng.choice([kind for kind in common if family != "cv" or kind != "frozen"])


def _draw_container(rng, model, prepare):
    if prepare == "text":
        return "frame"
    if rng.random() < 0.4:
        return "float64"
    dense_only = prepare in ("spline", "scaler_inplace") or model.startswith("Autograd")
    return rng.choice(DENSE if dense_only else DENSE + SPARSE)


def _draw_size(rng):
    if rng.random() < 0.15:
        return rng.randint(3, 8), rng.randint(1, 8)
    if rng.random() < 0.2:  # enough rows to tell how the noise depends on x
        return rng.randint(60, 180), rng.randint(1, 4)
    return rng.randint(9, 60), rng.randint(1, 8) if rng.random() < 0.3 else rng.randint(1, 3)


def _draw_x(rng):
    if rng.random() < 0.5:
        return (), 0.0, 1.0
    kinds = ["collinear", "constant", "duplicated", "copies", "scaled", "outlier", "outlier", "category", "integers"]
    x = tuple(sorted({rng.choice(kinds) for _ in range(rng.randint(0, 2))}))
    offset = _rarely(rng, 0.0, lambda: _log_uniform(rng, 10.0, 1e8))
    return x, offset, _rarely(rng, 1.0, lambda: _log_uniform(rng, 1e-8, 1e8))


def _draw_y(rng, model, params, target):
    if model in CLASSIFIERS:
        return rng.choice(["labels"] * 8 + ["separated"] * 2 + ["rare"] * 3 + ["random"] * 2 + ["one_class"])
    counts = ["counts"] * 4 + ["zeros", "rates", "big_counts", "mostly_zeros"]
    positive = ["positive"] * 4 + ["positive_constant", "heavy"]
    power = {"PoissonRegressor": 1, "GammaRegressor": 2}.get(model, params.get("power", 0))
    power = {"poisson": 1, "gamma": 2}.get(params.get("loss"), power)
    if rng.random() < 0.04:
        return rng.choice(["linear", "counts", "positive"])  # also what the model must refuse
    if target in ("log", "sqrt", "reciprocal") or power >= 2:
        return rng.choice(positive)
    if power == 1:
        return rng.choice(counts)
    if power > 1:
        return rng.choice([*counts, "positive", "positive"])
    return rng.choice(["linear"] * 5 + ["noise", "perfect", "constant", "outliers", "integers", "heavy"])


def _draw_options(rng, model, params):
    options = _rarely(rng, {}, lambda: {"alpha": _log_uniform(rng, 1e-3, 1e4)}, 0.4)
    curvatures = ["hessian", "ggn", "fisher", "diag", "low_rank", "matrix_free", "last_layer"]
    curvatures += ["kfac", "kfac"] if model.startswith(("MLP", "Autograd")) else []
    options |= _rarely(rng, {}, lambda: {"curvature": rng.choice(curvatures)}, 0.35)
    options |= _rarely(rng, {}, lambda: {"damping": rng.choice([0.0, 1e-8, 1e-3, 1.0])}, 0.2)
    options |= _rarely(rng, {}, lambda: {"correction": rng.choice(["HC0", "HC1", "HC2", "HC3"])}, 0.4)
    options |= _rarely(
        rng, {}, lambda: {"predictive": rng.choice(["pushforward", "direct", "newton"]), "n_draws": 12}, 0.2
    )
    options |= _rarely(rng, {}, lambda: {"store_loo": True}, 0.3)
    if model in CLASSIFIERS:
        options |= _rarely(rng, {}, lambda: {"temperature": rng.choice([0.3, 1.0, 1.0, 4.0])}, 0.35)
        options |= _rarely(rng, {}, lambda: {"averaging": rng.choice(["closed", "exact", "exact"])}, 0.4)
    else:
        noises = ["train", "train", "dof", "loo", "loo", 0.0, 0.7, "heteroskedastic"]
        options |= _rarely(rng, {}, lambda: {"noise": rng.choice(noises)}, 0.4)
        laws = ["normal", "student", "student", "empirical", "empirical"]  # a family other than these refuses the last
        options |= _rarely(rng, {}, lambda: {"law": rng.choice(laws)}, 0.2 if _is_additive(model, params) else 0.02)
    types = ["importance"] if model in CLASSIFIERS else ["importance", "exposure"]
    options |= _rarely(rng, {}, lambda: {"weight_type": rng.choice(types)}, 0.2)
    return options | {"random_state": 0}


def _is_additive(model, params):
    """Whether observations are a prediction plus noise."""
    return not (
        model in ("PoissonRegressor", "GammaRegressor")
        or params.get("power", 0) != 0
        or params.get("link") == "log"
        or params.get("loss") in ("poisson", "gamma")
    )


def _draw_cv(rng, classifier):
    scores = ["nll", "brier", "ece"] if classifier else ["coverage", "nll", "crps", "interval_score"]
    cv = {"scoring": rng.choice([None, *scores]), "cv": rng.choice([None, 2, 3, "loo", "loo"])}
    cv |= _rarely(rng, {}, lambda: {"alphas": rng.choice([[1.0], [0.1, 1.0, 10.0], [1e-3, 1e4]])}, 0.5)
    return cv


def _draw_weights(rng, model):
    if model in WEIGHTLESS or rng.random() < 0.65:
        return "none"
    return rng.choice(["integers", "integers", "zeros", "zeros", "sum_to_one", "large", "fractions"])


# ---------------------------------------------------------------------- building data and models from a case
@dataclass(frozen=True, eq=False)
class Data:
    """Numbers of a case before they go into containers."""

    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    weight: np.ndarray | None  # (n,)
    group: np.ndarray | None  # (n,): labels
    text: np.ndarray | None  # (n,): a column of strings
    rows: np.ndarray  # (m, d): rows to predict
    rows_text: np.ndarray | None  # (m,)


def make_data(case):
    """Training rows and rows to predict."""
    rng = np.random.default_rng(case.seed)
    X = _make_x(case, rng)
    y = _make_y(case, X, rng)
    if "copies" in case.x:  # of X and y
        half = case.n // 2
        X[half : 2 * half], y[half : 2 * half] = X[:half], y[:half]
    text = np.array(["a", "b", "c"])[rng.integers(0, 3, case.n)] if case.prepare == "text" else None
    if text is not None:
        text[0] = "one"  # a category of one row
    rows = _make_rows(case, X, rng)
    rows_text = None if text is None else text[rng.integers(0, case.n, len(rows))]
    if case.container == "int":
        X, rows = np.round(X), np.round(rows)
    if case.container == "float32":  # both ways of fitting see the rounded numbers
        X, rows = X.astype(np.float32).astype(float), rows.astype(np.float32).astype(float)
    return Data(X, y, _make_weight(case, rng), _make_group(case), text, rows, rows_text)


def _make_x(case, rng):
    X = rng.normal(size=(case.n, case.d))
    if "duplicated" in case.x:
        X = X[rng.integers(0, max(2, case.n // 3), case.n)]
    if "integers" in case.x:
        X = np.round(3 * X)
    if "outlier" in case.x:
        X[0] *= 1e3
    if "category" in case.x:
        X[:, -1] = np.arange(case.n) == 0
    if "constant" in case.x:
        X[:, 0] = 3.0
    if "collinear" in case.x:
        X[:, -1] = 2 * X[:, 0]
    X[:, 0] += case.offset
    if "scaled" in case.x:
        X = X * 10.0 ** np.round(rng.uniform(-8, 8, case.d))
    return X * case.x_scale


def _make_y(case, X, rng):
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    eta, e = Z @ rng.normal(size=case.d), rng.normal(size=case.n)
    if case.is_classifier:
        return _make_labels(case, eta, e, rng)
    mu = np.exp(np.clip(0.5 * eta, -3, 3))
    y = {
        "linear": lambda: 1 + eta + 0.5 * e,
        "noise": lambda: e,
        "perfect": lambda: 1 + eta,
        "constant": lambda: np.full(case.n, 2.5),
        "outliers": lambda: eta + np.where(np.arange(case.n) % 10 == 0, 1e3, 0.3) * e,
        "integers": lambda: np.round(3 * (eta + e)),
        "heavy": lambda: np.exp(np.clip(eta + 2 * e, -10, 10)),
        "positive": lambda: np.exp(np.clip(0.5 * eta + 0.3 * e, -6, 6)),
        "positive_constant": lambda: np.full(case.n, 2.5),
        "counts": lambda: rng.poisson(2 * mu).astype(float),
        "big_counts": lambda: rng.poisson(1e5 * mu).astype(float),
        "zeros": lambda: np.zeros(case.n),
        "mostly_zeros": lambda: (np.arange(case.n) == 1).astype(float),
        "rates": lambda: rng.poisson(3 * mu) / rng.integers(1, 5, case.n),
    }[case.y]()
    return y * case.y_scale


def _make_labels(case, eta, e, rng):
    score = eta if case.y == "separated" else e if case.y == "random" else eta + e
    k = np.searchsorted(np.quantile(score, np.arange(1, case.classes) / case.classes), score)
    if case.y == "one_class":
        k = np.zeros(case.n, int)
    if case.y == "rare":
        k = np.minimum(k, max(case.classes - 2, 0))
        k[: 1 + case.seed % 2] = case.classes - 1
    names = {
        "int": np.arange(case.classes),
        "negative": 3 * np.arange(case.classes) - 4,
        "str": np.array([f"class {chr(97 + i)}" for i in range(case.classes)]),
    }
    return names[case.labels][k]


def _make_weight(case, rng):
    n = case.n
    if case.weights == "none":
        return None
    counts = rng.integers(1, 4, n).astype(float)
    return {
        "integers": lambda: counts,
        "zeros": lambda: np.where(np.arange(n) % 4 == 3, 0.0, counts),
        "sum_to_one": lambda: counts / counts.sum(),
        "large": lambda: 1e6 * counts,
        "fractions": lambda: rng.uniform(0.1, 2.0, n),
    }[case.weights]()


def _make_group(case):
    """Labels of groups whose rows lie anywhere in the table; every other seed has names in place of numbers."""
    n, rng = case.n, np.random.default_rng(case.seed + 1)
    if case.groups == "none":
        return None
    group = {
        "few": lambda: rng.permutation(np.arange(n) % 3),
        "some": lambda: rng.permutation(np.arange(n) % max(n // 4, 2)),
        "unequal": lambda: np.minimum(rng.geometric(0.3, n), n),
        "own": lambda: rng.permutation(n),
        "one": lambda: np.zeros(n, int),
    }[case.groups]()
    return np.array([f"group {g}" for g in group]) if case.seed % 2 else 10 * group - 7


def _make_rows(case, X, rng):
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), case.x_scale)
    step = spread * rng.normal(size=(6, case.d))
    some = X[rng.integers(0, case.n, 6)]
    near, far, absurd = some + 0.1 * step, some + 1e3 * step, some + 1e8 * step
    return {
        "train": some,
        "near": near,
        "far": far,
        "absurd": absurd,
        "single": near[:1],
        "mixed": np.concatenate([some[:2], near[2:4], far[4:]]),
    }[case.rows]


def contain(X, text, kind):
    """X (n, d), and a column of text if there is one, in a container; always a new object."""
    if text is not None or kind == "frame":
        index = [f"row {i}" for i in range(len(X))][::-1]
        frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])], index=index)
        return frame if text is None else frame.assign(text=text)
    if kind in SPARSE:
        return getattr(sparse, kind)(X)
    if kind in ("float32", "int"):
        X = np.clip(X, -(2.0**62), 2.0**62) if kind == "int" else X
        return X.astype(np.float32 if kind == "float32" else np.int64)
    if kind == "list":
        return X.tolist()
    if kind == "fortran":
        return np.asfortranarray(X.copy())
    if kind == "slice":
        wide = np.full((2 * X.shape[0], X.shape[1] + 1), 7.0)
        wide[::2, 1:] = X
        return wide[::2, 1:]
    X = X.copy()
    X.flags.writeable = kind != "readonly"
    return X


def contain_y(y, kind):
    """y (n,) in a container; always a new object."""
    if kind == "series":
        return pd.Series(y, index=np.arange(len(y))[::-1] * 10)
    return y.tolist() if kind == "list" else y[:, None].copy() if kind == "column" else y.copy()


TRANSFORMS = {
    "log": lambda: {"func": np.log, "inverse_func": np.exp, "check_inverse": False},
    "sqrt": lambda: {"func": np.sqrt, "inverse_func": np.square, "check_inverse": False},
    "reciprocal": lambda: {"func": np.reciprocal, "inverse_func": np.reciprocal, "check_inverse": False},
    "power": lambda: {"transformer": PowerTransformer()},
    "quantile": lambda: {"transformer": QuantileTransformer(n_quantiles=10)},
    "quantile_normal": lambda: {"transformer": QuantileTransformer(n_quantiles=10, output_distribution="normal")},
    "standard": lambda: {"transformer": StandardScaler()},
}


def make_base(case):
    """The base model, not fitted; with prepare="frozen" it goes into a ``FrozenEstimator`` once it is."""
    params = dict(case.params)
    if case.model.startswith("Autograd"):
        params["f"] = mlp(hidden=params.pop("hidden", ()))
    model = MODELS[case.model](**params)
    if case.prepare.startswith("scaler"):
        with_mean = case.container not in SPARSE
        model = make_pipeline(StandardScaler(with_mean=with_mean, copy=case.prepare != "scaler_inplace"), model)
    elif case.prepare == "spline":
        model = make_pipeline(SplineTransformer(n_knots=3, degree=2), model)
    elif case.prepare == "text":
        coded = ("text", OneHotEncoder(handle_unknown="ignore"), ["text"])
        identity = ("numbers", FunctionTransformer(), [f"c{j}" for j in range(case.d)])
        model = make_pipeline(ColumnTransformer([coded, identity], sparse_threshold=0), model)
    return model if case.target == "none" else TransformedTargetRegressor(model, **TRANSFORMS[case.target]())


def make_ribbon(case, base):
    """The Ribbon around a base model, not fitted."""
    ribbon = (RibbonClassifier if case.is_classifier else RibbonRegressor)(base, **case.options)
    return ribbon if case.cv is None else RibbonCV(ribbon, **case.cv)


def fit_case(case, data=None, **changes):
    """A fitted Ribbon; ``changes`` are options that replace those of the case."""
    data = make_data(case) if data is None else data
    base = make_base(case)
    X, y = contain(data.X, data.text, case.container), contain_y(data.y, case.y_container)
    if case.prepare == "frozen":
        fitted = base.fit(contain(data.X, data.text, case.container), data.y.copy())
        base = FrozenEstimator(fitted)
    ribbon = make_ribbon(case, base)
    if changes:
        ribbon.set_params(**changes)
    return ribbon.fit(X, y, **said_of(data))


def said_of(data):
    """Arguments of ``fit`` other than X and y; always new objects."""
    given = {"sample_weight": data.weight, "groups": data.group}
    return {name: value.copy() for name, value in given.items() if value is not None}
