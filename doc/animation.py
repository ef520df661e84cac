"""Draw the explanation of the method as an animated GIF and as a still picture: ``make animation``.

A network is fitted once. Forty refits at random weights of the rows show how far the curve could move. Forty linear
steps from the single fit move it in much the same way; their spread is the confidence band. The processor seconds in
the picture come from animation.json, so that drawing again gives the same files; ``python doc/animation.py --measure``
measures them first.
"""

import argparse
import json
from pathlib import Path
from time import process_time

import matplotlib

matplotlib.use("Agg")  # draws to a file, needs no display

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.base import clone
from sklearn.neural_network import MLPRegressor

from skribbon import RibbonRegressor
from skribbon.inspection import influence, influence_measures

HERE = Path(__file__).parent
SECONDS = HERE / "animation.json"
STEPS = 40
# Okabe and Ito's colours: refits, skribbon, text
VERMILION, BLUE, INK = "#D55E00", "#0072B2", "#333333"
PALE, MIDDLE, DARK, POINTS = "#D9E8F5", "#8DBBDF", "#0B4F7D", "#666666"
COLOURS = 24  # of the palette; more make the file larger and the picture no better


# ---------------------------------------------------------------------- numbers
def simulate():
    """Rows (240, 1) with a gap, and a noisy sine of them."""
    rng = np.random.default_rng(3)
    x = np.sort(np.concatenate([rng.uniform(-2, -0.4, 120), rng.uniform(0.4, 2, 120)]))
    return x[:, None], np.sin(1.8 * x) + 0.4 * rng.standard_normal(240)


def network():
    return MLPRegressor(
        hidden_layer_sizes=(5,), activation="tanh", solver="lbfgs", alpha=0.2, max_iter=20_000, tol=1e-7, random_state=0
    )


def compute(grid):
    """Curves along the grid by refits and by linear steps, both bands, and the seconds that each took."""
    X, y = simulate()
    network().fit(X, y)  # the first fit of all is slow
    weights = len(X) * np.random.default_rng(0).dirichlet(np.ones(len(X)), STEPS)  # (STEPS, rows), one on average
    start = process_time()
    refits = np.array([clone(network()).fit(X, y, sample_weight=w).predict(grid) for w in weights])
    refitted = process_time()
    ribbon = RibbonRegressor(network()).fit(X, y)
    fitted = process_time()
    effect = influence(ribbon, X, y, grid).to_numpy()  # of leaving out each row, (rows, grid)
    leverage = influence_measures(ribbon, X, y)[["leverage"]].to_numpy()
    steps = ribbon.predict(grid) + (weights - 1) @ ((1 - leverage) * effect)  # effect of a small change of a weight
    ends = start, refitted, fitted, process_time()
    seconds = {
        name: round(float(spent), 3) for name, spent in zip(("refits", "fit", "steps"), np.diff(ends), strict=True)
    }
    bands = {kind: ribbon.predict_interval(grid, 0.9, kind).T for kind in ("confidence", "prediction")}
    return X, y, weights, ribbon.predict(grid), refits, steps, bands, seconds


# ---------------------------------------------------------------------- picture
class Scene:
    """The picture at one moment, drawn anew for each frame."""

    def __init__(self, grid, numbers, seconds):
        self.grid, self.seconds = grid[:, 0], seconds
        self.X, self.y, self.weights, self.fit, self.refits, self.steps, self.bands, _ = numbers
        self.figure = plt.figure(figsize=(6.8, 4.5), dpi=100)

    def frame(self, title, counter="", *, refits=0, steps=0, old=1.0, weight=None, confidence=0.0, prediction=0.0):
        """Array (height, width, 3) with this many curves; ``old`` is the strength of all but the one of ``weight``."""
        self.figure.clear()
        ax = self.figure.add_axes((0.0, 0.0, 1.0, 0.83))
        ax.set(xlim=(-2.1, 2.1), ylim=(-2.0, 2.1), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        self.draw_bands(ax, confidence, prediction)
        ax.plot(self.grid, self.refits[:refits].T, color=mixed(VERMILION, 0.5 if steps else 0.55), lw=0.9)
        ax.plot(self.grid, self.steps[:steps].T, color=mixed(BLUE, 0.6 * old), lw=0.9)
        size, colour, moving = np.ones(len(self.y)), BLUE, self.fit
        if weight is not None:
            size, moving = self.weights[weight], (self.steps if steps else self.refits)[weight]
            colour = BLUE if steps else VERMILION
        ax.scatter(self.X[:, 0], self.y, s=13 * size + 1, color=POINTS, lw=0, zorder=1.5)
        ax.plot(self.grid, moving, color=colour, lw=3.5, zorder=3)
        self.figure.text(0.02, 0.975, title, fontsize=20, va="top", fontweight="bold", color=INK, linespacing=1.15)
        style = {
            "ha": "right",
            "fontsize": 20,
            "fontweight": "bold",
            "color": VERMILION if "refit" in counter else BLUE,
        }
        ax.text(0.985, 0.03, counter, transform=ax.transAxes, **style)
        self.figure.canvas.draw()
        return np.asarray(self.figure.canvas.buffer_rgba())[..., :3].copy()

    def draw_bands(self, ax, confidence, prediction):
        """Fill the bands, each by its share; the prediction band grows out of the confidence band."""
        inner, outer = self.bands["confidence"], self.bands["prediction"]
        if prediction:
            ax.fill_between(self.grid, *(inner + prediction * (outer - inner)), color=PALE, lw=0, zorder=1)
        if confidence:
            ax.fill_between(self.grid, *inner, color=mixed(MIDDLE, confidence), lw=0, zorder=1)
        label = {"fontsize": 18, "color": DARK, "linespacing": 1.1, "ha": "left"}
        label["arrowprops"] = {"arrowstyle": "-", "color": DARK, "lw": 1.2, "shrinkA": 2, "shrinkB": 0}
        if prediction == 1:
            ax.annotate("90% prediction band:\nnew observations", (-1.45, 0.4), (-2.05, 1.4), va="bottom", **label)
        if confidence == 1:
            ax.annotate("90% confidence band:\nthe mean", (0.07, 0.05), (0.3, -0.75), va="top", **label)


def mixed(colour, share):
    """Share of a colour on white."""
    return tuple(1 - share + share * np.array(matplotlib.colors.to_rgb(colour)))


def story(scene):
    """Frames with their milliseconds."""
    seconds = scene.seconds
    yield scene.frame("One fit of your model.\nHow far could the curve be off?"), 1500
    ask = "Bootstrap: weight the rows at random,\nrefit, and repeat"
    for k in range(STEPS):
        spent = seconds["refits"] * (k + 1) / STEPS
        counter = f"{k + 1} refit{'s' * (k > 0)}: {spent:.2f} s"
        yield scene.frame(ask, counter, refits=k + 1, weight=k), 500 if k == 0 else 60
    yield scene.frame(ask, counter, refits=STEPS), 700
    answer = "skribbon: the same weights,\none linear step each from one fit"
    for k in range(STEPS):
        spent = seconds["fit"] + seconds["steps"] * (k + 1) / STEPS
        counter = f"fit and {k + 1} step{'s' * (k > 0)}: {spent:.2f} s"
        yield scene.frame(answer, counter, refits=STEPS, steps=k + 1, weight=k), 500 if k == 0 else 40
    yield scene.frame(answer, counter, refits=STEPS, steps=STEPS), 900
    spread = "The spread of the curves\nis the confidence band ..."
    for share in np.linspace(0.2, 0.8, 4):
        yield scene.frame(spread, counter, steps=STEPS, old=1 - share, confidence=share), 90
    yield scene.frame(spread, counter, confidence=1.0), 1300
    noise = "... and with the noise,\nit is the prediction band"
    for share in np.linspace(0.2, 0.8, 4):
        yield scene.frame(noise, counter, confidence=1.0, prediction=share), 90
    yield scene.frame(noise, counter, confidence=1.0, prediction=1.0), 3500


def still(scene):
    """The last frame with a title that stands alone."""
    return scene.frame("One fit, one linear step:\nevery prediction has an interval", confidence=1.0, prediction=1.0)


def save(frames, path):
    """Write an animated GIF whose frames share one palette; pixels that do not change are transparent."""
    pictures, durations = zip(*frames, strict=True)
    chosen = np.concatenate([pictures[k] for k in (STEPS, 2 * STEPS, -6, -1)])
    exact = [matplotlib.colors.to_rgb(colour) for colour in ("white", VERMILION, BLUE, PALE, MIDDLE, POINTS)]
    palette = Image.fromarray(chosen).quantize(COLOURS - len(exact), method=Image.Quantize.MEDIANCUT)
    colours = [*np.multiply(exact, 255).round().astype(int).ravel().tolist(), *palette.getpalette()][: 3 * COLOURS]
    palette.putpalette(colours)
    images, before = [], None
    for picture in pictures:
        indices = np.asarray(Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE))
        image = Image.fromarray(indices if before is None else np.where(indices == before, COLOURS, indices))
        image.putpalette([*colours, 255, 255, 255])
        images.append(image)
        before = indices
    options = {"duration": durations, "loop": 0, "transparency": COLOURS, "disposal": 1, "optimize": False}
    images[0].save(path, save_all=True, append_images=images[1:], **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="measure the seconds on this machine first")
    parser.add_argument(
        "--output", type=Path, default=HERE / "_static", help="folder of explained.gif and explained.png"
    )
    arguments = parser.parse_args()
    grid = np.linspace(-2.2, 2.2, 200)[:, None]
    numbers = compute(grid)
    if arguments.measure:
        measured = [compute(grid)[-1] for _ in range(5)]  # the smallest: other work on the machine only adds
        least = {name: min(seconds[name] for seconds in measured) for name in measured[0]}
        SECONDS.write_text(json.dumps(least) + "\n", encoding="utf-8")
    scene = Scene(grid, numbers, json.loads(SECONDS.read_text(encoding="utf-8")))
    arguments.output.mkdir(parents=True, exist_ok=True)
    save(story(scene), arguments.output / "explained.gif")
    picture = Image.fromarray(still(scene)).quantize(128, dither=Image.Dither.NONE)
    picture.save(arguments.output / "explained.png", optimize=True)


if __name__ == "__main__":
    main()
