"""
Claims and exposure
===================

Insurers count claims of policies that ran for different times: how many claims does a driver cause per year, and how
many will a portfolio have? ``WithOffset`` adds the logarithm of the exposure to the linear predictor of a GLM, which
scikit-learn's count models lack.
"""

# %%
# Policies with the columns of freMTPL2, a French portfolio. They are simulated here; set the environment variable
# ``SKRIBBON_DATA`` to a folder with ``counts/freMTPL2freq_100k.csv.gz`` to use the real ones.
import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from skribbon import RibbonRegressor
from skribbon.exceptions import WeightWarning
from skribbon.inspection import coefficients, predictions
from skribbon.models import WithOffset


def policies(n=20_000, seed=0):
    file = Path(os.environ.get("SKRIBBON_DATA", "no folder")) / "counts" / "freMTPL2freq_100k.csv.gz"
    if file.exists():
        return pd.read_csv(file).assign(Exposure=lambda table: table["Exposure"].clip(upper=1))
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"DrivAge": 18 + rng.gamma(2.5, 10, n), "BonusMalus": 50 + rng.gamma(0.5, 20, n)})
    table["VehGas"], table["Area"] = rng.choice(["Diesel", "Regular"], n), rng.choice(list("ABCDE"), n)
    table["Exposure"] = np.where(rng.random(n) < 0.3, 1.0, rng.uniform(0.02, 1, n))
    rate = np.exp(-2.5 + 0.02 * (table["BonusMalus"] - 50) + 0.1 * (table["Area"] == "E") + 8 / table["DrivAge"])
    return table.assign(ClaimNb=rng.poisson(table["Exposure"] * rng.gamma(2, rate / 2)))


table = policies()
columns = ["DrivAge", "BonusMalus", "VehGas", "Area", "Exposure"]
train, test = table[columns][::2], table[columns][1::2]
claims, test_claims = table["ClaimNb"][::2], table["ClaimNb"][1::2]

# %%
# WithOffset is the last step. The transformers before it pass the exposure through, here as the last column.
others = [
    (SplineTransformer(4, degree=2, knots="quantile", include_bias=False), ["DrivAge"]),
    (StandardScaler(), ["BonusMalus"]),
    (OneHotEncoder(drop="first", sparse_output=False), ["VehGas", "Area"]),
]
prepare = make_column_transformer(*others, ("passthrough", ["Exposure"]), verbose_feature_names_out=False)
poisson = PoissonRegressor(alpha=0, solver="newton-cholesky")
model = make_pipeline(prepare, WithOffset(poisson, exposure=-1))
ribbon = RibbonRegressor(model).fit(train, claims)
ratios = coefficients(ribbon, exponentiate=True)  # rate ratios; the offset has no coefficient
print(ratios[["term", "estimate", "conf_low", "conf_high"]].iloc[-7:-1].round(3).to_string(index=False))

# %%
# Predictions are for the exposure of each row. For claims per year, set the exposure to one.
print(ribbon.predict(test[:4]).round(3), "claims in", test["Exposure"][:4].round(2).tolist(), "years")
print(ribbon.predict_interval(test[:4].assign(Exposure=1.0), kind="confidence").round(3), "claims per year")

# %%
# The usual recipe models claims per year with the exposure as ``sample_weight``. It has the same coefficients and the
# same standard errors, if ``weight_type="exposure"`` says that a policy is one observation, however long it ran. As
# frequencies, policies would count by their exposure, and standard errors depend on its unit. Ratios:
rates = make_pipeline(make_column_transformer(*others), poisson)
warnings.simplefilter("ignore", WeightWarning)  # which names the mistake
for weight_type, unit in (("exposure", 1), ("frequency", 1), ("frequency", 365)):
    weighted = RibbonRegressor(rates, weight_type=weight_type)
    weighted.fit(train, claims / train["Exposure"], sample_weight=unit * train["Exposure"])
    ratio = np.sqrt(np.diag(weighted.covariance_) / np.diag(ribbon.covariance_))
    print(f"{weight_type:9} in units of 1/{unit:<3} year: {ratio.min():.2f} to {ratio.max():.2f}")

# %%
# Left: claims per year by age. Right: claims of the policies that the model has not seen, as a share of their
# prediction, with 90% intervals of the observed totals.
plt.rc("axes.spines", top=False, right=False)
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
driver = pd.DataFrame(
    {"DrivAge": np.arange(20, 76), "BonusMalus": 50, "VehGas": "Diesel", "Area": "C", "Exposure": 1.0}
)
axes[0].fill_between(driver["DrivAge"], *ribbon.predict_interval(driver, kind="confidence").T, color="C0", alpha=0.4)
axes[0].plot(driver["DrivAge"], ribbon.predict(driver), "C0", lw=2)
axes[0].set(xlabel="age of the driver", ylabel="claims per year, with 90% band", ylim=(0, None))
totals = predictions(ribbon, test, by="Area", aggregate="sum", kind="prediction").set_index("term")
for end in ("conf_low", "conf_high"):
    axes[1].plot(totals.index, totals[end] / totals["estimate"], "C0_", ms=24, mew=2)
axes[1].plot(totals.index, test_claims.groupby(test["Area"]).sum() / totals["estimate"], "C1o")
axes[1].axhline(1, color="0.3", lw=0.8)
axes[1].set(xlabel="area", ylabel="observed claims, relative to the prediction")

# %%
# Next: what else can be written as a function, :ref:`sphx_glr_auto_examples_plot_own_model.py`.
