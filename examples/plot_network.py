"""
A small network, and a gap in the data
======================================

Does it work for a neural network? Ribbon linearizes the network at its minimum, so it
must be trained to a minimum. :func:`skribbon.models.polish` takes it there.
``check_linearization`` compares the linear step with refits. The confidence band opens
where there are no data.
"""

# %%
# There are two clouds of inputs with a gap between them. The network has 20 hidden
# units.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor
from skribbon.exceptions import NotStationaryWarning
from skribbon.models import polish

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-2, -0.5, 100), rng.uniform(0.7, 2, 100)])
X, y = x[:, None], np.sin(2 * x) + 0.15 * rng.standard_normal(200)
network = MLPRegressor(
    hidden_layer_sizes=(20,),
    activation="tanh",
    alpha=0.1,
    learning_rate_init=0.01,
    max_iter=1000,
    n_iter_no_change=50,
    random_state=0,
)

# %%
# Adam stops before the minimum, and skribbon warns: at such a point the linear step
# means nothing. ``stationarity_`` is the size of the training gradient, in standard
# errors.
network.fit(X, y)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", NotStationaryWarning)
    early = RibbonRegressor(FrozenEstimator(network)).fit(X, y)
names = [warning.category.__name__ for warning in caught]
print(f"stationarity {early.stationarity_:.3g}, warned: {names}")

# %%
# ``polish`` takes Newton steps to the minimum of the network's own objective.
polished = polish(network, X, y)
ribbon = RibbonRegressor(FrozenEstimator(polished)).fit(X, y)
print(f"stationarity {ribbon.stationarity_:.3g}")
print(f"training error {np.mean((y - network.predict(X)) ** 2):.4f} before, ", end="")
print(f"{np.mean((y - polished.predict(X)) ** 2):.4f} after")

# %%
# Is one linear step enough? At the training rows it changes predictions much like
# refits with the same weights. The parameters move much further, but along directions
# that hardly matter for these rows. So the comparison is valid for similar inputs only.
# The error of predictions is just above 0.3, the limit of the verdict "linear". Newton
# steps, ``predictive="newton"``, are worse here. The weights leave some directions
# almost undetermined, and steps along them are too long.
compared = ribbon.check_linearization(X, y, n_refits=10, random_state=0)
report = compared.to_frame()
columns = ["prediction_error", "size_ratio", "correlation", "parameter_error"]
print(report[columns].median().round(2).to_string())
print(f"verdict: {compared.verdict}; error of predictions by a Newton step: ", end="")
print(f"{report['newton_prediction_error'].median():.0f} times the move of a refit")

# %%
# Epistemic standard deviations in the data, in the gap and outside.
places = {"in the data": [-1.2, 1.3], "in the gap": [0.0, 0.1], "outside": [-3.0, 3.0]}
for name, where in places.items():
    std = ribbon.predict_std(np.array(where)[:, None], kind="epistemic")
    print(f"{name:12} {std.round(3)}")

# %%
# Confidence bands before and after polishing. The band opens where nothing was
# observed, and widens with the distance from the data. It describes this one minimum,
# but other functions fit the data as well. Beyond both clouds the truth leaves the
# band. There, read a wide band as a warning, not as 90% coverage.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(2, 1, figsize=(5.6, 6.2), sharex=True, sharey=True)
line = np.linspace(-3.5, 3.5, 400)
titles = "After Adam: the band is useless", "Polished: the band opens where data end"
for ax, model, title in zip(axes, (early, ribbon), titles, strict=True):
    band = model.predict_interval(line[:, None], kind="confidence")
    label = "90% confidence band"
    ax.fill_between(line, *band.T, color="C0", alpha=0.4, lw=0, label=label)
    ax.plot(line, model.predict(line[:, None]), "C0", lw=2, label="network")
    ax.plot(line, np.sin(2 * line), "C1--", lw=1.5, label="truth")
    ax.plot(x, y, ".", color="0.3", ms=3, zorder=2)
    ax.set(ylabel="y", ylim=(-3.5, 3.5))
    ax.set_title(title)
axes[1].set_xlabel("x")
axes[1].legend(loc="upper right")

# %%
# Next: how coverage falls as inputs move away,
# :ref:`sphx_glr_auto_examples_plot_out_of_distribution.py`; a network that you write
# yourself, :ref:`sphx_glr_auto_examples_plot_own_model.py`.
