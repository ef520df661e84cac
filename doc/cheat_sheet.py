"""Cheat sheet of everyday calls, as a web page, SVG and PDF; ``make doc`` makes all three."""

from pathlib import Path

BOXES = (
    (
        "Fit",
        (
            ("a linear model, GLM or network", "ribbon = RibbonRegressor(Ridge()).fit(X, y)"),
            ("a pipeline goes inside", "RibbonRegressor(make_pipeline(StandardScaler(), Ridge()))"),
            ("classes", "RibbonClassifier(LogisticRegression()).fit(X, y)"),
            ("an already fitted model", "RibbonRegressor(FrozenEstimator(model)).fit(X, y)"),
            ("a function of your own", "AutogradRegressor(f, init)"),
            ("alpha tuned on held-out rows (six fits)", "RibbonCV(Ridge()).fit(X, y)"),
            ("alpha tuned from a single fit", "RibbonCV(Ridge(), cv='loo').fit(X, y)"),
        ),
    ),
    (
        "Which interval?",
        (
            ("for a new observation", "ribbon.predict_interval(X, 0.9)"),
            ("for the mean", "ribbon.predict_interval(X, 0.9, kind='confidence')"),
            ("a table with both kinds of uncertainty", "ribbon.predict_frame(X)"),
            ("quantiles", "ribbon.predict_quantiles(X, [0.1, 0.5, 0.9])"),
            ("the whole distribution", "ribbon.predict_distribution(X).cdf(y)"),
            ("for a class probability", "ribbon.predict_proba_interval(X)"),
        ),
    ),
    (
        "Which guarantee?",
        (
            ("approximate, for each x (default)", "ribbon.predict_interval(X)"),
            ("guaranteed, with calibration rows", "ribbon.conformalize(X_cal, y_cal)"),
            ("", "ribbon.predict_interval(X, kind='conformal')"),
            ("weaker guarantee, from one fit", "RibbonRegressor(Ridge(), store_loo=True).fit(X, y)"),
            ("", "ribbon.predict_interval(X, kind='jackknife+')"),
            ("sets of classes, after conformalize", "ribbon.predict_set(X, 0.95)"),
        ),
    ),
    (
        "My data are ...",
        (
            ("clustered: patients, schools", "ribbon.fit(X, y, groups=patient)"),
            ("a time series", "ribbon.fit(X, y, groups=time_blocks(times))"),
            ("counts of identical rows", "ribbon.fit(X, y, sample_weight=counts)"),
            ("survey weights", "RibbonRegressor(Ridge(), weight_type='importance')"),
            ("claims, visits, amounts", "RibbonRegressor(PoissonRegressor()).fit(X, y)"),
            ("several outputs", "ribbon.fit(X, Y).predict_interval(X)"),
            ("larger than memory", "ribbon.fit(ddf[columns], ddf['y'])  # Dask"),
        ),
    ),
    (
        "Explain",
        (
            ("coefficient table with p-values", "inspection.coefficients(ribbon)"),
            ("test several coefficients", "inspection.wald_test(ribbon, 'age = 0, sex = 0')"),
            ("what if a column changed?", "inspection.comparisons(ribbon, X, 'treated')"),
            ("marginal effects", "inspection.slopes(ribbon, X, 'age')"),
            ("influence of training rows", "inspection.influence(ribbon, X_train, y_train, X)"),
            ("plots", "plotting.IntervalDisplay.from_estimator(ribbon, X, y)"),
        ),
    ),
    (
        "Can I trust it?",
        (
            ("coverage on held-out rows", "cross_val_interval(ribbon, X, y)"),
            ("scores for a search", "GridSearchCV(ribbon, grid, scoring=metrics.neg_nll_scorer)"),
            ("is the linear step good enough?", "ribbon.check_linearization(X, y)"),
            ("check all premises", "inspection.check(ribbon, X, y)"),
            ("what the defaults chose", "inspection.summary(ribbon)"),
            ("turn warnings into errors", "warnings.simplefilter('error', RibbonWarning)"),
        ),
    ),
)
COLOURS = ("#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9")  # of Okabe and Ito, as in the plots


def draw(folder):
    """Draw the sheet, A4 landscape, into ``cheat_sheet.svg`` and ``cheat_sheet.pdf`` of a folder."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    with mpl.rc_context({"svg.hashsalt": "skribbon", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(11.69, 8.27), facecolor="white")
        figure.text(0.03, 0.955, "skribbon", size=22, weight="bold", va="center")
        words = "prediction intervals, standard errors and calibrated probabilities for scikit-learn models"
        figure.text(0.165, 0.953, words, size=11, va="center", color="0.3")
        for k, ((title, rows), colour) in enumerate(zip(BOXES, COLOURS, strict=True)):
            left, bottom = 0.03 + 0.3175 * (k % 3), 0.49 - 0.455 * (k // 3)
            box = FancyBboxPatch((left, bottom), 0.305, 0.425, boxstyle="round,pad=0,rounding_size=0.008")
            box.set(facecolor="0.985", edgecolor=colour, linewidth=2, transform=figure.transFigure)
            figure.add_artist(box)
            figure.text(left + 0.012, bottom + 0.392, title, size=13, weight="bold", color="0.15", va="center")
            y = bottom + 0.355
            for text, code in rows:
                if not text:  # another line of code for the answer above
                    y += 0.0095
                else:
                    figure.text(left + 0.012, y, text, size=8.2, color="0.25", va="center")
                    y -= 0.0215
                figure.text(left + 0.012, y, code, size=7, family="DejaVu Sans Mono", va="center")
                y -= 0.0295
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / "cheat_sheet.svg", metadata={"Date": None})
        figure.savefig(folder / "cheat_sheet.pdf", metadata={"CreationDate": None})


def as_markdown():
    """Return the boxes as cards of a Markdown page."""
    cards = []
    for title, rows in BOXES:
        answers = "\n".join(f"\n# {text}\n{code}" if text else code for text, code in rows).strip()
        cards.append(f":::{{grid-item-card}} {title}\n\n```python\n{answers}\n```\n:::")
    return "\n\n".join(["::::{grid} 1 1 2 2\n:gutter: 3", *cards, "::::", ""])


if __name__ == "__main__":
    draw(Path(__file__).parent / "generated")
