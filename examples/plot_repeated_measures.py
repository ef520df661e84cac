"""
Repeated measures
=================

Do rows of the same patient, school or customer count as independent? They do not. Pass
``groups`` to ``fit``, and standard errors become cluster-robust. Without it, intervals
are too narrow.
"""

# %%
# A simulated study: forty patients come three to ten times each, and half of them get a
# treatment. Each patient has a level that no column contains. The treatment varies
# between patients, the week varies between visits.
import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skribbon import RibbonRegressor
from skribbon.exceptions import DependentRowsWarning
from skribbon.inspection import coefficients
from skribbon.metrics import interval_coverage_score

TRUTH = {"treated": -1.0, "week": 0.15}


def simulate(n_patients, rng):
    patient = np.repeat(np.arange(n_patients), rng.integers(3, 11, n_patients))
    week = rng.uniform(0, 12, len(patient))
    visits = pd.DataFrame({"treated": patient % 2, "week": week})
    level = rng.normal(0, 1, n_patients)[patient]
    score = 5 + visits @ pd.Series(TRUTH) + level + rng.normal(0, 1, len(patient))
    return visits, score, patient


rng = np.random.default_rng(1)
visits, score, patient = simulate(40, rng)

# %%
# Fit least squares without and with ``groups``. The coefficients are equal, the
# standard errors are not. Without ``groups``, ``fit`` warns that residuals of
# neighbouring rows are correlated.
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    rows = RibbonRegressor(noise="dof").fit(visits, score)
print(textwrap.fill(str(heard[0].message), 88))
groups = RibbonRegressor(noise="dof").fit(visits, score, groups=patient)
shown = ["term", "estimate", "std_error", "df", "conf_low", "conf_high"]
print(f"{len(visits)} visits of {groups.n_groups_} patients")
print("without groups", coefficients(rows)[shown].round(2), sep="\n")
print("with groups=patient", coefficients(groups)[shown].round(2), sep="\n")

# %%
# With groups, the standard error of the treatment is about twice as large, because only
# forty patients inform it. The standard error of the week changes little, because weeks
# vary within each patient.
#
# Which one is right? We simulate 200 studies with a known effect. Prediction intervals
# are checked on new patients.
warnings.simplefilter("ignore", DependentRowsWarning)
fits = {"without groups": False, "with groups": True}
effects = {name: [] for name in fits}
covered = {name: [] for name in fits}
for _ in range(200):
    visits_k, score_k, patient_k = simulate(40, rng)
    visits_new, score_new, _ = simulate(40, rng)
    for name, known in fits.items():
        labels = patient_k if known else None
        ribbon = RibbonRegressor(noise="dof").fit(visits_k, score_k, groups=labels)
        table = coefficients(ribbon).set_index("term").loc[list(TRUTH)]
        effects[name].append(table[["conf_low", "conf_high"]].to_numpy())
        interval = ribbon.predict_interval(visits_new)
        covered[name].append(interval_coverage_score(score_new, interval))
effects, truth = {k: np.array(v) for k, v in effects.items()}, list(TRUTH.values())
inside = {k: (v[..., 0] < truth) & (truth < v[..., 1]) for k, v in effects.items()}
print("90% intervals contain   treated   week   a new visit")
for name in fits:
    treated, week = inside[name].mean(axis=0)
    print(f"{name:21} {treated:9.0%} {week:6.0%} {np.mean(covered[name]):13.0%}")

# %%
# Without groups, the interval of the treatment misses the true effect in more than one
# study of three. Prediction intervals hardly differ, because the level of a new patient
# is part of the noise in both fits.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 2, figsize=(5.6, 4), sharey=True)
for ax, name in zip(axes, fits, strict=True):
    colours = np.where(inside[name][:60, 0], "C0", "C1")
    ax.hlines(np.arange(60), *effects[name][:60, 0].T, colors=colours, lw=2)
    ax.axvline(TRUTH["treated"], color="k", lw=1)
    ax.set(xlabel="effect on the score", yticks=[], xlim=(-2.6, 0.8))
    ax.set_title(f"{name}:\n{1 - inside[name][:, 0].mean():.0%} miss the true effect")
    ax.spines["left"].set_visible(False)
axes[0].set_ylabel("90% intervals of 60 studies (orange: miss)")

# %%
# One study: each thin line is a patient, each thick line the mean of an arm with its
# 90% confidence band.
figure, ax = plt.subplots(figsize=(5.6, 3.8))
ordered = visits.assign(score=score, patient=patient).sort_values("week")
for (treated, _), one in ordered.groupby(["treated", "patient"]):
    thin = {"color": f"C{treated}", "lw": 0.6, "ms": 3, "alpha": 0.3}
    ax.plot(one["week"], one["score"], ".-", **thin)
for treated, arm in enumerate(("control", "treated")):
    line = pd.DataFrame({"treated": treated, "week": np.linspace(0, 12, 50)})
    ax.plot(line["week"], groups.predict(line), f"C{treated}", lw=2)
    bounds = groups.predict_interval(line, kind="confidence").T
    ax.fill_between(line["week"], *bounds, color=f"C{treated}", alpha=0.3, lw=0)
    ax.text(12.2, groups.predict(line)[-1], arm, color=f"C{treated}", va="center")
ax.set(xlabel="week", xlim=(0, 14), xticks=range(0, 13, 3), ylabel="score")
ax.set_title("Visits of a patient resemble each other")
plt.show()

# %%
# Rows that follow each other in time are dependent too: :func:`skribbon.time_blocks`
# groups them, and :doc:`the guide </user_guide/groups>` explains how. Next: rows with
# more than one target, :ref:`sphx_glr_auto_examples_plot_several_outputs.py`.
