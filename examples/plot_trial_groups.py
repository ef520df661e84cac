"""
Trial: grouped rows
===================

The second of five trials: pupils of the same school resemble each other. Is the effect of a programme that whole
schools take part in really known as well as a thousand rows suggest?
"""

# %%
# Thirty schools; half of them in the programme, which does nothing at all here.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

from skribbon import RibbonRegressor
from skribbon.exceptions import DependentRowsWarning
from skribbon.inspection import coefficients

PROGRAMMES = 60


def study(rng, n_schools=30, size=30):
    school = np.repeat(np.arange(n_schools), size)
    pupils = pd.DataFrame({"programme": school % 2, "age": rng.uniform(10, 12, len(school))})
    marks = 3 + 0.5 * pupils["age"] + rng.normal(0, 0.5, n_schools)[school] + rng.normal(size=len(school))
    return pupils, marks, school


def effect(table):
    return table.set_index("term").loc["programme", ["conf_low", "conf_high"]].astype(float)


warnings.simplefilter("ignore", DependentRowsWarning)  # fit without groups warns of what we are about to see
pupils, marks, school = study(np.random.default_rng(0))
for name, groups in (("rows", None), ("schools", school)):
    low, high = effect(coefficients(RibbonRegressor(Ridge()).fit(pupils, marks, groups=groups)))
    print(f"90% interval of the effect, {name:8} independent: {low:+.2f} to {high:+.2f}")

# %%
# Sixty such studies. Nine out of ten intervals should contain zero, the truth.
plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True)
for ax, grouped in zip(axes, (False, True), strict=True):
    ends = np.array(
        [
            effect(coefficients(RibbonRegressor(Ridge(), noise="dof").fit(X, y, groups=labels if grouped else None)))
            for X, y, labels in (study(np.random.default_rng(seed)) for seed in range(PROGRAMMES))
        ]
    )
    held = (ends[:, 0] <= 0) & (ends[:, 1] >= 0)
    ax.vlines(np.arange(PROGRAMMES), *ends.T, colors=np.where(held, "C0", "C1"), lw=2)
    ax.axhline(0, color="0.3", lw=0.8)
    ax.set(title=f"{'with' if grouped else 'without'} groups: {held.mean():.0%} contain the truth", xlabel="study")
axes[0].set_ylabel("effect of the programme")
plt.show()
