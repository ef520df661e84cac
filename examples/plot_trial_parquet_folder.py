"""
Trial: a folder of parquet files
================================

The last of five trials: more rows than you want to hold in memory. 200,000 here; for ten million run
``SKRIBBON_ROWS=10_000_000 python examples/plot_trial_parquet_folder.py``: a gigabyte of files, which took 68 seconds to
write and 25 to fit on two busy cores.
"""

# %%
# The folder, a file for every 100,000 rows or so.
import os
import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

from skribbon import RibbonRegressor

ROWS, COLUMNS = int(os.environ.get("SKRIBBON_ROWS", "200_000")), [f"x{j}" for j in range(10)]
SLOPES = np.linspace(-1, 1, len(COLUMNS))
n_files = max(4, ROWS // 100_000)


def part(number):
    rng = np.random.default_rng(number)
    X = rng.normal(size=(ROWS // n_files, len(COLUMNS)))
    y = 3 + X @ SLOPES + np.exp(0.3 * X[:, 0]) * rng.normal(size=len(X))
    return pd.DataFrame(X, columns=COLUMNS).assign(y=y)


with tempfile.TemporaryDirectory() as folder:
    start = time.perf_counter()
    for number in range(n_files):
        part(number).to_parquet(Path(folder) / f"{number:05}.parquet")
    table = dd.read_parquet(folder)
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    print(f"{ROWS:,} rows, {size / 1e6:.0f} MB in {n_files} files, written in {time.perf_counter() - start:.1f} s")

    # %%
    # The same two lines as for a table in memory; rows stay in their files.
    start = time.perf_counter()
    ribbon = RibbonRegressor(Ridge()).fit(table[COLUMNS], table["y"])
    print(f"fitted in {time.perf_counter() - start:.1f} s; noise {type(ribbon.noise_).__name__}")

    # %%
    # Predictions are lazy: here only two of the files are read for them.
    some = table.partitions[:2]
    ends = ribbon.predict_frame(some[COLUMNS])[["lower", "upper"]]
    covered = ((ends["lower"] <= some["y"]) & (some["y"] <= ends["upper"])).mean().compute()
    print(f"90% intervals cover {covered:.3f}")

# %%
# Slopes and their 90% intervals, as they were learnt and as they are.
half = 1.645 * np.sqrt(np.diag(ribbon.covariance_))[: len(COLUMNS)]
plt.style.use("skribbon.plotting.style")
figure, ax = plt.subplots(figsize=(7, 3))
inside = np.abs(ribbon.coef_ - SLOPES) <= half
ax.errorbar(COLUMNS, ribbon.coef_ - SLOPES, half, fmt="o", ms=4)
ax.axhline(0, color="0.3", lw=0.8)
ax.set(ylabel="estimated minus true slope")
ax.set_title(f"{ROWS:,} rows: {inside.sum()} of {len(inside)} 90% intervals contain the truth")
plt.show()
