"""Odds ratios of a logistic regression with 90% intervals."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skribbon import RibbonClassifier
from skribbon.inspection import coefficients


def fitted():
    """Simulated people, and a logistic regression of an illness, as on the pages about inference and averages."""
    rng, n = np.random.default_rng(0), 1000
    people = pd.DataFrame(
        {
            "decades": rng.uniform(2, 7, n),
            "smoker": rng.choice(["no", "sometimes", "yes"], n, p=[0.6, 0.2, 0.2]),
            "region": rng.choice(["north", "south"], n),
        }
    )
    effect = people["smoker"].map({"no": 0.0, "sometimes": 0.5, "yes": 1.2})
    ill = -3 + 0.4 * people["decades"] + effect + rng.logistic(size=n) > 0
    columns = make_column_transformer(
        (OneHotEncoder(drop="first"), ["smoker", "region"]), remainder="passthrough", verbose_feature_names_out=False
    )
    return RibbonClassifier(make_pipeline(columns, LogisticRegression(C=np.inf))).fit(people, ill), people


def draw():
    """Points and intervals on a log scale, with a line at one."""
    odds = coefficients(fitted()[0], exponentiate=True).iloc[:-1][::-1]
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, ax = plt.subplots(figsize=(5, 2.6))
        ax.axvline(1, color="0.3", lw=1)
        ax.hlines(odds["term"], odds["conf_low"], odds["conf_high"], color="#0072B2", lw=3, alpha=0.5)
        ax.plot(odds["estimate"], odds["term"], "o", color="#0072B2")
        ax.set(xscale="log", xlabel="odds ratio with 90% interval", ylim=(-0.6, len(odds) - 0.4))
        ax.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
        ax.minorticks_off()
        figure.suptitle("Smoking multiplies the odds of the illness by 3.6", x=0.01, ha="left", size="medium")
    return figure
