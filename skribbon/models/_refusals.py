"""Words for base models that Ribbon cannot take: what it can, and the nearest way out."""

CONFORMAL = (
    "It has no parameters that a small change of the rows would move smoothly. Take a conformal method, which asks for "
    "predictions alone, such as MAPIE's SplitConformalRegressor and SplitConformalClassifier."
)
NETWORK = (
    "For a network in torch take laplace-torch; or write it in autograd.numpy, as f(params, X), for "
    "skribbon.AutogradRegressor or AutogradClassifier."
)
SEARCH = (
    "A search goes around the Ribbon, GridSearchCV(RibbonRegressor(Ridge()), {'estimator__alpha': ...}); or fit it "
    "first, with refit=True, and pass FrozenEstimator(search): its best_estimator_ is taken."
)
MARGIN = "Its loss has no second derivative: take LogisticRegression or HuberRegressor, or a conformal method."
GAUSSIAN_PROCESS = "It has error bars of its own: predict(X, return_std=True)."
RIBBON = "It is a Ribbon already: pass its base model, or use it as it is."
OWN = (
    "Ribbon needs a smooth loss in a fixed set of parameters; skribbon.AutogradRegressor takes one that you write, and "
    "for a model without parameters there are conformal methods."
)

# the beginning of the module of one of its base classes, and the way out; the first that fits
WAYS_OUT = {
    "skribbon": RIBBON,
    "torch": NETWORK,
    "skorch": NETWORK,
    "keras": NETWORK,
    "scikeras": NETWORK,
    "tensorflow": NETWORK,
    "flax": NETWORK,
    "sklearn.model_selection": SEARCH,
    "sklearn.tree": CONFORMAL,
    "sklearn.ensemble": CONFORMAL,
    "sklearn.neighbors": CONFORMAL,
    "xgboost": CONFORMAL,
    "lightgbm": CONFORMAL,
    "catboost": CONFORMAL,
    "sklearn.svm": MARGIN,
    "sklearn.gaussian_process": GAUSSIAN_PROCESS,
}

# names of registered classes by what they are; what users register comes last
KINDS = {
    "linear models": (
        *("LinearRegression", "Ridge", "RidgeCV", "BayesianRidge", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV"),
        *("HuberRegressor", "SGDRegressor"),
    ),
    "GLMs": ("PoissonRegressor", "GammaRegressor", "TweedieRegressor"),
    "classifiers": ("LogisticRegression", "SGDClassifier"),
    "networks": ("MLPRegressor", "MLPClassifier", "AutogradRegressor", "AutogradClassifier"),
    "around these": ("Pipeline", "TransformedTargetRegressor", "FrozenEstimator"),
}


def way_out(estimator):
    """What to do with a model of this kind instead."""
    modules = [cls.__module__ for cls in type(estimator).__mro__]
    fits = (way for start, way in WAYS_OUT.items() if any(f"{module}.".startswith(f"{start}.") for module in modules))
    return next(fits, OWN)


def supported(registry):
    """The classes that are taken, a line for each kind."""
    known = {cls.__name__ for cls in registry if cls is not object}
    known |= {"Lasso", "AutogradRegressor", "AutogradClassifier"}  # an ElasticNet; and those that register when used
    kinds = {kind: [name for name in names if name in known] for kind, names in KINDS.items()}
    kinds["registered"] = sorted(known.difference(*KINDS.values()))
    return "\n".join(f"  {kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def refusal(estimator, registry):
    """Why an estimator is not taken, what to do instead, and what is taken."""
    return (
        f"{type(estimator).__name__} is not supported. {way_out(estimator)}\nSupported, with their subclasses:\n"
        f"{supported(registry)}\nand what you register with skribbon.models.as_parametric.register."
    )
