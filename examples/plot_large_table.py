"""
A folder of parquet files
=========================

What if the table has more rows than fit in memory? Pass a Dask collection. The
estimators read it partition by partition, because everything that a Ribbon learns is a
sum over rows.
"""

# %%
# Each parquet file has the trips of one day: length, hour and duration. There are 40
# small files here, so that we can compare with a fit in memory. For ten million trips
# set ``SKRIBBON_DAYS=5000``.
import os
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
DAYS = int(os.environ.get("SKRIBBON_DAYS", "40"))


def day(number):
    rng = np.random.default_rng(number)
    n = 2_000
    kilometres, hour = rng.gamma(2.0, 2.0, size=n), rng.uniform(0, 24, size=n)
    morning, evening = np.exp(-(((hour - [[8], [17.5]]) / [[2], [2.5]]) ** 2))
    way = kilometres * (1 + 0.5 * morning + 0.7 * evening)
    shift = rng.normal(0, 0.6)  # trips of one day are faster or slower together
    minutes = 3 + 1.8 * way + shift + (0.5 + 0.35 * way) * rng.normal(size=n)
    table = {"kilometres": kilometres, "hour": hour, "minutes": minutes, "day": number}
    return pd.DataFrame(table)


folder = Path(tempfile.mkdtemp())
for number in range(DAYS):
    day(number).to_parquet(folder / f"{number:05}.parquet")
trips = dd.read_parquet(folder)
size = sum(file.stat().st_size for file in folder.iterdir())
print(f"{trips.npartitions} partitions, {size / 1e6:.1f} MB")


# %%
# The base model has sine and cosine waves of the hour, alone and multiplied by the
# length. A function of the columns has nothing to learn, so it works in a pipeline on
# Dask. Trips of a day depend on each other, so pass ``groups``.
def waves(X):
    X = np.asarray(X)
    angle = np.pi / 12 * X[:, 1:] * np.arange(1, 4)
    periodic = np.column_stack([np.sin(angle), np.cos(angle)])
    return np.column_stack([X[:, 0], periodic, periodic * X[:, :1]])


base = make_pipeline(FunctionTransformer(waves), Ridge())
lazy = RibbonRegressor(base, verbose=1)
lazy = lazy.fit(trips[FEATURES], trips["minutes"], groups=trips["day"])

# %%
# A fit in memory gives the same covariance up to rounding.
sample = trips.partitions[:40].compute()
if DAYS <= 40:
    in_memory = RibbonRegressor(base)
    in_memory.fit(sample[FEATURES], sample["minutes"], groups=sample["day"])
    difference = np.abs(lazy.covariance_ - in_memory.covariance_).max()
    share = difference / np.abs(in_memory.covariance_).max()
    print(f"largest difference of covariances: {share:.1e} of the largest variance")

# %%
# Predictions for the folder are lazy too. The result has the partitions and the index
# of the trips.
table = lazy.predict_frame(trips[FEATURES])
inside = (table["lower"] <= trips["minutes"]) & (trips["minutes"] <= table["upper"])
covered = inside.mean().compute()
print(f"{table.npartitions} partitions; 90% intervals cover {covered:.1%}")

# %%
# The fitted model: how long do five kilometres take around the clock?
clock = pd.DataFrame({"kilometres": 5.0, "hour": np.linspace(0, 24, 200)})
plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(5.6, 3.8))
near = sample[(sample["kilometres"] - 5).abs() < 0.15]
ax.plot(near["hour"], near["minutes"], ".", color="0.6", ms=2.5)
for kind, shade in (("prediction", 0.25), ("confidence", 1)):
    band = lazy.predict_interval(clock, kind=kind).T
    ax.fill_between(clock["hour"], *band, color="C0", alpha=shade, lw=0)
ax.text(12, 4.2, "mean and its\n90% interval", color="C0", ha="center", va="top")
ax.annotate("", (12, 11.6), (12, 4.2), arrowprops={"arrowstyle": "-", "color": "C0"})
ax.text(0.3, 22, "pale: 90% interval\nof one trip", color="C0")
ax.set(xlabel="hour of the day", xlim=(0, 24), xticks=range(0, 25, 4))
ax.set(ylabel="minutes for 5 km", ylim=(0, None))
ax.set_title("Five kilometres take longest at 8 and at 17:30")
plt.show()
