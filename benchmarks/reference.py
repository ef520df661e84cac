"""Compare every public output of two checkouts of the package, in units of the width of the intervals.

Run ``python reference.py record OUT --seeds 2000`` from the root of each checkout, then
``python reference.py compare OLD NEW``. A difference is |new - old| over the width of the 90% interval of the row.
"""

import argparse
import pickle
import random
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

LEVELS = [0.5, 0.9, 0.99]
QUANTILES = [0.01, 0.25, 0.5, 0.75, 0.99]
FACTS = ("alpha_", "correction_", "n_effective_parameters_", "temperature_", "damping_", "stationarity_", "best_score_")


def attempt(out, name, call):
    """Store the result of ``call``, or the type of its error."""
    try:
        out[name] = call()
    except Exception as error:
        out[name] = type(error).__name__


def frame_values(frame):
    return frame.select_dtypes("number").to_numpy(float)


def outputs(ribbon, X, y, X_train=None, y_train=None):
    """Every public output of a fitted Ribbon, by name."""
    from skribbon import inspection

    out = {}
    inner = getattr(ribbon, "estimator_", ribbon) if type(ribbon).__name__ == "RibbonCV" else ribbon
    for name in FACTS:
        for subject, prefix in ((ribbon, ""), (inner, "inner.")):
            try:
                value = getattr(subject, name)
            except AttributeError:
                continue
            out[prefix + name] = value
    for name in ("noise_", "law_", "curvature_"):
        value = getattr(inner, name, None)
        out[f"type of {name}"] = [type(v).__name__ for v in value] if isinstance(value, list) else type(value).__name__
    for name in ("df", "dispersion_", "shrinkage_"):
        for holder in ("noise_", "law_"):
            value = getattr(getattr(inner, holder, None), name, None)
            if value is not None:
                out[f"{holder}.{name}"] = value
    attempt(out, "covariance_", lambda: np.sqrt(np.abs(np.diag(inner.covariance_))))
    attempt(out, "loo_score_", lambda: inner.loo_score_)
    if hasattr(ribbon, "cv_results_"):
        scores = [v for name, v in sorted(ribbon.cv_results_.items()) if name.startswith("mean_test")]
        out["cv_results_"] = np.concatenate([np.asarray(v, float) for v in scores])
    attempt(out, "coefficients", lambda: frame_values(inspection.coefficients(inner)))
    if hasattr(ribbon, "classes_"):
        attempt(out, "proba", lambda: ribbon.predict_proba(X))
        attempt(out, "proba_interval", lambda: ribbon.predict_proba_interval(X, LEVELS[1]))
        attempt(out, "proba_samples", lambda: ribbon.predict_proba_samples(X, 7, random_state=0))
        attempt(out, "predict", lambda: ribbon.predict(X))
        attempt(out, "frame", lambda: frame_values(ribbon.predict_frame(X)))
    else:
        for kind in ("prediction", "confidence"):
            attempt(out, f"{kind} interval", lambda kind=kind: ribbon.predict_interval(X, LEVELS, kind=kind))
        attempt(out, "predict", lambda: ribbon.predict(X))
        for kind in ("total", "epistemic", "aleatoric"):
            attempt(out, f"std {kind}", lambda kind=kind: ribbon.predict_std(X, kind=kind))
        attempt(out, "quantiles", lambda: ribbon.predict_quantiles(X, QUANTILES))
        attempt(out, "samples", lambda: ribbon.predict_samples(X, 7, random_state=0))
        attempt(out, "jackknife+", lambda: ribbon.predict_interval(X, 0.8, kind="jackknife+"))
        if y is not None:
            attempt(out, "logpdf", lambda: ribbon.predict_distribution(X).logpdf(y))
            attempt(out, "cdf", lambda: ribbon.predict_distribution(X).cdf(y))
            attempt(out, "crps", lambda: ribbon.predict_distribution(X).crps(y))
    if X_train is not None:
        attempt(out, "influence", lambda: np.asarray(inspection.influence(inner, X_train, y_train, X), float))
        attempt(out, "measures", lambda: frame_values(inspection.influence_measures(inner, X_train, y_train)))
        attempt(out, "leave_out", lambda: frame_values(inspection.leave_out(inner, X_train, y_train, [0, 5], X[:3])))
        attempt(out, "slopes", lambda: frame_values(inspection.slopes(inner, X[:20], 0)))
        attempt(out, "comparisons", lambda: frame_values(inspection.comparisons(inner, X[:20], 0)))
        attempt(out, "partial", lambda: frame_values(inspection.partial_dependence(inner, X[:50], 0)))
    return out


def record_case(seed):
    sys.path.insert(0, str(Path("tests/properties").resolve()))
    from cases import contain, draw_case, fit_case, make_data

    case = draw_case(random.Random(seed))
    out = {"case": repr(case)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            data = make_data(case)
            ribbon = fit_case(case, data)
        except Exception as error:
            out["error"] = type(error).__name__
            return seed, out
        fitted = sorted({w.category.__name__ for w in caught if "skribbon" in w.category.__module__})
        X = contain(data.rows, data.rows_text, case.container)
        y = None if case.is_classifier else np.resize(data.y, len(data.rows))
        out.update(outputs(ribbon, X, y))
    out["warnings of fit"] = fitted
    out["warnings"] = sorted({w.category.__name__ for w in caught if "skribbon" in w.category.__module__})
    return seed, out


def further_cases():
    """Forty further cases by name: a function without arguments that returns outputs."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
    from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge, TweedieRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from skribbon import AutogradRegressor, RibbonClassifier, RibbonCV, RibbonRegressor
    from skribbon.models.architectures import mlp

    X, y = load_diabetes(return_X_y=True)
    X = X / X.std(axis=0)
    Z, k = load_breast_cancer(return_X_y=True)
    Z = StandardScaler().fit_transform(Z)
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3000, 6))
    b = A[:, 0] + np.sin(2 * A[:, 1]) + (0.3 + 0.3 * np.abs(A[:, 2])) * rng.normal(size=3000)
    counts = rng.poisson(np.exp(0.5 * A[:, 0] + 0.3 * A[:, 1])).astype(float)
    letters = rng.integers(0, 26, 1500)
    L = rng.normal(size=(26, 12))[letters] + rng.normal(size=(1500, 12))
    groups = np.arange(442) // 6
    three = np.c_[y, y + 40 * X[:, 2], X[:, 3] * 10 + y / 3]
    digits, number = load_digits(return_X_y=True)
    digits = digits / 16
    iris, species = load_iris(return_X_y=True)
    wine, kind = load_wine(return_X_y=True)
    wine = StandardScaler().fit_transform(wine)
    few = slice(0, 300)

    def regress(model, X=X, y=y, n=60, inspect=False, cv=None, **options):
        fit = {name: options.pop(name) for name in ("sample_weight", "groups") if name in options}
        wrapped = RibbonRegressor(model, random_state=0, store_loo=cv is None, **options)
        ribbon = (wrapped if cv is None else RibbonCV(wrapped, **cv)).fit(X, y, **fit)
        return outputs(ribbon, X[:n], y[:n], *((X, y) if inspect else ()))

    def classify(model, X=Z, y=k, n=60, inspect=False, cv=None, **options):
        fit = {name: options.pop(name) for name in ("sample_weight", "groups") if name in options}
        wrapped = RibbonClassifier(model, random_state=0, store_loo=cv is None, **options)
        ribbon = (wrapped if cv is None else RibbonCV(wrapped, **cv)).fit(X, y, **fit)
        return outputs(ribbon, X[:n], None, *((X, y) if inspect else ()))

    def conformal(model, X, y, **options):
        ribbon = (RibbonClassifier if len(np.unique(y)) < 5 else RibbonRegressor)(model, random_state=0, **options)
        ribbon.fit(X[::2], y[::2]).conformalize(X[1::2], y[1::2])
        if hasattr(ribbon, "classes_"):
            return {"set": ribbon.predict_set(X, 0.9, random_state=0).astype(float)}
        return {"conformal": ribbon.predict_interval(X, LEVELS, kind="conformal")}

    def dask(model, X, y, classes=False, **options):
        import dask.array as da

        ribbon = (RibbonClassifier if classes else RibbonRegressor)(model, random_state=0, **options)
        ribbon.fit(da.from_array(X, chunks=(400, X.shape[1])), da.from_array(y, chunks=400))
        return outputs(ribbon, X[:60], None if classes else y[:60])

    net = {"solver": "lbfgs", "max_iter": 60, "random_state": 0, "alpha": 0.1}
    adam = {"solver": "adam", "max_iter": 30, "random_state": 0, "alpha": 0.1}
    return {
        "ols": lambda: regress(None, inspect=True),
        "ridge, long, constant noise": lambda: regress(Ridge(), A, b, noise="dof"),
        "ridge, long, default": lambda: regress(Ridge(), A, b),
        "ridge, weights": lambda: regress(Ridge(), sample_weight=np.arange(442) % 3 + 1.0, inspect=True),
        "ridge, groups": lambda: regress(Ridge(), groups=groups),
        "ridge, groups, HC3": lambda: regress(Ridge(), groups=groups, correction="HC3", noise="loo"),
        "ridge, draws": lambda: regress(Ridge(), predictive="pushforward", n_draws=40),
        "poisson, newton draws": lambda: regress(PoissonRegressor(), A[few], counts[few], predictive="newton"),
        "poisson": lambda: regress(PoissonRegressor(), A, counts, inspect=True),
        "poisson, groups": lambda: regress(PoissonRegressor(), A, counts, groups=np.arange(3000) // 5),
        "poisson, many rows": lambda: regress(PoissonRegressor(), A, counts, n=2000),
        "gamma": lambda: regress(GammaRegressor(), A, counts + 0.5),
        "tweedie": lambda: regress(TweedieRegressor(power=1.5), A, counts),
        "clipped": lambda: regress(Ridge(), predictive="pushforward", clip_scores=3.0, clip_steps=3.0),
        "three outputs": lambda: regress(Ridge(), X, three),
        "three outputs, long": lambda: regress(Ridge(), A, np.c_[b, counts, A[:, 3] + b], noise="dof"),
        "three outputs, groups": lambda: regress(Ridge(), X, three, groups=groups),
        "two outputs of a network": lambda: regress(
            AutogradRegressor(mlp((4,)), l2=0.1, max_iter=60, random_state=0), A[few], np.c_[b, counts][few]
        ),
        "log target": lambda: regress(TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp)),
        "pipeline": lambda: regress(make_pipeline(StandardScaler(), Ridge()), inspect=True),
        "network": lambda: regress(MLPRegressor(hidden_layer_sizes=(12,), **net), A, b, inspect=True),
        "network, relu, two layers": lambda: regress(MLPRegressor(hidden_layer_sizes=(20, 10), **net), A, b),
        "network, p = 4,900": lambda: regress(MLPRegressor(hidden_layer_sizes=(70, 60), **adam), A[:800], b[:800]),
        "network, p = 4,900, matrix free": lambda: regress(
            MLPRegressor(hidden_layer_sizes=(70, 60), **adam),
            A[:800],
            b[:800],
            curvature="matrix_free",
            predictive="pushforward",
        ),
        "network, kfac": lambda: regress(MLPRegressor(hidden_layer_sizes=(20, 10), **net), A, b, curvature="kfac"),
        "network, last layer": lambda: regress(
            MLPRegressor(hidden_layer_sizes=(20, 10), **net), A, b, curvature="last_layer"
        ),
        "digits, network p = 1,500": lambda: classify(MLPClassifier(hidden_layer_sizes=(20,), **net), digits, number),
        "digits, network p = 4,200": lambda: classify(
            MLPClassifier(hidden_layer_sizes=(56,), **adam), digits[:900], number[:900]
        ),
        "logistic": lambda: classify(LogisticRegression(), inspect=True),
        "logistic, groups": lambda: classify(LogisticRegression(), groups=np.arange(569) // 4),
        "logistic, draws": lambda: classify(LogisticRegression(), predictive="newton", n_draws=30),
        "iris": lambda: classify(LogisticRegression(max_iter=500), iris, species, n=150),
        "wine": lambda: classify(LogisticRegression(), wine, kind, n=178),
        "digits": lambda: classify(LogisticRegression(C=0.1, max_iter=500), digits, number),
        "26 classes": lambda: classify(LogisticRegression(max_iter=300), L, letters),
        "RibbonCV ridge": lambda: regress(Ridge(), cv={}),
        "RibbonCV poisson": lambda: regress(PoissonRegressor(), A[:900], counts[:900], cv={}),
        "RibbonCV three outputs": lambda: regress(Ridge(), X, three, cv={}),
        "RibbonCV logistic": lambda: classify(LogisticRegression(), cv={}),
        "RibbonCV wine": lambda: classify(LogisticRegression(), wine, kind, cv={"temperatures": [0.5, 1.0, 2.0]}),
        "RibbonCV network": lambda: regress(
            MLPRegressor(hidden_layer_sizes=(8,), **net), A[:600], b[:600], cv={"dampings": "auto"}
        ),
        "RibbonCV groups": lambda: regress(Ridge(), groups=groups, cv={}),
        "conformal ridge": lambda: conformal(Ridge(), X, y),
        "conformal poisson": lambda: conformal(PoissonRegressor(), A, counts),
        "conformal wine": lambda: conformal(LogisticRegression(), wine, kind),
        "dask ridge": lambda: dask(Ridge(), A, b),
        "dask poisson": lambda: dask(PoissonRegressor(), A, counts),
        "dask logistic": lambda: dask(LogisticRegression(), A, (b > 0).astype(int), classes=True),
    }


def record_further(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out = further_cases()[name]()
        except Exception as error:
            out = {"error": f"{type(error).__name__}: {error}"}
    out["warnings"] = sorted({w.category.__name__ for w in caught if "skribbon" in w.category.__module__})
    return name, out


def record(arguments):
    sys.path.insert(0, str(Path.cwd()))
    found = {}
    with ProcessPoolExecutor(arguments.jobs) as pool:
        if not arguments.only_seeds:
            found.update(pool.map(record_further, further_cases()))
        found.update(pool.map(record_case, range(arguments.seeds), chunksize=20))
    Path(arguments.out).write_bytes(pickle.dumps(found))
    print(len(found), "cases,", sum("error" in out for out in found.values()), "without a fit")


def difference(old, new, unit):
    """Largest difference of two outputs in units of ``unit``; infinite if they cannot be compared."""
    if isinstance(old, str | list) or isinstance(new, str | list) or old is None or new is None:
        return 0.0 if np.array_equal(old, new) else np.inf
    old, new = np.asarray(old), np.asarray(new)
    if old.shape != new.shape:
        return np.inf
    if old.dtype.kind not in "fiub":
        return 0.0 if (old == new).all() else np.inf
    old, new = old.astype(float), new.astype(float)
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    with np.errstate(all="ignore"):
        apart = np.abs(new - old) / np.broadcast_to(unit, old.shape)
    return float(np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart)).max(initial=0.0))


def units(out):
    """Unit of each output: the width of the row's 90% interval for predictions, the size of the output otherwise."""
    interval = out.get("prediction interval")
    width = None
    if isinstance(interval, np.ndarray):
        width = np.abs(interval[..., 1, 1] - interval[..., 0, 1])
    for name, value in out.items():
        if isinstance(value, str | list) or value is None:
            yield name, 1.0
            continue
        value = np.asarray(value)
        if value.dtype.kind not in "fiub" or name in ("logpdf", "cdf", "proba", "proba_interval", "proba_samples"):
            yield name, 1.0
        elif width is not None and name.endswith("interval"):
            yield name, np.maximum(width[..., None, None], 1e-300)
        elif width is not None and name == "quantiles":
            yield name, np.maximum(width[..., None], 1e-300)
        elif (
            width is not None and (name in ("predict", "crps") or name.startswith("std")) and value.shape == width.shape
        ):
            yield name, np.maximum(width, 1e-300)
        else:
            finite = value[np.isfinite(value)] if value.ndim else value
            yield name, max(float(np.abs(finite).max(initial=0.0)) if np.size(finite) else 0.0, 1e-300)


def compare(arguments):
    old, new = (pickle.loads(Path(path).read_bytes()) for path in (arguments.old, arguments.new))
    by_output, cases = {}, {}
    for name in old.keys() & new.keys():
        a, b = old[name], new[name]
        for output, unit in dict(units(a)).items():
            if output == "case":
                continue
            d = difference(a[output], b.get(output), unit)
            by_output.setdefault(output, []).append((d, str(name)))
            cases[name] = max(cases.get(name, (0.0, "")), (d, output))
        for output in b.keys() - a.keys():
            cases[name] = (np.inf, output)
    print(f"{len(cases)} cases; largest difference {max(cases.values())[0]:.2g}")
    for limit in (0.0, 1e-9, 1e-6, 1e-3):
        print(f"  above {limit:g}: {sum(d > limit for d, _ in cases.values())} cases")
    for output, values in sorted(by_output.items()):
        worst = sorted(values, reverse=True)[:4]
        if worst[0][0] > arguments.above:
            n = sum(d > arguments.above for d, _ in values)
            print(f"{output:24s} {n:5d} above; " + ", ".join(f"{name}: {d:.2g}" for d, name in worst))
    if arguments.list:
        for name, (d, output) in sorted(cases.items(), key=lambda item: -item[1][0]):
            if d > arguments.above:
                print(f"{name!s:8} {d:9.2g} {output:20s} {old[name].get('case', '')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record")
    one.add_argument("out")
    one.add_argument("--seeds", type=int, default=2000)
    one.add_argument("--jobs", type=int, default=2)
    one.add_argument("--only-seeds", action="store_true")
    one.set_defaults(call=record)
    two = commands.add_parser("compare")
    two.add_argument("old")
    two.add_argument("new")
    two.add_argument("--above", type=float, default=1e-6)
    two.add_argument("--list", action="store_true")
    two.set_defaults(call=compare)
    arguments = parser.parse_args()
    arguments.call(arguments)
