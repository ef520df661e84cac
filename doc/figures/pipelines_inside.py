"""Where the Ribbon belongs: around the pipeline."""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch


def box(ax, x, y, width, height, text, colour, filled):
    """Draw a rounded box: filled with centred text, or a frame with its name above the contents."""
    style = {"boxstyle": "round,pad=0,rounding_size=0.08", "fc": colour if filled else "none", "ec": colour, "lw": 2}
    ax.add_patch(FancyBboxPatch((x, y), width, height, **style))
    place = (x + width / 2, y + height / 2) if filled else (x + width / 2, y + height - 0.2)
    ax.text(*place, text, ha="center", va="center", color="white" if filled else colour)


def draw():
    """Ribbon around pipeline above, pipeline around Ribbon below."""
    blue, vermilion = "#0072B2", "#D55E00"
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, (above, below) = plt.subplots(2, 1, figsize=(5, 4.2))
        box(above, 0, 0, 5, 1.75, "RibbonRegressor", vermilion, False)
        box(above, 0.2, 0.15, 4.6, 1.2, "Pipeline", "0.4", False)
        box(below, 0, 0, 5, 1.75, "Pipeline", "0.4", False)
        box(below, 2.5, 0.15, 2.3, 1.2, "RibbonRegressor", vermilion, False)
        for ax in (above, below):
            box(ax, 0.4, 0.3, 1.9, 0.55, "StandardScaler", blue, True)
            box(ax, 2.7, 0.3, 1.9, 0.55, "Ridge", blue, True)
            ax.set(xlim=(-0.05, 5.05), ylim=(-0.05, 1.8))
            ax.set_axis_off()
        above.set_title("Recommended: all methods take raw rows")
        below.set_title("Possible, but without predict_interval")
    return figure
