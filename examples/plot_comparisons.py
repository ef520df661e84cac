"""
Totals and what-ifs of a rate
=============================

A model of claims is fitted. How many claims will a region have next year? What would
change if all cars were parked in a garage? How does the rate vary with age? Each answer
is an average or a total over rows. It has its own interval, from the same fit.
"""

# %%
# Simulated policies of one year each, with the age of the driver, the place where the
# car is parked, and the region.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from skribbon import RibbonRegressor
from skribbon.inspection import comparisons, predictions, slopes, wald_test
from skribbon.plotting import PartialDependenceDisplay


def simulate(n, rng):
    policies = pd.DataFrame()
    policies["age"] = rng.uniform(18, 80, n)
    policies["parking"] = rng.choice(["garage", "street"], n, p=[0.4, 0.6])
    policies["region"] = rng.choice(["coast", "hills", "town"], n, p=[0.3, 0.3, 0.4])
    log_rate = ((policies["age"] - 50) / 25) ** 2 / 2 - 1.5
    log_rate += 0.35 * (policies["parking"] == "street")
    log_rate += policies["region"].map({"coast": 0.0, "hills": 0.2, "town": 0.4})
    return policies, np.exp(log_rate).to_numpy()


rng = np.random.default_rng(0)
policies, rate = simulate(3000, rng)
claims = rng.poisson(rate)

# %%
# The rate is not monotone in age, so age goes through splines. Categories become
# indicator columns.
columns = make_column_transformer(
    (SplineTransformer(n_knots=5), ["age"]),
    (OneHotEncoder(drop="first"), ["parking", "region"]),
)
model = make_pipeline(columns, PoissonRegressor(alpha=1e-4, max_iter=1000))
ribbon = RibbonRegressor(model).fit(policies, claims)

# %%
# **Totals** of next year's policies, by region. The first table is about the expected
# number of claims. The second is about the observed number, which also varies by
# chance. Rows share one model, so their errors are correlated. Adding variances of
# rows, as if they were independent, gives a standard error that is too small.
upcoming, upcoming_rate = simulate(1000, rng)
shown = ["term", "estimate", "std_error", "conf_low", "conf_high"]
total = {"by": "region", "aggregate": "sum"}
expected = predictions(ribbon, upcoming, **total)
observed = predictions(ribbon, upcoming, kind="prediction", **total)
print(expected[shown].round(1))
print(observed[shown].round(1))
independent = np.sqrt((ribbon.predict_std(upcoming, kind="epistemic") ** 2).sum())
together = predictions(ribbon, upcoming, aggregate="sum")["std_error"].item()
print(f"standard error of the expected total of all rows: {together:.1f}")
print(f"as if rows were independent, too small: {independent:.1f}")

# %%
# **What if** all cars were parked on the street, compared with all in a garage? The
# tables show the difference in claims per policy, the ratio of rates (the true ratio is
# exp(0.35) = 1.42), and the difference by region.
columns = ["contrast", *shown[1:]]
print(comparisons(ribbon, policies, "parking")[columns].round(3))
ratio = comparisons(ribbon, policies, "parking", transform="ratio")
print(ratio[columns].round(2))
by_region = comparisons(ribbon, policies, "parking", by="region")
print(by_region[["group", *columns]].round(3))

# %%
# **Slopes.** Among young drivers the rate falls with every year of age. Among old
# drivers it rises.
ages = pd.cut(policies["age"], [18, 30, 45, 60, 80])
print(slopes(ribbon, policies, "age", by=ages)[["group", *shown[1:]]].round(4))

# %%
# **Tests.** Does the rate depend on the region?
test = wald_test(ribbon, "region_hills = region_town = 0")
print(test[["statistic", "df_constraints", "p_value"]])

# %%
# Top: totals by region with both intervals, and the observed claims. Bottom: the rate
# against age, averaged over all policies, with its confidence band and the true rate.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(2, 1, figsize=(5.6, 6.8))
actual = pd.Series(rng.poisson(upcoming_rate)).groupby(upcoming["region"]).sum()
place = np.arange(len(actual))
for table, width, shade in ((observed, 16, 0.3), (expected, 5, 1.0)):
    bounds = table["conf_low"], table["conf_high"]
    axes[0].hlines(place, *bounds, color="#0072B2", alpha=shade, lw=width)
axes[0].plot(actual, place, "k|", ms=22, mew=2)
axes[0].set_yticks(place, actual.index)
text = "black: observed claims\ndark: 90% interval of the expected number"
axes[0].text(0.02, 0.97, f"{text}\npale: 90% interval of the claims", va="top")
axes[0].texts[0].set(transform=axes[0].transAxes, fontsize="small")
axes[0].set(xlabel="claims next year", ylim=(-0.6, 3.9))
axes[0].set_title("The intervals contain the observed totals")
PartialDependenceDisplay.from_estimator(ribbon, policies, "age", ax=axes[1])
ages = np.linspace(21, 77, 100)
others = rate / np.exp(((policies["age"] - 50) / 25) ** 2 / 2)
truth = np.exp(((ages - 50) / 25) ** 2 / 2) * others.mean()
axes[1].plot(ages, truth, "k--", lw=1, label="truth")
axes[1].legend(loc="upper center")
axes[1].set_title("The rate falls until 50 and rises again")
axes[1].set(xlabel="age in years", ylabel="claims per policy and year")

# %%
# Next: rates of policies with unequal exposure,
# :ref:`sphx_glr_auto_examples_plot_poisson_claims.py`.
