"""Importing the package imports little besides scikit-learn; other packages are imported on first use."""

import subprocess
import sys

import pytest

import skribbon
import skribbon.models

LATE = ("matplotlib", "autograd", "dask", "distributed", "jax", "numpyro", "sklearn.ensemble", "skorch", "torch")


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_optional_packages_are_imported_lazily():
    """Neither an import nor a fit with intervals imports them; scikit-learn may import pandas itself."""
    code = f"""
import sys
import sklearn.linear_model
with_sklearn = "pandas" in sys.modules
import skribbon
print([name for name in {LATE} if name in sys.modules] + ["pandas"] * ("pandas" in sys.modules and not with_sklearn))
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
X, y = np.arange(40.0).reshape(20, 2) ** 2, np.tile([0, 1, 1, 0], 5)
skribbon.RibbonRegressor(Ridge(), noise="dof").fit(X, y + X[:, 0]).predict_interval(X)
skribbon.RibbonClassifier(LogisticRegression(C=1e-6)).fit(X, y).predict_proba_interval(X)
print([name for name in {LATE} if name in sys.modules])
"""
    assert run(code).splitlines() == ["[]", "[]"]


def test_lazy_names_import_on_first_use():
    """Each name is used in a freshly imported package."""
    uses = [
        "skribbon.AutogradRegressor()",
        "skribbon.models.architectures.mlp",
        "skribbon.models.Architecture",
        "skribbon.inspection.coefficients",
        "skribbon.plotting.IntervalDisplay",
        "skribbon.baselines.BootstrapRegressor",
    ]
    code = f"""
import sys
for use in {uses}:
    for name in [name for name in sys.modules if name.split(".")[0] == "skribbon"]:
        del sys.modules[name]
    exec("import skribbon; " + use)
"""
    run(code)


def test_custom_model_works_without_importing_models():
    code = """
import numpy as np
from skribbon import AutogradRegressor, RibbonRegressor
X = np.linspace(0, 1, 30)[:, None]
model = AutogradRegressor(lambda w, X: X[:, 0] * w[0] + w[1], np.zeros(2))
print(RibbonRegressor(model, noise="dof").fit(X, X[:, 0] + np.sin(50 * X[:, 0])).predict_interval(X).shape)
"""
    assert run(code).split("\n")[0] == "(30, 2)"


@pytest.mark.parametrize("package", [skribbon, skribbon.models])
def test_dir_lists_public_names_and_unknown_names_raise(package):
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018
