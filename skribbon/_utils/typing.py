"""Types that many signatures share; ``typing.get_args`` lists the names that a parameter accepts."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

FloatArray: TypeAlias = NDArray[np.float64]
MatrixLike: TypeAlias = ArrayLike | sparse.spmatrix | sparse.sparray  # X: arrays, data frames, sparse matrices
PerRow: TypeAlias = ArrayLike | None  # a weight, label or target for each row, or None
Names: TypeAlias = Sequence[str] | None
RandomState: TypeAlias = int | np.random.RandomState | None
Levels: TypeAlias = float | Sequence[float] | FloatArray  # one probability, or several
Scorer: TypeAlias = Callable[..., float]  # (estimator, X, y, sample_weight=None)

Outputs: TypeAlias = Literal["uniform_average", "raw_values"] | ArrayLike  # how scores of outputs are averaged

Correction: TypeAlias = Literal["auto", "HC0", "HC1", "HC2", "HC3"]
CurvatureName: TypeAlias = Literal[
    "auto", "hessian", "ggn", "fisher", "kfac", "low_rank", "diag", "last_layer", "matrix_free"
]
NoiseName: TypeAlias = Literal["auto", "dof", "train", "loo", "heteroskedastic", "cv"]
LawName: TypeAlias = Literal["auto", "normal", "student", "empirical"]
HeldOutName: TypeAlias = Literal["auto", "loo", "early_stopping"]
WeightType: TypeAlias = Literal["frequency", "importance", "exposure"]
PredictiveName: TypeAlias = Literal["gaussian", "pushforward", "direct", "newton"]
IntervalKind: TypeAlias = Literal["prediction", "confidence"]
PromiseKind: TypeAlias = Literal["prediction", "confidence", "conformal", "jackknife+", "cv+"]
QuantileKind: TypeAlias = Literal["prediction", "confidence", "conformal"]
ScoreName: TypeAlias = Literal["distribution", "normalized", "absolute"]
ClassScoreName: TypeAlias = Literal["lac", "aps"]
