"""How a fit reads a large table: partitions, small sums, one fitted object."""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch


def box(ax, x, y, width, height, text, colour):
    """Draw a rounded box with centred text."""
    shape = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.08", fc=colour, ec="none")
    ax.add_patch(shape)
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", color="white", size=11)


def draw():
    """Partitions on the left, sums in the middle, the fitted Ribbon on the right."""
    with plt.style.context(["skribbon.plotting.style", {"font.size": 11}]):
        figure, ax = plt.subplots(figsize=(5, 2.9))
        for k in range(4):
            y = 2.4 - 0.75 * k
            box(ax, 0, y, 1.5, 0.6, f"partition {k + 1}", "#0072B2")
            box(ax, 2.3, y, 0.95, 0.6, "p × p", "#009E73")
            ax.annotate("", (2.25, y + 0.3), (1.55, y + 0.3), arrowprops={"arrowstyle": "->", "color": "0.4"})
            ax.annotate("", (4.0, 1.57), (3.3, y + 0.3), arrowprops={"arrowstyle": "->", "color": "0.4"})
        box(ax, 4.05, 1.17, 1.25, 0.8, "fitted\nRibbon", "#D55E00")
        for x, text in (
            (0.75, "rows stay\nwhere they are"),
            (2.78, "sums of\neach pass"),
            (4.68, "coefficients\nand covariance"),
        ):
            ax.text(x, -0.15, text, ha="center", va="top", color="0.3")
        ax.set(xlim=(-0.05, 5.45), ylim=(-0.85, 3.05))
        ax.set_title("Only small sums leave the partitions")
        ax.set_axis_off()
    return figure
