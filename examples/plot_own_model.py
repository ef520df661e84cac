"""
A model of your own
===================

What if the model is not in scikit-learn? :class:`~skribbon.AutogradRegressor` fits any
function of parameters and features that is written in ``autograd.numpy``. A Ribbon
wraps it like other models. The examples are a formula of chemistry with two parameters,
and a network that also predicts its own noise.
"""

# %%
# Enzyme kinetics: the rate of a reaction grows with the concentration x and saturates,
# v x / (k + x). Both parameters are positive, so the model has their logarithms as
# parameters. (:mod:`skribbon.models.architectures` contains this function.)
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
enzyme = RibbonRegressor(AutogradRegressor(michaelis_menten, start))
enzyme = enzyme.fit(concentration[:, None], rate)

# %%
# :func:`~skribbon.inspection.coefficients` shows parameters by name, here transformed
# back from their logarithms. Its standard errors are valid for any noise. The formula
# of ``curve_fit`` assumes the same noise in every row. Here both are right, and nearly
# agree.
table = coefficients(enzyme, exponentiate=True)
print(table[["term", "estimate", "std_error", "conf_low", "conf_high"]].round(4))
p0 = [rate.max(), 0.1]
fitted = curve_fit(lambda x, v, k: v * x / (k + x), concentration, rate, p0=p0)
errors = np.sqrt(np.diag(fitted[1]))
print("curve_fit:", fitted[0].round(4).tolist(), "standard errors", end=" ")
print(errors.round(4).tolist())


# %%
# Noise that grows with x: with ``loss="gaussian_nll"`` the function has two outputs,
# the mean and the log variance of y.
def true_noise(x):
    return 0.05 + 0.45 * x**2


x = np.sort(rng.uniform(0, 1, 400))
y = np.sin(2 * np.pi * x) + true_noise(x) * rng.standard_normal(400)
training = {"l2": 0.01, "max_iter": 5000, "random_state": 0}
network = AutogradRegressor(mlp((6,)), loss="gaussian_nll", **training)
growing = RibbonRegressor(make_pipeline(StandardScaler(), network)).fit(x[:, None], y)
places = np.array([0.1, 0.5, 0.9])
stds = growing.predict_std(places[:, None], kind="aleatoric")
for place, std in zip(places, stds, strict=True):
    print(f"x = {place}: predicted noise {std:.3f}, true noise {true_noise(place):.3f}")

# %%
# Dark: 90% confidence band of the mean. Pale: 90% prediction band of a new observation.
# Dashed: the true 5% and 95% quantiles.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(2, 1, figsize=(5.6, 6.8))
concentrations, grid = np.linspace(0, 1.15, 200), np.linspace(0, 1, 200)
reaction = 210 * concentrations / (0.065 + concentrations)
wave = np.sin(2 * np.pi * grid)
panels = [
    (enzyme, concentration, rate, concentrations, reaction, 9.0),
    (growing, x, y, grid, wave, true_noise(grid)),
]
for ax, (model, inputs, target, line, truth, sigma) in zip(axes, panels, strict=True):
    for kind, shade in (("prediction", 0.2), ("confidence", 0.5)):
        band, label = model.predict_interval(line[:, None], kind=kind), f"{kind} band"
        ax.fill_between(line, *band.T, color="C0", alpha=shade, lw=0, label=label)
    ax.plot(line, model.predict(line[:, None]), "C0", lw=2, label="fit")
    bounds = np.column_stack([truth - 1.645 * sigma, truth + 1.645 * sigma])
    ax.plot(line, bounds, "C1--", lw=1.5, label=["truth", None])
    ax.plot(inputs, target, ".", color="0.3", ms=3, zorder=2)
axes[0].set(xlabel="concentration", ylabel="rate of the reaction", ylim=(0, None))
axes[0].set_title("Two parameters: the bands follow the truth")
axes[1].set(xlabel="x", ylabel="y", title="The network learns the growing noise")
axes[0].legend(loc="lower right")

# %%
# Next: an offset, which scikit-learn's count models lack,
# :ref:`sphx_glr_auto_examples_plot_poisson_claims.py`.
