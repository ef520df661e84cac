"""
Totals and what-ifs of a rate
=============================

A model of claims is fitted; now come the real questions. How many claims will a region have next year? What would
change if all cars were garaged? How does the rate vary with age? Each answer is a number computed from all rows
together, with an interval of its own, from the one fit.
"""

# %%
# Simulated policies, all of one year: the age of the driver, where the car is kept, and the region.
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
    policies = pd.DataFrame(
        {
            "age": rng.uniform(18, 80, n),
            "parking": rng.choice(["garage", "street"], n, p=[0.4, 0.6]),
            "region": rng.choice(["coast", "hills", "town"], n, p=[0.3, 0.3, 0.4]),
        }
    )
    log_rate = -1.5 + ((policies["age"] - 50) / 25) ** 2 / 2 + 0.35 * (policies["parking"] == "street")
    return policies, np.exp(log_rate + policies["region"].map({"coast": 0.0, "hills": 0.2, "town": 0.4})).to_numpy()


rng = np.random.default_rng(0)
policies, rate = simulate(3000, rng)
claims = rng.poisson(rate)

# %%
# The rate bends with age, so age goes through splines; categories become indicators.
columns = make_column_transformer(
    (SplineTransformer(n_knots=5), ["age"]), (OneHotEncoder(drop="first"), ["parking", "region"])
)
ribbon = RibbonRegressor(make_pipeline(columns, PoissonRegressor(alpha=1e-4, max_iter=1000))).fit(policies, claims)

# %%
# **Totals.** Next year's policies, by region. The first table is about the expected number of claims, the second about
# the claims themselves, which also have their own chance. The rows share one model and err together: summing variances
# of rows as if they were independent would leave that out.
upcoming, upcoming_rate = simulate(1000, rng)
shown = ["term", "estimate", "std_error", "conf_low", "conf_high"]
expected = predictions(ribbon, upcoming, by="region", aggregate="sum")
observed = predictions(ribbon, upcoming, by="region", aggregate="sum", kind="prediction")
print(expected[shown].round(1))
print(observed[shown].round(1))
independent = np.sqrt((ribbon.predict_std(upcoming, kind="epistemic") ** 2).sum())
together = predictions(ribbon, upcoming, aggregate="sum")["std_error"].item()
print(f"standard error of the whole expected total: {together:.1f}; of independent rows it would be {independent:.1f}")

# %%
# **What if** all cars were parked on the street, against all in a garage? As a difference in claims per policy, as a
# ratio of rates (the truth is exp(0.35), or 1.42), and by region.
print(comparisons(ribbon, policies, "parking")[["contrast", *shown[1:]]].round(3))
print(comparisons(ribbon, policies, "parking", transform="ratio")[["contrast", *shown[1:]]].round(2))
by_region = comparisons(ribbon, policies, "parking", by="region")
print(by_region[["group", "contrast", *shown[1:]]].round(3))

# %%
# **Slopes** have a sign that changes along the way: among the young the rate falls with every year, later it rises.
ages = pd.cut(policies["age"], [18, 30, 45, 60, 80])
print(slopes(ribbon, policies, "age", by=ages)[["group", *shown[1:]]].round(4))

# %%
# **Tests.** Does the region matter at all?
print(wald_test(ribbon, "region_hills = region_town = 0")[["statistic", "df_constraints", "p_value"]])

# %%
# Left: totals by region with both intervals and the claims observed. Right: the rate along age, averaged over all
# policies, with its confidence band and the truth.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
came = pd.Series(rng.poisson(upcoming_rate)).groupby(upcoming["region"]).sum()
place, blue = np.arange(len(came)), "#0072B2"
axes[0].hlines(place, observed["conf_low"], observed["conf_high"], color=blue, alpha=0.3, lw=16, label="claims")
axes[0].hlines(place, expected["conf_low"], expected["conf_high"], color=blue, lw=5, label="expected number")
axes[0].plot(came, place, "k|", ms=22, mew=2, label="observed")
axes[0].set(ylim=(-0.6, 3.4), xlabel="claims next year", title="Totals by region, with 90% intervals")
axes[0].set_yticks(place, came.index)
axes[0].legend(loc="upper left", fontsize="small", ncols=3, markerscale=0.5, handlelength=1.2)
PartialDependenceDisplay.from_estimator(ribbon, policies, "age", ax=axes[1])
ages = np.linspace(21, 77, 100)
others = rate / np.exp(((policies["age"] - 50) / 25) ** 2 / 2)
axes[1].plot(ages, np.exp(((ages - 50) / 25) ** 2 / 2) * others.mean(), "k--", lw=1, label="truth")
axes[1].legend(loc="upper center")
axes[1].set_title("The rate falls until 50 and rises again")
axes[1].set(xlabel="age in years", ylabel="claims per policy and year")

# %%
# Next: rates of policies that ran for different times, :ref:`sphx_glr_auto_examples_plot_poisson_claims.py`.
