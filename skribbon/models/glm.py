"""Generalised linear models: Poisson, gamma and Tweedie regression, binary and multinomial logistic regression."""

from dataclasses import replace

import numpy as np
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, SGDClassifier, TweedieRegressor
from sklearn.utils import compute_class_weight

from .base import as_parametric, with_theta
from .linear import LinearPredictor, linear_model, sgd_penalty, with_coefficients, with_rows_of_coefficients
from .losses import Bernoulli, Categorical, Tweedie

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


def class_weights(estimator, y, sample_weight):
    """Class weights (K,) that multiply each row's loss, or None.

    They belong to the loss and not to the frequencies: a row of a class of weight 10 is still one observation.
    """
    if estimator.class_weight is None:
        return None
    with np.errstate(divide="ignore"):
        weights = compute_class_weight(
            estimator.class_weight, classes=estimator.classes_, y=y, sample_weight=sample_weight
        ).astype(float)
    return np.where(np.isinf(weights), 0.0, weights)  # "balanced" against rows that have no weight themselves


def _penalty(estimator):
    """C and l1_ratio that a LogisticRegression or LogisticRegressionCV was fitted with."""
    C = np.ravel(getattr(estimator, "C_", estimator.C if hasattr(estimator, "C") else np.inf))
    l1_ratio = np.ravel(getattr(estimator, "l1_ratio_", getattr(estimator, "l1_ratio", 0.0)))
    if len(np.unique(C)) > 1:
        raise TypeError("LogisticRegressionCV chose a different C for each class; refit one LogisticRegression.")
    l1_ratio = l1_ratio[0] if l1_ratio[0] is not None else 0.0
    named = {"l1": 1.0, "l2": 0.0, None: 0.0}  # the spelling before scikit-learn 1.8
    penalty = getattr(estimator, "penalty", "deprecated")
    return (np.inf if penalty is None else C[0]), named.get(penalty, l1_ratio)


@as_parametric.register(LogisticRegression)
def _(estimator, y, sample_weight):
    C, l1_ratio = _penalty(estimator)
    strength = 1.0 / (C * sample_weight.sum())  # the penalty is on the sum of the losses
    K, weights = len(estimator.classes_), class_weights(estimator, y, sample_weight)
    if len(estimator.coef_) == 1:
        model = linear_model(
            estimator,
            Bernoulli(weights),
            strength * (1 - l1_ratio),
            strength * l1_ratio,
            drop_zeros=l1_ratio > 0,
            classes=estimator.classes_,
        )
        if estimator.solver == "liblinear" and model.intercept:
            if l1_ratio > 0 and model.theta[-1] == 0:  # the L1 penalty selected the intercept away too
                theta, l2, gradient = model.theta[:-1], model.l2[:-1], model.penalty_gradient[:-1]
                return replace(model, theta=theta, l2=l2, penalty_gradient=gradient, intercept=False)
            _penalise_liblinear_intercept(model, estimator, strength, l1_ratio)
        return model
    if estimator.solver == "liblinear" or getattr(estimator, "multi_class", None) == "ovr":
        raise TypeError(
            "One-versus-rest logistic regression is not a single likelihood; use a multinomial solver "
            "(lbfgs, newton-cg, newton-cholesky, sag, saga), or OneVsRestClassifier(RibbonClassifier())."
        )
    if l1_ratio > 0:
        raise TypeError("Multinomial LogisticRegression with an L1 penalty is not supported; use l1_ratio=0.")
    return _multinomial(estimator, Categorical(K, weights), strength)


def _multinomial(estimator, loss, strength):
    # Theta = B Phi with B orthonormal: fitted coefficients sum to zero over classes, so the penalty is that of Phi
    Theta = np.asarray(estimator.coef_, dtype=float)
    penalised = np.ones(Theta.shape[1])
    if estimator.fit_intercept:
        Theta = np.column_stack([Theta, estimator.intercept_])
        penalised = np.append(penalised, 0.0)
    k = loss.basis.shape[1]
    return LinearPredictor(
        theta=(loss.basis.T @ Theta).ravel(),
        loss=loss,
        l2=np.tile(strength * penalised, k),
        intercept=bool(estimator.fit_intercept),
        classes=estimator.classes_,
    )


@with_theta.register(LogisticRegression)
def _(estimator, model, theta):
    if len(estimator.coef_) == 1:
        return with_coefficients(estimator, model, theta)
    # from the coordinates that probabilities can see to those of the classes
    return with_rows_of_coefficients(estimator, model, model.loss.basis @ theta.reshape(model.n_outputs, -1))


def _penalise_liblinear_intercept(model, estimator, strength, l1_ratio):
    # liblinear fits the intercept as the weight of a constant column, intercept_scaling, and penalises that weight
    scale = estimator.intercept_scaling
    weight = model.theta[-1] / scale
    model.l2[-1] = strength * (1 - l1_ratio) / scale**2
    model.penalty_gradient[-1] = (strength * (1 - l1_ratio) * weight + strength * l1_ratio * np.sign(weight)) / scale


@as_parametric.register(SGDClassifier)
def _(estimator, y, sample_weight):
    if estimator.loss != "log_loss":
        raise TypeError(f"SGDClassifier(loss={estimator.loss!r}) is not a likelihood; use loss='log_loss'.")
    if len(estimator.coef_) > 1:
        raise TypeError(
            "SGDClassifier fits several classes one versus rest, which is not a single likelihood; use "
            "LogisticRegression, or OneVsRestClassifier(RibbonClassifier(SGDClassifier(loss='log_loss')))."
        )
    l2, l1 = sgd_penalty(estimator, sample_weight)
    loss = Bernoulli(class_weights(estimator, y, None))  # SGDClassifier balances counts of rows, not their weights
    return linear_model(estimator, loss, l2, l1, drop_zeros=l1 > 0, classes=estimator.classes_)
