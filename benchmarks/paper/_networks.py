"""What the regression experiments share: the base network, and every method of the paper around it."""

import numpy as np
from _cells import timed
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPRegressor

from skribbon import AutogradRegressor, RibbonRegressor
from skribbon.baselines import (
    BayesianBootstrapRegressor,
    BootstrapRegressor,
    DeepEnsembleRegressor,
    LaplaceRegressor,
    MCDropoutRegressor,
    NutsRegressor,
    SviRegressor,
)
from skribbon.models.architectures import mlp

DECAYS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def network(units, decay, seed, max_iter=1000):
    """scikit-learn's perceptron with one hidden layer of tanh units, trained by L-BFGS on all rows."""
    return MLPRegressor(
        hidden_layer_sizes=(units,),
        activation="tanh",
        solver="lbfgs",
        alpha=decay,
        max_iter=max_iter,
        max_fun=20 * max_iter,
        tol=1e-6,
        random_state=seed,
    )


def fitted_network(X, y, units, seed, max_iter=1000, decays=DECAYS):
    """The network whose weight decay has the smallest leave-one-out error on the training rows."""
    fits = [network(units, decay, seed, max_iter).fit(X, y) for decay in decays]
    if len(fits) == 1:
        return fits[0]
    errors = []
    for fit in fits:
        ribbon = RibbonRegressor(FrozenEstimator(fit), noise="dof", damping=0.0, store_loo=True).fit(X, y)
        errors.append(np.mean(ribbon.loo_residuals_**2))
    return fits[int(np.argmin(errors))]


def dropout_network(base, n, seed, dropout=0.1, steps=4000):
    """A network like ``base`` with dropout, trained by some ``steps`` of Adam; its penalty is on the mean loss."""
    batch = min(64, max(16, n // 20))
    epochs = max(5, round(steps * batch / n))
    return AutogradRegressor(
        mlp(base.hidden_layer_sizes, base.activation, dropout),
        l2=base.alpha / n,
        solver="adam",
        learning_rate=5e-3,
        batch_size=batch,
        max_iter=epochs,
        n_iter_no_change=epochs,
        random_state=seed,
    )


def after(base, name, X, y, seed, *, noise="train", members=5, refits=20, draws=100, chain=500, **ribbon):
    """A method fitted after the base model, and its post-hoc seconds.

    Those are the seconds that come after the shared base model is there: ensembles and refits train again, dropout has
    its own network, trained before the clock starts; so are the choices of a prior precision and of alpha.
    """
    fresh, frozen = clone(base), FrozenEstimator(base)
    shared = {"noise": noise, "random_state": seed}
    bayes = {"hidden_layer_sizes": base.hidden_layer_sizes, "activation": base.activation, **shared}
    if name == "deep ensemble":
        method = DeepEnsembleRegressor(fresh, n_members=members, **shared)
    elif name == "bootstrap":
        method = BootstrapRegressor(fresh, n_members=refits, **shared)
    elif name == "Bayesian bootstrap":
        method = BayesianBootstrapRegressor(fresh, n_members=refits, **shared)
    elif name == "MC dropout":
        trained = dropout_network(base, len(y), seed).fit(X, y)
        method = MCDropoutRegressor(FrozenEstimator(trained), n_draws=draws, **shared)
    elif name == "Laplace":
        tuned = LaplaceRegressor(fresh, prior_precision="validation", **shared).fit(X, y)
        method = LaplaceRegressor(frozen, prior_precision=tuned.prior_precision_, **shared)
    elif name == "NUTS":
        method = NutsRegressor(n_warmup=chain, n_draws=chain, **bayes)
    elif name == "SVI":
        method = SviRegressor(n_draws=draws, **bayes)
    else:
        settings = {"predictive": "pushforward", "law": "normal", "damping": 0.0, **shared, **ribbon}
        method = RibbonRegressor(frozen, n_draws=draws, **settings)
    return timed(lambda: method.fit(X, y))
