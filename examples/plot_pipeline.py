"""
Pipelines and tables of mixed columns
=====================================

My data are a DataFrame with text columns and missing values: what now? A whole
:class:`~sklearn.pipeline.Pipeline` is a base model. Wrap it, and intervals come for raw rows.
"""

# %%
# Rents of simulated flats: numbers, one of them missing now and then, a district, and an identifier as the index.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skribbon import RibbonRegressor
from skribbon.metrics import interval_coverage_score
from skribbon.plotting import IntervalDisplay, UncertaintyDecompositionDisplay

rng = np.random.default_rng(0)
n = 900
flats = pd.DataFrame(
    {
        "area": rng.gamma(9, 8, n).round(),
        "year": rng.integers(1900, 2024, n).astype(float),
        "district": rng.choice(["centre", "north", "south", "island"], n, p=[0.4, 0.33, 0.25, 0.02]),
    },
    index=[f"flat-{i:03d}" for i in range(n)],
)
level = flats["district"].map({"centre": 0.4, "north": 0.0, "south": -0.1, "island": 0.7})
rent = np.exp(2.9 + 0.9 * np.log(flats["area"]) + 0.002 * (flats["year"] - 1960) + level + 0.2 * rng.standard_normal(n))
flats.loc[rng.random(n) < 0.1, "year"] = np.nan

# %%
# Transformers first, the model last. Rents are positive and their spread grows with them, so the logarithm is modelled;
# interval ends are mapped back.
columns = make_column_transformer(
    (FunctionTransformer(np.log, feature_names_out="one-to-one"), ["area"]),
    (make_pipeline(SimpleImputer(), StandardScaler()), ["year"]),
    (OneHotEncoder(handle_unknown="ignore"), ["district"]),
)
base = TransformedTargetRegressor(make_pipeline(columns, Ridge(alpha=0.1)), func=np.log, inverse_func=np.exp)
train, test = flats[:600], flats[600:]
ribbon = RibbonRegressor(base).fit(train, rent[:600])

# %%
# The table keeps the index, so it can be joined to the flats.
table = ribbon.predict_frame(test)
coverage = interval_coverage_score(rent[600:], table[["lower", "upper"]])
print(f"coverage of {len(test)} new flats: {coverage:.3f}")
shown = ["area", "district", "prediction", "lower", "upper"]
print(test.join(table.round(0)).groupby("district").head(1)[shown])

# %%
# There are few flats on the island, and the epistemic part says so.
by_district = (table["std_epistemic"] / table["prediction"]).groupby(test["district"]).mean()
counts = train["district"].value_counts()
print(pd.DataFrame({"training flats": counts, "epistemic std / prediction": by_district.round(3)}))

# %%
# Left: new flats and their intervals. Right: both parts of the uncertainty by district.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 2, figsize=(8.5, 4))
IntervalDisplay.from_estimator(ribbon, test, rent[600:], ax=axes[0])
UncertaintyDecompositionDisplay.from_estimator(ribbon, test, feature="district", ax=axes[1])

# %%
# Next: from such a table to decisions, in the notebook ``examples/regression.ipynb``; categories that were never seen,
# :ref:`sphx_glr_auto_examples_plot_out_of_distribution.py`.
