"""
These rows, or the population
=============================

How much would a treatment change the outcome on average? The question has two answers.
One is for the rows in the table. The other is for the population that they were sampled
from. Another sample has other rows, so its average effect would be different. The
estimate is the same for both questions, but the standard error is not.
"""

# %%
# The effect of a treatment depends on x: it is 1 + 2x. In the population x has mean 0,
# so the average effect is 1. We draw 100 tables of 200 rows, fit each, and compute both
# 90% intervals.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skribbon import RibbonRegressor
from skribbon.inspection import comparisons

rng = np.random.default_rng(3)
model = make_pipeline(
    PolynomialFeatures(2, interaction_only=True, include_bias=False), LinearRegression()
)
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
# With ``y``, ``population=True`` means that X are the training rows, so the errors of
# the fit and of the average are correlated. Without ``y``, X is a second sample, and
# both variances add up.
plt.style.use("skribbon.plotting.style")
fig, axes = plt.subplots(1, 2, figsize=(6, 5.4), sharex=True, sharey=True)
for ax, (question, found) in zip(axes, tables.items(), strict=True):
    found = pd.DataFrame(found).sort_values("estimate")
    covers = (found["conf_low"] <= 1) & (found["conf_high"] >= 1)
    colours = np.where(covers, "C0", "C1")
    ax.hlines(range(100), found["conf_low"], found["conf_high"], colours, lw=1.5)
    ax.axvline(1, color="black", lw=1)
    ax.set_title(f"For {question}:\n{covers.sum()} of 100 contain the effect")
    ax.set(xlabel="average effect of the treatment", yticks=[])
    ax.spines["left"].set_visible(False)
axes[0].set_ylabel("100 tables of 200 rows (orange: miss)")
plt.show()

# %%
# Which one is right depends on the question. Ask about the rows themselves if there are
# no others: the customers of one shop, the municipalities of a country, next year's
# policies. Ask about the population to generalize from a sample: a survey, a trial, an
# experiment on some of the users.
