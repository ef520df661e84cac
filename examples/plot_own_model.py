"""
A model of your own
===================

What if the model is not in scikit-learn? Any function of parameters and features that is written in
``autograd.numpy`` can be fitted with :class:`~skribbon.AutogradRegressor` and wrapped like the others: a formula of
chemistry with two parameters, then a network that also predicts its own noise.
"""

# %%
# Enzyme kinetics: the rate of a reaction grows with the concentration x and saturates, v x / (k + x). Both parameters
# are positive, so the model knows their logarithms. (:mod:`skribbon.models.architectures` has this one ready-made.)
import autograd.numpy as anp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import curve_fit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skribbon import AutogradRegressor, RibbonRegressor
from skribbon.inspection import coefficients
from skribbon.models.architectures import mlp

rng = np.random.default_rng(2)
concentration = np.repeat([0.02, 0.04, 0.06, 0.11, 0.16, 0.22, 0.33, 0.56, 0.8, 1.1], 6)
rate = 210 * concentration / (0.065 + concentration) + 9 * rng.standard_normal(60)


def michaelis_menten(params, X):
    return anp.exp(params["log_v"]) * X[:, 0] / (anp.exp(params["log_k"]) + X[:, 0])


start = {"log_v": np.log(rate.max()), "log_k": np.log(np.median(concentration))}
enzyme = RibbonRegressor(AutogradRegressor(michaelis_menten, start)).fit(concentration[:, None], rate)

# %%
# :func:`~skribbon.inspection.coefficients` shows parameters by name, here back from their logarithms. Standard errors
# hold for any noise; curve_fit's formula assumes the same noise in every row. Here both are right, and nearly agree.
table = coefficients(enzyme, exponentiate=True)
print(table[["term", "estimate", "std_error", "conf_low", "conf_high"]].round(4))
theirs, covariance = curve_fit(lambda x, v, k: v * x / (k + x), concentration, rate, p0=[rate.max(), 0.1])
print("curve_fit:", theirs.round(4), "standard errors", np.sqrt(np.diag(covariance)).round(4))


# %%
# Noise that grows: with loss="gaussian_nll" the function has two outputs, the mean and the log variance of y, and
# intervals are as wide as the data are there.
def true_noise(x):
    return 0.05 + 0.45 * x**2


x = np.sort(rng.uniform(0, 1, 400))
y = np.sin(2 * np.pi * x) + true_noise(x) * rng.standard_normal(400)
network = AutogradRegressor(mlp((6,)), loss="gaussian_nll", l2=0.01, max_iter=5000, random_state=0)
growing = RibbonRegressor(make_pipeline(StandardScaler(), network)).fit(x[:, None], y)
places = np.array([0.1, 0.5, 0.9])
for place, std in zip(places, growing.predict_std(places[:, None], kind="aleatoric"), strict=True):
    print(f"x = {place}: predicted noise {std:.3f}, true noise {true_noise(place):.3f}")

# %%
# Dark: where the mean lies; pale: where a new observation lies, both with 90% confidence. Dashed: where 90% of the
# observations lie in truth.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8))
concentrations, grid = np.linspace(0, 1.15, 200), np.linspace(0, 1, 200)
panels = [
    (enzyme, concentration, rate, concentrations, 210 * concentrations / (0.065 + concentrations), 9.0),
    (growing, x, y, grid, np.sin(2 * np.pi * grid), true_noise(grid)),
]
for ax, (model, inputs, target, line, truth, sigma) in zip(axes, panels, strict=True):
    for kind, shade in (("prediction", 0.2), ("confidence", 0.5)):
        band = model.predict_interval(line[:, None], kind=kind)
        ax.fill_between(line, *band.T, color="C0", alpha=shade, lw=0, label=f"{kind} interval")
    ax.plot(line, model.predict(line[:, None]), "C0", lw=2, label="fit")
    bounds = np.column_stack([truth - 1.645 * sigma, truth + 1.645 * sigma])
    ax.plot(line, bounds, "C1--", lw=1.5, label=["truth", None])
    ax.plot(inputs, target, ".", color="0.3", ms=3, zorder=2)
axes[0].set(xlabel="concentration", ylabel="rate of the reaction", ylim=(0, None))
axes[0].set_title("A formula of two parameters: bands follow the truth")
axes[1].set(xlabel="x", ylabel="y", title="A network that predicts its own, growing noise")
axes[0].legend(loc="lower right")

# %%
# Next: an offset, which scikit-learn's count models lack, :ref:`sphx_glr_auto_examples_plot_poisson_claims.py`.
