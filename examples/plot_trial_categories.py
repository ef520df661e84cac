"""
Trial: a table with categories
==============================

Five things to try with a new package, each on data of a kind that often goes wrong. The first: rents, with text
columns, rare categories and missing values, and noise that grows with the size of a flat.
"""

# %%
# A table as it comes out of a database.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skribbon import RibbonRegressor
from skribbon.metrics import coverage_by_group, interval_coverage_score
from skribbon.plotting import IntervalDisplay

rng = np.random.default_rng(0)
n = 3000
district = rng.choice(["centre", "north", "south", "harbour", "island"], n, p=[0.3, 0.3, 0.3, 0.09, 0.01])
flats = pd.DataFrame({"size": rng.uniform(20, 140, n), "year": rng.integers(1900, 2025, n) * 1.0, "district": district})
extra = flats["district"].map({"centre": 400, "north": 0, "south": 50, "harbour": 200, "island": 700}).astype(float)
rent = 100 + extra + 13 * flats["size"] + (20 + 1.5 * flats["size"]) * rng.normal(size=n)
flats.loc[rng.random(n) < 0.1, "year"] = np.nan

# %%
# The preparation goes inside: the Ribbon wraps the whole pipeline.
numbers = make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")
words = OneHotEncoder(drop="first", min_frequency=10), make_column_selector(dtype_exclude="number")
base = make_pipeline(make_column_transformer(numbers, words), Ridge())
train, test, y_train, y_test = train_test_split(flats, rent, random_state=0)
ribbon = RibbonRegressor(base).fit(train, y_train)
print(ribbon.predict_frame(test).head(3).round(0))

# %%
# Held out: the intervals cover nine in ten, in every district as far as so many rows can tell, and they are wider where
# the noise is.
interval = ribbon.predict_interval(test)
print(f"covered: {interval_coverage_score(y_test, interval):.3f}")
names, covered, rows = coverage_by_group(y_test, interval, test["district"])
print(pd.DataFrame({"covered": covered.round(3), "rows": rows.astype(int)}, index=names))
plt.style.use("skribbon.plotting.style")
IntervalDisplay.from_estimator(ribbon, test, y_test)
plt.show()
