"""Predictions by several models, the members, each as likely as the others, and noise around their mean."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer

from .._core.linalg import batch_gram
from .._core.rows import row_blocks
from .._estimators.base_model import adopt, validated
from .._estimators.classifier import ClassificationMethods
from .._estimators.regressor import RegressionMethods
from .._laws import LocationFamily
from .._predict.latent import Latent
from .._predict.target import TargetScale
from .._utils.compat import safe_indexing
from .._utils.typing import FloatArray, MatrixLike
from ..noise.scale import DofNoise, LooNoise, resolve_noise

ABSENT = (
    1e-12  # probability of a class that a member has not seen: small enough to vanish in the mean, with a finite log
)


class MemberPredictions:
    """Predict with ``members_``, a list of ParametricModel, each as likely as the others.

    ``model_`` gives the scale of the target and the classes; a member may have been fitted on a scale, and on classes,
    of its own. A subclass writes ``_with_law(fitted, X, y, weight)``, which adds what is fitted of the observations,
    and ``_on_our_scale(f, member)``, which takes raw predictions of a member to the scale and classes of ``model_``.
    """

    def _check_law(self):
        """Refuse a wrong parameter of the observations before any training is done."""

    def _prepared(self, X):
        X = validated(self, X)
        self.model_.prepare(X)  # checks X
        return indexable(X)  # every member prepares X in its own way

    def _latent(self, X):
        return Latent.concatenate(self._by_block(X, self._latent_of_block), MemberDraws(self, X))

    def _latent_of_block(self, X):
        draws = self._raw_draws(X, self.members_)
        f = centre(draws)
        return Latent(f, batch_gram(draws - f[:, :, None]) / draws.shape[2], draws)

    def _raw_root(self, X):
        draws = np.concatenate(self._by_block(X, lambda X: self._raw_draws(X, self.members_)))
        return (draws - centre(draws)[:, :, None]) / np.sqrt(draws.shape[2])

    def _draw(self, n_draws, rng):
        B = len(self.members_)
        return [self.members_[b] for b in rng.choice(B, size=n_draws, replace=n_draws > B)]

    def _by_block(self, X, function):
        """``function`` of each block of rows of X."""
        width = max(self.model_.row_width, self.model_.n_outputs * len(self.members_))
        return [function(safe_indexing(X, rows)) for rows in row_blocks(X.shape[0], width)]

    def _raw_draws(self, X, drawn):
        """Raw predictions (n, k, B) of the members ``drawn``."""
        Z, preprocess, raws = None, None, {}
        for member in {id(member): member for member in drawn}.values():
            if Z is None or member.preprocess is not preprocess:  # members often share it
                Z, preprocess = member.rows(member.prepare(X)), member.preprocess
            raws[id(member)] = self._on_our_scale(member.raw(Z), member)
        return np.stack([raws[id(member)] for member in drawn], axis=2)


@dataclass(frozen=True, eq=False)
class MemberDraws:
    """Joint draws of the raw prediction of all rows of X: each is one member."""

    owner: Any
    X: Any

    def __call__(self, n_samples, rng):
        drawn = self.owner._draw(n_samples, rng)
        return np.concatenate(self.owner._by_block(self.X, lambda X: self.owner._raw_draws(X, drawn)))


class MemberRegression(MemberPredictions, RegressionMethods):
    """Predict methods of a regressor made of members; needs ``noise``."""

    def _predict_mean(self, X):
        draws = self._latent(self._prepared(X)).draws[:, 0]  # (n, B)
        return centre(self.model_.decode_target(self.model_.loss.mean(draws)))

    def _on_our_scale(self, f, member):
        learnt = not isinstance(member.target_transformer, FunctionTransformer | None)
        if not learnt or not isinstance(member.loss.law(1.0), LocationFamily):
            return f
        return np.column_stack([self.model_.encode_target(member.decode_target(f[:, 0])), f[:, 1:]])

    def _check_law(self):
        self._resolve_noise()

    def _resolve_noise(self):
        """The noise model, not fitted."""
        noise = resolve_noise(self.noise)
        if isinstance(noise, DofNoise | LooNoise):
            raise ValueError(
                f"noise={self.noise!r} is made of the leverages of a single fit, and {type(self).__name__} has none; "
                "use noise='train', 'heteroskedastic' or a number."
            )
        return noise

    def _with_law(self, fitted, X, y, weight, noise=None):
        """Add to what is fitted so far a noise model, fitted to residuals from the mean over members."""
        noise, trial = self._resolve_noise() if noise is None else noise, adopt(copy(self), fitted)
        model, t, X = fitted["model_"], fitted["model_"].encode_target(y), trial._prepared(X)
        residuals = Residuals(X, weight, model.loss.squared_residuals(trial._latent(X).f, t))
        return fitted | {"target_scale_": TargetScale.of(model, t), "noise_": noise.fit(residuals)}


class AveragedClassification(ClassificationMethods):
    """Predict methods of a classifier whose probabilities are averaged over its parameters."""

    def decision_function(self, X: MatrixLike) -> FloatArray:
        """Log odds of the averaged probabilities, so that they rank rows as :meth:`predict_proba` does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, K)
        """
        return self._log_odds(X)


class MemberClassification(MemberPredictions, AveragedClassification):
    """Predict methods of a classifier made of members."""

    def _with_law(self, fitted, X, y, weight):
        return fitted | {"classes_": fitted["model_"].classes}

    def _on_our_scale(self, f, member):
        if len(member.classes) == len(self.model_.classes):
            return f
        probabilities = np.full((len(f), len(self.model_.classes)), ABSENT)
        probabilities[:, np.searchsorted(self.model_.classes, member.classes)] = member.loss.probabilities(f)
        return np.log(np.maximum(probabilities, ABSENT)) @ self.model_.loss.basis


@dataclass(frozen=True, eq=False)
class Residuals:
    """Training rows as noise models see them, for predictions that are no single fit: every leverage is zero.

    A noise model asks of the training rows, whatever they are: ``n`` (number of observations), ``rows.X``,
    ``rows.weight`` and ``rows.groups`` (or None), ``moments.chi2`` (weighted sum of squared residuals),
    ``squared_residuals`` (n_rows,), ``leverages`` (n_rows,), ``mean_leverage``, and ``growth`` (n_rows,), the ratio of
    leave-one-out to fitted residuals.
    """

    X: np.ndarray
    weight: np.ndarray
    squared_residuals: np.ndarray

    mean_leverage = 0.0
    groups = None
    rows = property(lambda self: self)
    n = property(lambda self: float(self.weight.sum()))
    chi2 = property(lambda self: float(self.weight @ self.squared_residuals))
    leverages = property(lambda self: np.zeros(len(self.weight)))
    growth = property(lambda self: np.ones(len(self.weight)))


def centre(draws):
    """Mean over the last axis, exactly that of the first draw where all are the same."""
    first = draws[..., 0]
    return first + (draws - first[..., None]).mean(axis=-1)


def indexable(X):
    """X such that some of its rows can be taken; frames stay frames."""
    if sparse.issparse(X):
        return X.tocsr()
    return X if hasattr(X, "__dataframe__") else np.asarray(X)
