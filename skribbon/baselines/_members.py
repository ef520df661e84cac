"""What methods that hold several models share: predictions that are those of the members, and noise around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer

from .._classification import ClassificationPredictions
from .._compat import safe_indexing
from .._linalg import batch_gram
from .._moments import row_blocks
from .._predictions import Predictions
from .._regression import RegressionPredictions, decreases
from .._ribbon import Latent
from .._typing import FloatArray, MatrixLike
from ..models.base import response
from ..noise import DofNoise, LooNoise, resolve_noise

ABSENT = 1e-12  # probability of a class that a member has not seen


class MemberPredictions(Predictions):
    """The raw prediction is that of one of ``members_``, a list of ParametricModel, each as likely as the others.

    ``model_`` gives the scale of the target and the classes; a member may have been fitted on a scale, and on classes,
    of its own.
    """

    @property
    def _block_width(self):
        return self.model_.row_width + len(self.members_)

    def _by_block(self, X, function):
        X = self._validated(X)
        blocks = [function(safe_indexing(X, rows)) for rows in row_blocks(X.shape[0], self._block_width)]
        return (Latent.concatenate if isinstance(blocks[0], Latent) else np.concatenate)(blocks)

    def _validated(self, X):
        super()._validated(X)
        return indexable(X)  # every member prepares X in its own way

    def _latent(self, X):
        draws = self._raw_draws(X, self.members_)
        f = centre(draws)
        return Latent(f, batch_gram(draws - f[:, :, None]) / draws.shape[2], draws)

    def _raw(self, X):
        return centre(self._raw_draws(X, self.members_))

    def _raw_root(self, X):
        draws = self._raw_draws(X, self.members_)
        return (draws - centre(draws)[:, :, None]) / np.sqrt(draws.shape[2])

    def _draw(self, n_draws, rng):
        B = len(self.members_)
        return [self.members_[b] for b in rng.choice(B, size=n_draws, replace=n_draws > B)]

    def _raw_draws(self, X, drawn):
        """Raw predictions (n, k, B) of the members ``drawn``."""
        Z, preprocess, raws = None, None, {}
        for member in {id(member): member for member in drawn}.values():
            if Z is None or member.preprocess is not preprocess:  # members often share it
                Z, preprocess = member.rows(member.prepare(X)), member.preprocess
            f = member.at(member.theta).raw(Z)  # of a copy: a network holds on to its last activations
            raws[id(member)] = self._on_our_scale(f, member)
        return np.stack([raws[id(member)] for member in drawn], axis=2)


class MemberRegression(MemberPredictions, RegressionPredictions):
    """Predict methods of a regressor made of members; needs ``noise``."""

    def _predict_mean(self, X):
        def mean(X):
            f = self._raw_draws(X, self.members_)[:, 0]  # (block, B)
            return centre(self.model_.decode_target(self._mean(f)))

        return self._by_block(X, mean)

    def _on_our_scale(self, f, member):
        learnt = not isinstance(member.target_transformer, FunctionTransformer | None)
        if not learnt or getattr(member.loss, "link", "identity") != "identity":
            return f
        return np.column_stack([self.model_.encode_target(member.decode_target(f[:, 0])), f[:, 1:]])

    def _resolve_noise(self):
        """The noise model, not fitted; a wrong one is refused before any training is done."""
        noise = resolve_noise(self.noise)
        if isinstance(noise, DofNoise | LooNoise):
            raise ValueError(
                f"noise={self.noise!r} is made of the leverages of a single fit, and {type(self).__name__} has none; "
                "use noise='train', 'heteroskedastic' or a number."
            )
        return noise

    def _fit_noise(self, noise, X, y, weight):
        """Fit the noise model on residuals from the mean over members."""
        t = self.model_.encode_target(y)
        self._decreasing_target = decreases(self.model_, t)
        f = self._by_block(X, self._raw)
        mean, unit_variance = response(self.model_.loss, f[:, 0])
        squared = (t - mean) ** 2 / (unit_variance * self.model_.loss.noise_scale(f))
        self.noise_ = noise.fit(Residuals(indexable(X), weight, squared))


class MemberClassification(MemberPredictions, ClassificationPredictions):
    """Predict methods of a classifier made of members."""

    def decision_function(self, X: MatrixLike) -> FloatArray:
        """Log odds of the averaged probabilities, so that they rank rows as :meth:`predict_proba` does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, K)
        """
        return log_odds(self.predict_proba(X))

    def _on_our_scale(self, f, member):
        if len(member.classes) == len(self.model_.classes):
            return f
        probabilities = np.full((len(f), len(self.model_.classes)), ABSENT)
        probabilities[:, np.searchsorted(self.model_.classes, member.classes)] = member.loss.probabilities(f)
        return np.log(np.maximum(probabilities, ABSENT)) @ self.model_.loss.basis


@dataclass(frozen=True, eq=False)
class Residuals:
    """What a Noise model may ask of its training rows, where no row has a leverage: its own rows and moments."""

    X: np.ndarray
    weight: np.ndarray
    squared_residuals: np.ndarray

    @property
    def rows(self):
        """X and weight."""
        return self

    @property
    def moments(self):
        """n and chi2."""
        return self

    @property
    def n(self):
        """Number of observations."""
        return float(self.weight.sum())

    @property
    def chi2(self):
        """Sum of squared residuals."""
        return float(self.weight @ self.squared_residuals)

    @property
    def leverages(self):
        """Zeros."""
        return np.zeros(len(self.weight))


def centre(draws):
    """Mean over the last axis, exactly that of the first draw where all are the same."""
    first = draws[..., 0]
    return first + (draws - first[..., None]).mean(axis=-1)


def log_odds(probabilities):
    """Log odds (n,) of the second of two classes, or centred logarithms (n, K)."""
    scores = np.log(np.maximum(probabilities, np.finfo(float).tiny))
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores - scores.mean(axis=1, keepdims=True)


def indexable(X):
    """X such that some of its rows can be taken; frames stay frames."""
    if sparse.issparse(X):
        return X.tocsr()
    return X if hasattr(X, "__dataframe__") else np.asarray(X)
