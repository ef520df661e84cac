"""
Tables with categories and missing values
=========================================

How do I get intervals for a DataFrame with text columns and missing values? Wrap the
whole :class:`~sklearn.pipeline.Pipeline`. Intervals then come for raw rows.
"""

# %%
# The data are rents of simulated flats. The year of construction is sometimes missing,
# and few flats are on the island.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skribbon import RibbonRegressor
from skribbon.metrics import coverage_by_group, interval_coverage_score
from skribbon.plotting import IntervalDisplay

rng = np.random.default_rng(0)
n = 1600
flats = pd.DataFrame(index=[f"flat-{i:03d}" for i in range(n)])
flats["area"] = rng.gamma(9, 8, n).round()
flats["year"] = rng.integers(1900, 2024, n).astype(float)
level = {"centre": 0.4, "north": 0.0, "south": -0.1, "island": 0.7}
flats["district"] = rng.choice(list(level), n, p=[0.4, 0.33, 0.25, 0.02])
log_rent = 2.9 + 0.9 * np.log(flats["area"]) + 0.002 * (flats["year"] - 1960)
log_rent += flats["district"].map(level) + 0.2 * rng.standard_normal(n)
rent = np.exp(log_rent)
flats.loc[rng.random(n) < 0.1, "year"] = np.nan

# %%
# Transformers come first and the model last. The model predicts the logarithm of the
# rent, because rents are positive and their spread grows with their mean. Interval
# bounds are mapped back to euros.
columns = make_column_transformer(
    (FunctionTransformer(np.log, feature_names_out="one-to-one"), ["area"]),
    (make_pipeline(SimpleImputer(), StandardScaler()), ["year"]),
    (OneHotEncoder(handle_unknown="ignore"), ["district"]),
)
model = make_pipeline(columns, Ridge(alpha=0.1))
base = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp)
train, test, rent_test = flats[:600], flats[600:], rent[600:]
ribbon = RibbonRegressor(base).fit(train, rent[:600])

# %%
# ``predict_frame`` keeps the index, so you can join the result to the flats.
table = ribbon.predict_frame(test)
joined = test.join(table[["prediction", "lower", "upper"]].round(0))
print(joined.groupby("district").head(1).drop(columns="year"))

# %%
# Check the coverage on new flats, overall and by district. The 17 flats on the island
# are too few to judge theirs.
interval = table[["lower", "upper"]]
share = interval_coverage_score(rent_test, interval)
print(f"90% intervals cover {share:.1%} of {len(test):,} new flats")
names, covered, rows = coverage_by_group(rent_test, interval, test["district"])
columns = {"covered": covered.round(2), "new flats": rows.astype(int)}
print(pd.DataFrame(columns, index=names))

# %%
# The intervals widen with the rent, as the spread does.
plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(5.6, 4.2))
IntervalDisplay.from_estimator(ribbon, test, rent_test, ax=ax)
ax.set_xlabel("predicted rent (euros per month)")
ax.set_ylabel("observed rent (euros per month)")
ax.set_title(f"Intervals widen with the rent and cover {share:.0%}")

# %%
# Few training flats are on the island, so its mean is the least certain: the epistemic
# part is the largest there.
share = (table["std_epistemic"] / table["prediction"]).groupby(test["district"]).mean()
share, counts = share.sort_values(), train["district"].value_counts()
figure, ax = plt.subplots(figsize=(5.6, 2.4))
bars = ax.barh([f"{name} ({counts[name]} flats)" for name in share.index], 100 * share)
ax.bar_label(bars, fmt="%.1f%%", padding=3)
ax.set_xlabel("epistemic standard deviation (% of the rent)")
ax.set_xlim(0, 115 * share.max())
ax.set_title("The mean rent is least certain on the island")
plt.show()

# %%
# Next: a real table from a CSV file to a decision, :doc:`/case_studies/claims`;
# categories that were never observed,
# :ref:`sphx_glr_auto_examples_plot_out_of_distribution.py`.
