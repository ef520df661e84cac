"""
Trial: a skewed target
======================

The third of five trials: amounts of money, a few of which are very large. Central normal intervals start below zero and
miss on one side only. What do the defaults do?
"""

# %%
# Noise that is lognormal, and a linear model with no transformation.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from skribbon import RibbonRegressor


def claims(n, rng):
    X = rng.uniform(0, 1, size=(n, 3))
    return X, 10 + X @ [5.0, 3.0, 0.0] + rng.lognormal(0, 1, n)


rng = np.random.default_rng(0)
X, y = claims(800, rng)
X_new, y_new = claims(20_000, rng)
ribbons = {
    "normal law": RibbonRegressor(LinearRegression(), noise="dof", law="normal").fit(X, y),
    "default": RibbonRegressor(LinearRegression()).fit(X, y),
}
print("law that the default has found:", type(ribbons["default"].law_).__name__)

# %%
# 5% of new observations should be below a 90% interval and 5% above it.
for name, ribbon in ribbons.items():
    lower, upper = ribbon.predict_interval(X_new).T
    print(f"{name:10} below {np.mean(y_new < lower):.3f}  above {np.mean(y_new > upper):.3f}", end="  ")
    print(f"mean width {np.mean(upper - lower):.2f}")

# %%
# The whole predictive distribution of one new row, next to observations at that row.
middle = np.full((1, 3), 0.5)
truth = 14 + rng.lognormal(0, 1, 20_000)
grid = np.linspace(10, 24, 400)
plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(7, 3.5))
ax.hist(truth, bins=140, range=(10, 24), density=True, color="0.8", label="observations at this row")
for name, ribbon in ribbons.items():
    law = ribbon.predict_distribution(np.repeat(middle, len(grid), axis=0))
    ax.plot(grid, np.exp(law.logpdf(grid)), label=name)
ax.set(xlabel="amount", ylabel="density", xlim=(10, 24), title="The default finds the skewed noise")
ax.legend()
plt.show()
