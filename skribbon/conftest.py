"""Names that every docstring example may use without importing them."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skribbon

collect_ignore = [] if find_spec("torch") else ["models/torch"]  # its docstrings are run by `make torch`
DATA = (load_breast_cancer, load_diabetes, load_iris, load_linnerud)
BASE_MODELS = (LinearRegression, LogisticRegression, MLPRegressor, Ridge, StandardScaler, make_pipeline)
ESTIMATORS = (skribbon.RibbonClassifier, skribbon.RibbonCV, skribbon.RibbonRegressor)


@pytest.fixture(autouse=True)
def _shared_names(doctest_namespace):
    """Add NumPy, scikit-learn's data and base models, and the three estimators to a docstring's names."""
    doctest_namespace["np"] = np
    doctest_namespace.update({item.__name__: item for item in DATA + BASE_MODELS + ESTIMATORS})
