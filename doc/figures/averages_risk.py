"""Average probability along a column, for two values of another column."""

import matplotlib.pyplot as plt
import numpy as np
from inference_odds import fitted

from skribbon.inspection import predictions


def draw():
    """Two curves with confidence bands, labelled at their ends."""
    ribbon, people = fitted()
    ages = np.linspace(2, 7, 21)
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, ax = plt.subplots(figsize=(5, 3.2))
        for smoker, colour in (("yes", "#D55E00"), ("no", "#0072B2")):
            asked = (predictions(ribbon, people.assign(smoker=smoker, decades=age)).iloc[0] for age in ages)
            estimate, low, high = np.array([[row[k] for k in ("estimate", "conf_low", "conf_high")] for row in asked]).T
            ax.fill_between(10 * ages, low, high, color=colour, alpha=0.25, lw=0)
            ax.plot(10 * ages, estimate, color=colour, lw=2)
            ax.text(71, estimate[-1], f"smoker:\n{smoker}", color=colour, va="center")
        ax.set(xlim=(20, 82), ylim=(0, 1), xlabel="age in years", ylabel="probability of the illness")
        ax.set_xticks(range(20, 71, 10))
        ax.set_title("Smokers have a higher risk at every age")
    return figure
