"""
Repeated measures
=================

Patients come again and again, and the visits of one patient resemble each other. Six visits of forty patients are then
not 240 observations. What happens to an interval that counts them as 240, and to one that knows who is who?
"""

# %%
# A simulated study: forty patients, of whom half get a treatment, come three to ten times. Each has a level of his own,
# which no column tells. The treatment belongs to the patient, the week to the visit.
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
    visits = pd.DataFrame({"treated": patient % 2, "week": rng.uniform(0, 12, len(patient))})
    level = rng.normal(0, 1, n_patients)[patient]
    return visits, 5 + visits @ pd.Series(TRUTH) + level + rng.normal(0, 1, len(patient)), patient


rng = np.random.default_rng(1)
visits, score, patient = simulate(40, rng)

# %%
# The same least squares twice. ``groups`` changes no coefficient: each patient gets one weight of the bootstrap, in
# place of one for each visit, so what his visits have in common counts once. Without ``groups``, ``fit`` warns, because
# residuals of neighbouring rows are correlated.
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    rows = RibbonRegressor(noise="dof").fit(visits, score)
print("\n".join(str(warning.message) for warning in heard))
groups = RibbonRegressor(noise="dof").fit(visits, score, groups=patient)
shown = ["term", "estimate", "std_error", "df", "conf_low", "conf_high"]
print(f"{len(visits)} visits of {groups.n_groups_} patients")
print("visits taken as independent", coefficients(rows)[shown].round(2), sep="\n")
print("visits of a patient together", coefficients(groups)[shown].round(2), sep="\n")

# %%
# The standard error of the treatment, and of the intercept, is about twice as large: it rests on the patients, of whom
# there are few. That of the week changes little: the weeks of one patient are scattered like all others.
#
# Who is right? Two hundred studies, of which we know the truth. Prediction intervals are asked about new visits of
# patients whom the fit has never seen.
warnings.simplefilter("ignore", DependentRowsWarning)
fits = {"visits independent": False, "groups=patient": True}
effects = {name: [] for name in fits}
held = {name: [] for name in fits}
for _ in range(200):
    visits_k, score_k, patient_k = simulate(40, rng)
    visits_new, score_new, _ = simulate(40, rng)
    for name, known in fits.items():
        ribbon = RibbonRegressor(noise="dof").fit(visits_k, score_k, groups=patient_k if known else None)
        table = coefficients(ribbon, confidence_level=0.9).set_index("term").loc[list(TRUTH)]
        effects[name].append(table[["conf_low", "conf_high"]].to_numpy())
        held[name].append(interval_coverage_score(score_new, ribbon.predict_interval(visits_new)))
effects = {name: np.array(ends) for name, ends in effects.items()}
inside = {
    name: (ends[..., 0] < list(TRUTH.values())) & (list(TRUTH.values()) < ends[..., 1])
    for name, ends in effects.items()
}
print("share of 90% intervals that hold   treated   week   a new patient's visit")
for name in fits:
    treated, week = inside[name].mean(axis=0)
    print(f"{name:33} {treated:9.2f} {week:6.2f} {np.mean(held[name]):23.2f}")

# %%
# With visits taken as independent the interval of the treatment misses the truth in more than one study of three, and
# nothing in the table says so. Prediction intervals are nearly the same: the level of a patient is part of the noise
# in both, for that of a new patient is not known either.
#
# Left: the study from above, a line for each patient, and the mean of both arms with its confidence band. Right: the
# interval of the treatment in forty of the studies, vermilion if the truth is outside.
plt.style.use("skribbon.plotting.style")
figure, (left, *right) = plt.subplots(1, 3, figsize=(10, 4.2), width_ratios=[1.5, 1, 1])
ordered = visits.assign(score=score, patient=patient).sort_values("week")
for (treated, _), one in ordered.groupby(["treated", "patient"]):
    left.plot(one["week"], one["score"], ".-", color=f"C{treated}", lw=0.6, ms=3, alpha=0.3)
for treated, arm in enumerate(("control", "treated")):
    line = pd.DataFrame({"treated": treated, "week": np.linspace(0, 12, 50)})
    left.plot(line["week"], groups.predict(line), f"C{treated}", lw=2, label=arm)
    ends = groups.predict_interval(line, kind="confidence").T
    left.fill_between(line["week"], *ends, color=f"C{treated}", alpha=0.3, lw=0)
left.set(xlabel="week", ylabel="score", title="Forty patients, one line each")
left.legend(loc="upper left", ncols=2)
for ax, name in zip(right, fits, strict=True):
    colours = np.where(inside[name][:40, 0], "0.5", "C1")
    ax.hlines(np.arange(40), *effects[name][:40, 0].T, colors=colours, lw=2)
    ax.axvline(TRUTH["treated"], color="k", lw=1, ls="--")
    missed = 1 - inside[name][:, 0].mean()
    ax.set(
        title=f"{name}:\n{missed:.0%} of 200 miss the truth",
        xlabel="effect of the treatment",
        yticks=[],
        xlim=(-2.6, 0.8),
    )
    ax.spines["left"].set_visible(False)

# %%
# Rows that follow each other in time depend on each other as well: :func:`skribbon.time_blocks` groups them, and
# :doc:`the guide </user_guide/groups>` has the rest. Next: rows with more than one target,
# :ref:`sphx_glr_auto_examples_plot_several_outputs.py`.
