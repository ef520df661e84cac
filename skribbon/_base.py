"""What the two Ribbon estimators share: fit the base model, build the ribbon, push it forward."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, column_or_1d, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ._compat import check_sample_weight, routing_enabled
from ._linalg import batch_gram
from ._linearisation import compare_with_refits
from ._moments import Moments, TrainingRows, row_blocks
from ._predictions import Predictions
from ._ribbon import Latent, Ribbon, direct, pushforward
from ._training import Training
from .curvature import machine_bytes, resolve_curvature
from .exceptions import NotStationaryWarning, UndeterminedDirectionWarning, warn_user
from .models import as_parametric

STATIONARITY_LIMIT = 0.25  # mean gradient, in standard errors of itself
CORRECTIONS = ("auto", "HC0", "HC1", "HC2", "HC3")
SEEN_LIMIT = 1e-3  # how far a row may reach into an undetermined direction, in units of a training row


class BaseRibbon(Predictions, MetaEstimatorMixin, BaseEstimator):
    """Shared machinery; see RibbonRegressor and RibbonClassifier."""

    # ------------------------------------------------------------------ fit
    def _fit(self, X, y, sample_weight):
        """Everything up to the ribbon. Returns what a noise model needs of the training rows."""
        self._check_parameters()
        self.estimator_, weight = self._fit_base(X, y, sample_weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        model = as_parametric(self.estimator_, y, weight)
        curvature = self.curvature_ = resolve_curvature(self.curvature, self.damping, model, len(y))
        model = self.model_ = curvature.view(model)
        rows = TrainingRows(model, model.prepare(X), model.encode_target(y), weight)
        closed_form = self.predictive == "gaussian" and curvature.holds_square(len(model.theta))
        moments = Moments.from_rows(rows, curvature, scatter=closed_form and self.correction in ("auto", "HC0", "HC1"))
        H_r = curvature.factor(rows, moments)
        self.stationarity_ = self._check_stationarity(moments, H_r, rows.y)
        self.effective_parameters_ = H_r.effective_parameters(model.l2 + curvature.numeric_damping())
        training = Training(rows, moments, H_r, self.effective_parameters_, curvature.knows_leverages)
        self.ribbon_ = self._build_ribbon(training, closed_form)
        self.n_observations_ = float(moments.n)
        return training

    def _check_kind(self, estimator):
        """A classifier belongs in RibbonClassifier and a regressor in RibbonRegressor."""
        if is_classifier(self) and is_regressor(estimator):
            raise TypeError(f"estimator={estimator!r} is a regressor; use RibbonRegressor.")
        if is_regressor(self) and is_classifier(estimator):
            raise TypeError(f"estimator={estimator!r} is a classifier; use RibbonClassifier.")

    def _check_parameters(self):
        if not isinstance(self.alpha, Real) or not np.isfinite(self.alpha) or self.alpha <= 0:
            raise ValueError(
                f"alpha must be a finite number > 0, got {self.alpha!r}. It is the Dirichlet concentration: "
                "1 is the Bayesian bootstrap, larger values give narrower intervals."
            )
        if not isinstance(self.correction, str) or self.correction not in CORRECTIONS:
            raise ValueError(f"correction must be 'auto', 'HC0', 'HC1', 'HC2' or 'HC3', got {self.correction!r}.")
        if not isinstance(self.predictive, str) or self.predictive not in ("gaussian", "pushforward", "direct"):
            raise ValueError(f"predictive must be 'gaussian', 'pushforward' or 'direct', got {self.predictive!r}.")
        if not isinstance(self.n_draws, Integral) or self.n_draws < 2:
            raise ValueError(f"n_draws must be an integer >= 2, got {self.n_draws!r}.")

    def _fit_base(self, X, y, sample_weight):
        """Fit a clone of the base model; return it with the weights that it really received, ones if none."""
        estimator = clone(self._get_estimator())
        self._check_kind(estimator)
        self._seed(estimator)
        fit_params, received = {}, None
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64)
            if (sample_weight < 0).any() or not (sample_weight > 0).any():
                raise ValueError("sample_weight must not be negative, and must contain at least one non-zero number.")
            fit_params, received = self._route_weight(estimator, sample_weight)
        elif routing_enabled():
            process_routing(self, "fit")
        estimator.fit(X, y, **fit_params)
        return estimator, (np.ones(len(y)) if received is None else received)

    def _route_weight(self, estimator, sample_weight):
        """Keyword arguments that carry the weights to the innermost model, and the weights it will see."""
        leaf, prefix = _innermost(estimator)
        if routing_enabled():
            params = process_routing(self, "fit", sample_weight=sample_weight).estimator.fit
            consumed = isinstance(leaf, FrozenEstimator) or leaf.get_metadata_routing().consumes(
                "fit", ["sample_weight"]
            )
            return params, sample_weight if consumed else None
        if not isinstance(leaf, FrozenEstimator) and not has_fit_parameter(leaf, "sample_weight"):
            raise ValueError(f"{type(leaf).__name__}.fit takes no sample_weight; fit without it.")
        return {f"{prefix}sample_weight": sample_weight}, sample_weight

    def _seed(self, estimator):
        """Give every random_state inside the base model that is still None a seed drawn from ours."""
        if self.random_state is None:
            return
        rng = check_random_state(self.random_state)
        params = estimator.get_params(deep=True)
        names = sorted(k for k, v in params.items() if k.split("__")[-1] == "random_state" and v is None)
        estimator.set_params(**{name: rng.randint(np.iinfo(np.int32).max) for name in names})

    def _check_stationarity(self, moments, H_r, y):
        """Norm of mean score plus penalty gradient in standard errors of the mean score, each coordinate in units of
        its own curvature, so that units of the features do not matter."""
        scale = 1 / np.sqrt(np.where(H_r.diagonal > 0, H_r.diagonal, np.inf))
        gradient = np.linalg.norm(scale * (moments.g_bar + self.model_.grad_penalty()))
        standard_error = np.linalg.norm(scale * moments.standard_error)
        rounding = 1e-12 * np.abs(y).max()
        stationarity = float(gradient / standard_error) if gradient > rounding and standard_error > 0 else 0.0
        if stationarity > STATIONARITY_LIMIT:
            warn_user(
                f"The training gradient is {stationarity:.2g} standard errors from zero, so the model is not at the "
                "minimum that Ribbon expands around. Train longer, tighten tol, or use a deterministic solver (lbfgs) "
                "without early stopping.",
                NotStationaryWarning,
            )
        return stationarity

    def _build_ribbon(self, training, closed_form):
        """The ribbon of scores whose small-sample shrinkage is undone as ``correction`` says."""
        rows, moments, n = training.rows, training.moments, training.n
        factor = training.score_factor(self.correction)
        if not closed_form:
            rng = check_random_state(self.random_state)
            blocks = rows.scores(moments.g_bar, np.broadcast_to(factor, rows.y.shape))
            drawn = Ribbon.from_draws(training.H_r, blocks, self.alpha, self.n_draws, rng)
            return drawn.gaussian() if self.predictive == "gaussian" else drawn
        H_Fc = factor * moments.H_Fc if np.ndim(factor) == 0 else rows.centred_scatter(moments.g_bar, factor) / n
        return Ribbon.closed_form(training.H_r, H_Fc, n, self.alpha)

    def _leave_one_out_latent(self, training):
        """The ribbon at the training rows, each moved to its prediction by the fit to all other rows."""
        rows = training.rows
        pieces = [self._latent(rows.X[block]) for block in row_blocks(len(rows.y), self.model_.row_width)]
        return Latent.concatenate(pieces).moved_to(training.leave_one_out())

    def check_linearisation(self, X, y, sample_weight=None, *, n_refits=5, random_state=None, verbose=0):
        """Compare the linear step with exact refits at the same Dirichlet weights.

        Each refit minimises the base model's own objective at drawn weights, starting from the fitted parameters, to a
        gradient of zero. Where it moves predictions much as the linear step does, the ribbon is what refitting would
        have given.

        Parameters
        ----------
        X, y, sample_weight
            What the estimator was fitted on.
        n_refits : int, default=5
        random_state : int, RandomState or None, default=None
        verbose : int, default=0
            Prints a line for every refit.

        Returns
        -------
        LinearisationReport
            Prints as a summary; ``to_frame()`` has a row per refit.
        """
        check_is_fitted(self)
        X_prepared, y = self._validated(X), self.model_.encode_target(column_or_1d(y))
        if not isinstance(n_refits, Integral) or n_refits < 1:
            raise ValueError(f"n_refits must be an integer >= 1, got {n_refits!r}.")
        weight = np.ones(len(y)) if sample_weight is None else check_sample_weight(sample_weight, X, dtype=np.float64)
        rows = TrainingRows(self.model_, X_prepared, y, weight)
        rng = check_random_state(random_state)
        return compare_with_refits(rows, self.curvature_, self.alpha, int(n_refits), rng, verbose)

    # ------------------------------------------------------------------ predict
    @property
    def _block_width(self):
        return self.model_.row_width + max(self.ribbon_.root.shape[1], self.n_draws)

    def _by_block(self, X, function):
        values = super()._by_block(X, function)
        self._warn_if_undetermined(X)
        return values

    def _warn_if_undetermined(self, X):
        null = self.ribbon_.null
        if not null.shape[1]:
            return
        X, seen = self.model_.prepare(X), 0
        for rows in row_blocks(X.shape[0], self.model_.row_width):
            reach = np.abs(self.model_.jvp(self.model_.rows(X[rows]), null)).max(axis=(1, 2))
            seen += int((reach > SEEN_LIMIT).sum())
        if seen:
            warn_user(
                f"{seen} of {X.shape[0]} rows move along directions that the training data do not determine (collinear "
                "or constant columns, too few rows, saturated units); their uncertainty is understated. Drop redundant "
                "columns or penalise the base model.",
                UndeterminedDirectionWarning,
            )

    def _latent(self, X):
        draws = None if self.predictive == "gaussian" else self._raw_draws(X, self.ribbon_.shifts)
        return Latent(self._raw(X), batch_gram(self._raw_root(X)), draws)

    def _raw(self, X):
        return self.model_.raw(self.model_.rows(X))

    def _raw_root(self, X):
        return self.model_.jvp(self.model_.rows(X), self.ribbon_.root)

    def _draw(self, n_draws, rng):
        return self.ribbon_.draw(n_draws, rng)

    def _raw_draws(self, X, drawn):
        """Raw predictions (n, k, B) at drawn parameters: exactly where predictive="direct", else along the tangent."""
        return (direct if self.predictive == "direct" else pushforward)(self.model_, self.model_.rows(X), drawn)

    @property
    def covariance_(self):
        """Covariance (p, p) of the parameters ``model_.theta``, coefficients first and the intercept last."""
        check_is_fitted(self)
        p = len(self.model_.theta)
        if 8 * p**2 > machine_bytes() / 2:
            raise MemoryError(f"{p} parameters have a covariance of {8e-9 * p**2:.3g} GB; use its root, ribbon_.root.")
        return self.ribbon_.covariance

    # ------------------------------------------------------------------ scikit-learn's manners
    def _get_estimator(self):
        """The base model, or the default with weights requested when routing is on."""
        if self.estimator is not None:
            return self.estimator
        return _requesting_weights(self._default_estimator())

    def get_metadata_routing(self):
        """Metadata routing of this estimator: ``sample_weight`` goes to the base model's ``fit``."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._get_estimator(), method_mapping=mapping)
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            base = get_tags(self._get_estimator())
        except (AttributeError, TypeError):  # not an estimator at all; fit will say so
            return tags
        tags.input_tags = base.input_tags
        tags.non_deterministic = base.non_deterministic
        tags.target_tags.positive_only = base.target_tags.positive_only
        tags.array_api_support = False
        return tags


def _requesting_weights(default):
    """A default estimator asks for the weights by itself when routing is on, as scikit-learn's defaults do."""
    return default.set_fit_request(sample_weight=True) if routing_enabled() else default


def _innermost(estimator):
    """The model at the core of pipelines and target transformers, and the prefix of its fit parameters."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        leaf, prefix = _innermost(last)
        return leaf, f"{name}__{prefix}"
    if isinstance(estimator, TransformedTargetRegressor):
        return _innermost(
            _requesting_weights(LinearRegression()) if estimator.regressor is None else estimator.regressor
        )
    return estimator, ""
