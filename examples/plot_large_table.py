"""
A table that is not in memory
=============================

*The table has more rows than the machine has memory: what then?* Rows stay in their files. A Dask collection reads them
partition by partition, and the same estimators accept it: everything that a Ribbon learns is a sum over rows.
"""

# %%
# A folder of parquet files, each a day of trips: their length, the hour, and how long they took. The files are small
# here, so that the whole table can be fitted in memory too, to compare.
import tempfile
from pathlib import Path

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skribbon import RibbonRegressor

FEATURES = ["kilometres", "hour"]


def day(number):
    rng = np.random.default_rng(number)
    n = 2_000
    kilometres, hour = rng.gamma(2.0, 2.0, size=n), rng.uniform(0, 24, size=n)
    jam = 1 + 0.5 * np.exp(-(((hour - 8) / 2) ** 2)) + 0.7 * np.exp(-(((hour - 17.5) / 2.5) ** 2))
    mood = rng.normal(0, 0.6)  # a day has one of its own
    minutes = 3 + 1.8 * kilometres * jam + mood + (0.5 + 0.35 * kilometres * jam) * rng.normal(size=n)
    return pd.DataFrame({"kilometres": kilometres, "hour": hour, "minutes": minutes, "day": number})


folder = Path(tempfile.mkdtemp())
for number in range(40):
    day(number).to_parquet(folder / f"{number:03}.parquet")
trips = dd.read_parquet(folder)
print(f"{trips.npartitions} partitions, {sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.1f} MB")


# %%
# The base model has waves of the hour, alone and times the length. A function of the columns has nothing to learn, so
# that it may stand in a pipeline on Dask as it is; a scaler would learn from one partition after the other.
def waves(X):
    X = np.asarray(X)
    angle = np.pi / 12 * X[:, 1:] * np.arange(1, 4)
    periodic = np.column_stack([np.sin(angle), np.cos(angle)])
    return np.column_stack([X[:, 0], periodic, periodic * X[:, :1]])


base = make_pipeline(FunctionTransformer(waves), Ridge())
lazy = RibbonRegressor(base, verbose=1).fit(trips[FEATURES], trips["minutes"], groups=trips["day"])

# %%
# Trips of a day depend on each other, so each day has one weight. The fit in memory is the same to rounding.
everything = trips.compute()
in_memory = RibbonRegressor(base).fit(everything[FEATURES], everything["minutes"], groups=everything["day"])
distance = np.abs(lazy.covariance_ - in_memory.covariance_).max() / np.abs(in_memory.covariance_).max()
print(f"largest distance of the covariances: {distance:.1e} of the largest variance")

# %%
# Predictions for the folder are lazy too, a table with the partitions and the index of the trips.
table = lazy.predict_frame(trips[FEATURES])
covered = ((table["lower"] <= trips["minutes"]) & (trips["minutes"] <= table["upper"])).mean().compute()
print(f"{table.npartitions} partitions of {list(table.columns)}; 90% intervals cover {covered:.3f}")

# %%
# What was learnt: how long five kilometres take around the clock, with the mean's band and that of a single trip.
clock = pd.DataFrame({"kilometres": 5.0, "hour": np.linspace(0, 24, 200)})
plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(7, 3.8))
near = everything[(everything["kilometres"] - 5).abs() < 0.15]
ax.plot(near["hour"], near["minutes"], ".", color="0.6", ms=2.5, label="trips of about 5 km")
for kind, opacity in (("prediction", 0.2), ("confidence", 0.6)):
    lower, upper = lazy.predict_interval(clock, kind=kind).T
    ax.fill_between(clock["hour"], lower, upper, color="C0", alpha=opacity, lw=0, label=f"90% {kind}")
ax.plot(clock["hour"], lazy.predict(clock), color="C0", lw=1)
ax.set(xlabel="hour of the day", ylabel="minutes of the trip", xlim=(0, 24), xticks=range(0, 25, 4))
ax.set_title("Five kilometres take longest at 8 and at 17:30")
ax.legend(loc="upper left", ncols=3, markerscale=3)
ax.set_ylim(0, 1.15 * ax.get_ylim()[1])
plt.show()
