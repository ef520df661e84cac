"""
A small network, and where it has seen nothing
==============================================

Does it work for a neural network? Ribbon linearizes the network at its minimum, so the network has to be at one.
:func:`skribbon.models.polish` takes it there, ``check_linearization`` compares with refits, and the band opens where
there are no data.
"""

# %%
# Two clouds of inputs with a gap between them, and a network with 20 hidden units.
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
# Adam stops where it likes, and skribbon warns: at such a point the linear step means nothing. ``stationarity_`` is the
# gradient that is left, in standard errors of itself.
network.fit(X, y)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", NotStationaryWarning)
    early = RibbonRegressor(FrozenEstimator(network)).fit(X, y)
print(f"stationarity {early.stationarity_:.3g}, warned: {[w.category.__name__ for w in caught]}")

# %%
# Polishing takes Newton steps to the minimum of the network's own objective.
polished = polish(network, X, y)
ribbon = RibbonRegressor(FrozenEstimator(polished)).fit(X, y)
print(f"stationarity {ribbon.stationarity_:.3g}")
print(f"training error {np.mean((y - network.predict(X)) ** 2):.4f} before, ", end="")
print(f"{np.mean((y - polished.predict(X)) ** 2):.4f} after")

# %%
# Is one linear step enough? At the training rows it moves predictions much as refits at the same drawn weights do. It
# moves the parameters much further than they, along directions of little consequence to these rows, so the comparison
# speaks for inputs like them. The error of predictions is just above 0.3, up to which ``verdict`` calls a step good. A
# Newton step at the drawn weights, ``predictive="newton"``, is no cure: these weights leave some directions of this
# network almost undetermined, and there the step goes too far.
compared = ribbon.check_linearization(X, y, n_refits=10, random_state=0)
report = compared.to_frame()
print(report[["prediction_error", "size_ratio", "correlation", "parameter_error"]].median().round(2).to_string())
print(f"verdict: {compared.verdict}; error of predictions by a Newton step: ", end="")
print(f"{report['newton_prediction_error'].median():.0f} times the move of a refit")

# %%
# Epistemic standard deviation within the clouds, in the gap and outside.
places = {"in the data": [-1.2, 1.3], "in the gap": [0.0, 0.1], "outside": [-3.0, 3.0]}
for name, where in places.items():
    print(f"{name:12} {ribbon.predict_std(np.array(where)[:, None], kind='epistemic').round(3)}")

# %%
# Confidence bands before and after polishing. Where nothing was observed the band opens, and the further away the more;
# yet it is the band of this one minimum, other functions fit the data as well, and beyond both clouds the truth leaves
# it. Out there, take a wide band for a warning and not for 90%.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8), sharey=True)
line = np.linspace(-3.5, 3.5, 400)
titles = "As Adam left it: the band is useless", "Polished: the band opens where data end"
for ax, model, title in zip(axes, (early, ribbon), titles, strict=True):
    band = model.predict_interval(line[:, None], kind="confidence")
    ax.fill_between(line, *band.T, color="C0", alpha=0.4, lw=0, label="90% confidence band")
    ax.plot(line, model.predict(line[:, None]), "C0", lw=2, label="network")
    ax.plot(line, np.sin(2 * line), "C1--", lw=1.5, label="truth")
    ax.plot(x, y, ".", color="0.3", ms=3, zorder=2)
    ax.set(xlabel="x", ylim=(-3.5, 3.5))
    ax.set_title(title)
axes[0].set_ylabel("y")
axes[1].legend(loc="upper right")

# %%
# Next: how coverage falls as inputs move away, :ref:`sphx_glr_auto_examples_plot_out_of_distribution.py`; a network
# that you write yourself, :ref:`sphx_glr_auto_examples_plot_own_model.py`.
