"""
Which rows made this interval wide?
===================================

An interval is wide because of rows: those that could have been different and would have moved the prediction. They have
names, and it is worth knowing them before believing the interval, or the prediction.
"""

# %%
# Murders per 100,000 inhabitants in the fifty states of the USA and the District of Columbia, from statsmodels, against
# what the census knows of each of them.
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from skribbon import RibbonRegressor
from skribbon.inspection import influence, leave_out, variance_contributions
from skribbon.plotting import InfluenceDisplay

data = sm.datasets.statecrime.load_pandas().data
X, y = data[["hs_grad", "poverty", "single", "urban"]], data["murder"]
ribbon = RibbonRegressor(noise="dof").fit(X, y)
frame = ribbon.predict_frame(X)
print(frame.nlargest(4, "std_epistemic")[["prediction", "std_epistemic"]].assign(observed=y).round(1))

# %%
# The mean of the District of Columbia is known least, seven times worse than that of most states. No other row is so
# far from all others, on the right, and none is missed by so much by the fit to all others, at the top.
InfluenceDisplay.from_estimator(ribbon, X, y)

# %%
# Whose doing is the width? The epistemic variance of a prediction is a sum over the training rows, so that it can be
# taken apart. Columns are predictions, rows are training rows, and each column adds up to one.
asked = ["Ohio", "Mississippi", "Indiana"]
shares = variance_contributions(ribbon, X, y, X.loc[asked])
print(shares.sum().round(6).to_dict())

plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharex=True)
for ax, state in zip(axes, asked, strict=True):
    largest = shares[state].nlargest(6)[::-1]
    ax.barh(largest.index, largest, color="#0072B2")
    half = np.diff(ribbon.predict_interval(X.loc[[state]], kind="confidence")).item() / 2
    ax.set_title(f"{state}: {frame.loc[state, 'prediction']:.1f} ± {half:.1f}")
    ax.set_xlim(0, 0.9)
    ax.tick_params(axis="y", labelsize="small")
axes[1].set_xlabel("share in the variance of the mean")

# %%
# One row owns four fifths of the uncertainty about Ohio, and nothing of that about Indiana next to it. Ohio's interval
# does not say that Ohio is hard to predict; it says that the answer depends on whether the District of Columbia is a
# state like the others. That of Mississippi is wide by its own doing: no other state has as much poverty or as many
# single parents, and it has fewer murders than the fit expects.
#
# What if the District of Columbia is not? ``leave_out`` gives the predictions of the fit without it, here exactly those
# of a refit, since the model is one of least squares.
print(leave_out(ribbon, X, y, "District of Columbia", X.loc[asked]).round(2))
others = X.index != "District of Columbia"
refit = RibbonRegressor(noise="dof").fit(X[others], y[others]).predict_frame(X.loc[asked])
print(refit[["prediction", "std_epistemic"]].round(2))

# %%
# The other way around: whom does each row move most? A table of all rows and all predictions is rarely wanted; ``top``
# finds the largest without it, also among millions of rows.
print(influence(ribbon, X, y, X.loc[asked], top=2).round(2))
