"""
These rows, or the population
=============================

"How much would the treatment change the outcome on average?" has two answers. One is about the rows in the table. The
other is about the population they were sampled from: another sample would have had other rows, and an effect that
varies between rows would have had another average. The estimate is the same, the standard error is not.
"""

# %%
# A treatment whose effect depends on x: 1 + 2x. In the population x has mean 0, so the average effect is 1. We draw 100
# tables of 200 rows, fit each, and compute both 90% intervals.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skribbon import RibbonRegressor
from skribbon.inspection import comparisons

rng = np.random.default_rng(3)
model = make_pipeline(PolynomialFeatures(2, interaction_only=True, include_bias=False), LinearRegression())
questions = {"these rows as they are": False, "the population": True}
tables = {question: [] for question in questions}
for _ in range(100):
    X = pd.DataFrame({"x": rng.normal(size=200), "treated": rng.integers(0, 2, 200)})
    y = X["x"] + X["treated"] * (1 + 2 * X["x"]) + rng.normal(size=200)
    ribbon = RibbonRegressor(model, noise="dof").fit(X, y)
    for question, population in questions.items():
        options = {"population": True, "y": y} if population else {}
        tables[question].append(comparisons(ribbon, X, "treated", **options).iloc[0])

# %%
# ``population=True`` with ``y`` says that X are the training rows, so that the fit and the average vary together.
# Without ``y``, X is a second sample, and the two variances add.
fig, axes = plt.subplots(1, 2, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
for ax, (question, found) in zip(axes, tables.items(), strict=True):
    found = pd.DataFrame(found).sort_values("estimate")
    covers = (found["conf_low"] <= 1) & (found["conf_high"] >= 1)
    for row, (low, high, inside) in enumerate(zip(found["conf_low"], found["conf_high"], covers, strict=True)):
        ax.plot([low, high], [row, row], color="#0072B2" if inside else "#D55E00", lw=1.5)
    ax.axvline(1, color="black", lw=1)
    ax.set(title=f"Intervals for {question}\ncontain the population's effect in {covers.sum()} of 100 tables")
    ax.set_xlabel("average effect of the treatment")
    ax.set_yticks([])
    ax.spines[["left", "right", "top"]].set_visible(False)
axes[0].set_ylabel("100 tables of 200 rows")
plt.show()

# %%
# Which one is right depends on the question. Use the rows as they are if they are all there is: the customers of one
# shop, the municipalities of a country, next year's policies. Use the population if you want to generalize from a
# sample to everybody like them: a survey, a trial, an experiment on some of the users.
