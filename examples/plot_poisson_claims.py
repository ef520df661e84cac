"""
Claims and exposure
===================

Insurers count claims of policies that ran for different times. The usual recipe with scikit-learn models claims per
year with the exposure as ``sample_weight``. An exposure is not a frequency: a half-year policy is one observation, not
half of one. Use ``weight_type="exposure"``, or an offset.
"""

# %%
# Simulated policies: age of the driver in decades from 40 and its square, whether the car is new; years of exposure.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import PoissonRegressor

from skribbon import AutogradRegressor, RibbonRegressor
from skribbon.exceptions import WeightWarning


def true_rate(X):
    return np.exp(-1 - 0.3 * X[:, 0] + 0.15 * X[:, 0] ** 2 + 0.4 * X[:, 2])


def simulate(n, rng):
    age, new = rng.uniform(-2, 3, n), rng.integers(0, 2, n)
    X, exposure = np.column_stack([age, age**2, new]), rng.uniform(0.05, 1, n)
    return X, exposure, rng.poisson(exposure * true_rate(X))


# %%
# The offset model: the logarithm of the expected *count* is that of the rate plus that of the exposure, which comes as
# the last column and has no coefficient. Its rows are policies, each counted once.
def log_count(params, X):
    intercept, slope, bend, new = params
    return intercept + slope * X[:, 0] + bend * X[:, 1] + new * X[:, 2] + X[:, 3]


def join(X, exposure):
    return np.column_stack([X, np.log(exposure)])


offset = AutogradRegressor(log_count, [0.0, 0.0, 0.0, 0.0], loss="poisson")
by_weight = PoissonRegressor(alpha=0, tol=1e-8, max_iter=1000)
rng = np.random.default_rng(0)
X, exposure, claims = simulate(1000, rng)
ribbon = RibbonRegressor(offset).fit(join(X, exposure), claims)
weighted = RibbonRegressor(by_weight, weight_type="exposure").fit(X, claims / exposure, sample_weight=exposure)
print("slopes with offset: ", np.round(ribbon.estimator_.params_[1:], 3))
print("slopes with weights:", weighted.estimator_.coef_.round(3))

# %%
# The fits agree. Intervals agree too, unless exposures are taken as frequencies: then a year in days counts as 365
# observations. In 100 repetitions, how often do 90% confidence intervals contain the true rate?
age = np.linspace(-2, 3, 30)
drivers = np.column_stack([age, age**2, np.zeros(30)])
weights = {"exposure": (1, "exposure"), "frequency, years": (1, "frequency"), "frequency, days": (365, "frequency")}
covered = {name: np.zeros(30) for name in (*weights, "offset")}
warnings.simplefilter("ignore", WeightWarning)  # which names the mistake


def count(name, interval):
    covered[name] += (interval[:, 0] <= true_rate(drivers)) & (true_rate(drivers) <= interval[:, 1])


for _ in range(100):
    X_sim, years, counts = simulate(1000, rng)
    for name, (scale, weight_type) in weights.items():
        fitted = RibbonRegressor(by_weight, weight_type=weight_type)
        fitted.fit(X_sim, counts / years, sample_weight=scale * years)
        count(name, fitted.predict_interval(drivers, kind="confidence"))
    fitted = RibbonRegressor(offset).fit(join(X_sim, years), counts)
    count("offset", fitted.predict_interval(join(drivers, np.ones(30)), kind="confidence"))
for name, counts in covered.items():
    print(f"{name:16} {counts.mean() / 100:.3f}")

# %%
# Left: the rate of one portfolio with the offset's confidence band. Right: coverage along age.
plt.rc("axes.spines", top=False, right=False)
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
years_old, one_year = 40 + 10 * age, join(drivers, np.ones(30))
band = ribbon.predict_interval(one_year, kind="confidence")
axes[0].fill_between(years_old, *band.T, color="C0", alpha=0.4, lw=0, label="90 % confidence band")
axes[0].plot(years_old, ribbon.predict(one_year), "C0", lw=2, label="fit with offset")
axes[0].plot(years_old, true_rate(drivers), "C1--", lw=1.5, label="truth")
axes[0].set(xlabel="age", ylabel="claims per year", ylim=(0, None))
for (name, counts), style in zip(covered.items(), ("C2-.", "C1--", "C3:", "C0-"), strict=True):
    axes[1].plot(years_old, counts / 100, style, lw=2, label=name)
axes[1].axhline(0.9, color="0.3", lw=0.8)
axes[1].set(xlabel="age", ylabel="coverage of the true rate", ylim=(0, 1.02))
for ax in axes:
    ax.legend(frameon=False)

# %%
# Next: what else can be written as a function, :ref:`sphx_glr_auto_examples_plot_own_model.py`.
