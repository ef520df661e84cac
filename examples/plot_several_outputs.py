"""
Several outputs
===============

Total and LDL cholesterol rise and fall together. What is the probability that *both*
are too high, and which pairs of values are unusual? A model of both outputs answers
such questions.
"""

# %%
# Age, sex, body mass index and blood pressure of 442 patients predict their blood
# values. y has two columns, and nothing else changes. scikit-learn's least squares
# takes both columns, and so does the Ribbon around it.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse, Rectangle
from scipy.stats import chi2
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from skribbon import RibbonRegressor

table = load_diabetes(as_frame=True, scaled=False).data
X = table[["age", "sex", "bmi", "bp"]]
y = table[["s1", "s2"]].rename(columns={"s1": "total", "s2": "LDL"})
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
ribbon = RibbonRegressor(noise="dof").fit(X_train, y_train)
patient = X_test.iloc[[7]]
print(ribbon.predict_frame(patient).round(1).T)

# %%
# Each output has the interval of a separate model. A joint model adds their dependence.
# The residuals of both outputs are strongly correlated. The predictions are correlated
# too, because one Dirichlet weight moves the row of a patient for both outputs.
mean, covariance = ribbon.predict(patient, return_cov=True)
print("covariance of the two", covariance[0].round(0), sep="\n")
print("correlation of the noise", ribbon.noise_.correlation.round(2), sep="\n")

# %%
# Draws are joint, so any question about both outputs is a count. As if they were
# independent, the probability that both are too high would be far too small.
draws = ribbon.predict_samples(patient, n_samples=20_000, random_state=0)[:, 0]
high = draws > np.quantile(y_train, 0.8, axis=0)
print(f"both too high: {high.all(axis=1).mean():.3f}")
print(f"if they were independent: {high.mean(axis=0).prod():.3f}")

# %%
# Which pairs are unusual? ``joint_level`` returns the level of the smallest ellipse
# that contains a pair. An ellipse of any level should contain this share of new
# patients. The box of two 90% intervals contains another share, and its corners are
# almost empty.
levels = np.linspace(0.05, 0.95, 19)
distribution = ribbon.predict_distribution(X_test)
by_ellipse = [(distribution.joint_level(y_test) <= level).mean() for level in levels]
boxes = np.moveaxis(distribution.interval(levels), -1, 0)  # levels first
inside = (boxes[..., 0] <= y_test.to_numpy()) & (y_test.to_numpy() <= boxes[..., 1])
by_box, independent = inside.all(axis=2).mean(axis=1), levels**2
print(f"90% ellipses contain {by_ellipse[-2]:.2f} of the new patients, ", end="")
print(f"boxes {by_box[-2]:.2f}")

# %%
# Top: the patient from above, with the 50% and 90% ellipses, the box of both 90%
# intervals, and draws. Bottom: the share of new patients in ellipses and boxes of all
# levels.
plt.style.use("skribbon.plotting.style")
figure, (top, bottom) = plt.subplots(2, 1, figsize=(5.6, 8.6))
top.plot(*draws[:1500].T, ".", color="0.7", ms=3.5, mew=0, zorder=0, label="draws")
values, axes = np.linalg.eigh(covariance[0])
for level, style in ((0.5, "--"), (0.9, "-")):
    width, height = 2 * np.sqrt(values * chi2(2).ppf(level))
    angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
    line = {"fc": "none", "ec": "C0", "lw": 2, "ls": style}
    shape = Ellipse(mean[0], width, height, angle=angle, **line)
    top.add_patch(shape).set_label(f"{level:.0%} ellipse")
(low_t, high_t), (low_l, high_l) = ribbon.predict_interval(patient)[0]
sides, line = (high_t - low_t, high_l - low_l), {"fc": "none", "ec": "C1", "lw": 1.5}
box = Rectangle((low_t, low_l), *sides, **line)
top.add_patch(box).set_label("two 90% intervals")
top.plot(*mean[0], "C0o", label="prediction")
top.plot(*y_test.iloc[7], "k*", ms=11, label="observed")
top.set(xlabel="total cholesterol in mg/dl", ylabel="LDL cholesterol in mg/dl")
top.set_title("One patient: the box has empty corners")
top.legend(loc="upper left")
bottom.plot([0, 1], [0, 1], color="0.6", lw=1)
bottom.plot(levels, by_ellipse, "C0o-", ms=4, label="joint ellipses")
bottom.plot(levels, by_box, "C1s-", ms=4, label="boxes of two intervals")
bottom.plot(levels, independent, color="C1", ls=":", label="boxes, if independent")
bottom.set(xlabel="level", ylabel="share of new patients inside")
bottom.set_title(f"At 90%: ellipses {by_ellipse[-2]:.0%}, boxes {by_box[-2]:.0%}")
bottom.legend(loc="lower right")

# %%
# :doc:`The guide </user_guide/outputs>` lists the models that take several outputs, and
# explains their joint distribution and its scores. Next: averages and totals over rows,
# :ref:`sphx_glr_auto_examples_plot_comparisons.py`.
