"""
Which rows made this interval wide?
===================================

A few training rows can make an interval wide: rows that differ from the others and
strongly move the prediction. Find them before you trust the interval, or the
prediction.
"""

# %%
# Murders per 100,000 inhabitants in the fifty states of the USA and the District of
# Columbia, from statsmodels, with four columns of the census.
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from skribbon import RibbonRegressor
from skribbon.inspection import influence, leave_out, variance_contributions
from skribbon.plotting import InfluenceDisplay

data = sm.datasets.statecrime.load_pandas().data
X, y = data[["hs_grad", "poverty", "single", "urban"]], data["murder"]
ribbon = RibbonRegressor(noise="dof").fit(X, y)
frame = ribbon.predict_frame(X).assign(observed=y)
columns = ["prediction", "std_epistemic", "observed"]
print(frame.nlargest(4, "std_epistemic")[columns].round(1))

# %%
# The mean of the District of Columbia is the least certain, with seven times the
# standard deviation of most states. Its leverage is the highest, so it is on the right.
# The fit to all other rows misses it by the most, so it is at the top.
InfluenceDisplay.from_estimator(ribbon, X, y)

# %%
# The epistemic variance of a prediction is a sum over training rows, so it can be split
# into their shares. Columns are predictions, rows are training rows, and each column
# adds up to one.
asked = ["Ohio", "Mississippi", "Indiana"]
shares = variance_contributions(ribbon, X, y, X.loc[asked])
print(shares.sum().round(6).to_dict())

plt.style.use("skribbon.plotting.style")
figure, axes = plt.subplots(3, 1, figsize=(5.6, 6.6), sharex=True)
for ax, state in zip(axes, asked, strict=True):
    largest = shares[state].nlargest(6)[::-1]
    ax.barh(largest.index, largest, color="#0072B2")
    interval = ribbon.predict_interval(X.loc[[state]], kind="confidence")
    half = np.diff(interval).item() / 2
    mean = frame.loc[state, "prediction"]
    ax.set_title(f"{state}: {mean:.1f} ± {half:.1f} murders per 100,000")
    ax.set_xlim(0, 0.9)
    ax.tick_params(axis="y", labelsize="small")
axes[2].set_xlabel("share in the variance of the mean")

# %%
# One row causes four fifths of the uncertainty about Ohio, and almost none of the
# uncertainty about Indiana next to it. So Ohio itself is not hard to predict. The
# question is whether the District of Columbia is a state like the others. The interval
# of Mississippi is wide because of Mississippi itself. No other state has as much
# poverty or as many single parents, and it has fewer murders than the fit expects.
#
# ``leave_out`` returns the predictions of a fit without the District of Columbia. For
# least squares they equal the predictions of a refit.
print(leave_out(ribbon, X, y, "District of Columbia", X.loc[asked]).round(2))
others = X.index != "District of Columbia"
refit = RibbonRegressor(noise="dof").fit(X[others], y[others])
print(refit.predict_frame(X.loc[asked])[["prediction", "std_epistemic"]].round(2))

# %%
# Conversely, which predictions does each row move most? ``top`` finds the largest
# influences without a table of all rows and predictions, so it also works for millions
# of rows.
print(influence(ribbon, X, y, X.loc[asked], top=2).round(2))
