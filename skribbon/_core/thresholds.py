"""Numbers that decide what a user sees: warnings, and choices by "auto".

Each comment says what the number decides, why it has this value, and where that was measured; "by judgement" if it was
not. Sizes of blocks and tolerances of rounding stay in the files that use them. FEWEST, the fewest residuals for an
empirical distribution of the noise, is in ``_laws/noise_distributions.py``, which imports nothing from here.
"""

# ------------------------------------------------------- correction="auto", doc/appendix/defaults.md#correction
SMALL_MEAN_LEVERAGE = 0.05  # mean leverage up to which HC1 is considered: it enlarges scores by at most 2.6%
SMALL_LEVERAGE = 0.1  # largest leverage with which HC1 is used: HC2 then enlarges no score by more than 5.4%
# Effective parameters per row up to which leave-one-out residuals resemble residuals of new rows: HC2 instead of HC3
# for linear regressors, a fitted distribution of the noise, jackknife+ and cv="loo" of networks without a warning.
EASY_LEVERAGE = 0.15
MAX_LEVERAGE = 0.99  # cap on leverages, and warning: the residual of a row is then below 1% of its error
MAX_CLASS_LEVERAGE = 0.5  # cap for classifiers: beyond it a Newton step with constant curvature is unreliable
MIN_INFLUENTIAL_LEVERAGE = 0.02  # leverage from which a row counts by itself in degrees of freedom: 50 per parameter
MOST_INFLUENTIAL = 1000  # most such rows, and longest table in which all rows do: 8 MB per 1,000 columns
FEWEST_GROUPS = 8  # fewest groups without a warning: intervals reach nominal coverage; doc/user_guide/groups.md

# ---------------------------------------------------------------------- minima, doc/user_guide/troubleshooting.md
STATIONARITY_LIMIT = 0.25  # gradient, in standard errors, above which fit warns, by judgement
STOPPED_EARLY = 0.2  # gradient above which a network counts as stopped early: L-BFGS ends below 0.12, Adam above 0.27
NEGLIGIBLE_GRADIENT = 1e-4  # gradient, in standard errors, above which polish and Dask fits warn: no interval changes
NETWORK_GRADIENT = 0.05  # gradient above which Dask fits of networks warn: kinks allow no better, intervals hardly move
MANY_COPIES = 100  # mean frequency above which weights are more likely survey weights than counts, by judgement
FEWER_OBSERVATIONS = 0.9  # fractional weights with a smaller sum over the rows explain large leverages, by judgement
# Relative error of predictions, moved by a step instead of by a refit, up to which check_linearization calls the step
# good: directions then agree (correlation above 0.95), and widths by 30%, by judgement.
LINEARIZATION_ERROR = 0.3
SEPARATION = 0.05  # warn below this ratio of squared scores to their expectation: separated classes 0.03, others 0.09
DEPENDENCE = 2.75  # correlation of neighbouring residuals, in standard errors, above which fit warns: 3 of 1,000 tables

# ------------------------------------------------------- damping, doc/appendix/defaults.md#damping-of-networks
MAX_PARAMETERS_PER_ROW = 0.25  # effective parameters per row that damping leaves: 0.2 and 0.3 cover .86 to .98
INTERPOLATING = 0.75  # effective parameters per row above which networks are damped even at a minimum
EARLY_STOPPING_DAMPING = 0.01  # least damping after early stopping, in variances of y: widths are near refits'
# effective parameters per row that damping leaves if held-out rows scale the covariance: best likelihood and means
HELD_OUT_PARAMETERS_PER_ROW = 0.5

# ---------------------------------------------------------------------- curvature="auto", doc/user_guide/curvature.md
DENSE_MEMORY = 0.25  # share of the machine's memory up to which a dense curvature is used; rows need room too
MAX_MEMORY = 0.8  # share of the machine's memory above which a curvature is refused: the rows need some too
DENSE_WORK = 1e13  # multiplications up to which a dense curvature is used: a few minutes
NETWORK_WORK = 4e10  # the same for a network with few rows, which trains in about a second: 1,500 parameters
CLOSED_FORM_LIMIT = 2000  # parameters up to which a structured curvature has a closed form: 32 MB a p x p array

# ---------------------------------------------------------------------- draws, doc/method.md
MIN_CURVATURE = 0.05  # share of H_r that a Newton draw keeps in any direction: bounds its step by 20 linear ones
MAX_FLAT_DRAWS = 0.05  # share of draws with raised curvature above which fit warns, by judgement
MEDIAN_ROWS = 20_000  # rows that the median length of a score is computed from, for clip_scores: known to 1%

# ------------------------------------------------------- held_out="auto", doc/appendix/defaults.md#held-out-rows
N_FOLDS = 5  # folds of which some are refitted: refits with four fifths of the rows resemble the fit to all of them
N_REFITS = 3  # refits: 3.4 base fits in all, and nearly the coverage of five refits
FEWEST_UNSEEN_ROWS = 200  # validation rows of early stopping from which no refits are made
MAX_REFIT_RATIO = 10.0  # ratio of held-out mean squared errors of refits above which fit warns: coverage is then off
EPISTEMIC_PRIOR = 4.0  # precision of the prior on the log of the epistemic scale: 4 to 20 are equally good

# ------------------------------------------------------- temperature="auto", doc/appendix/defaults.md#temperature
# Precision of the prior on log T below and above one, for linear models and for networks: few errors say little about
# T < 1, and refits of networks differ.
TEMPERATURE_PRIORS = ((20.0, 4.0), (50.0, 4.0))
MAX_LOSS_RATIO = 6.0  # left-out over training log loss above which classes count as separable: 3 to 10 are as good
MIN_AVERAGING_GAIN = 1e-3  # nats by which averaging must be better: it needs a covariance for every predicted row
NETWORK_MARGIN = 2.0  # standard errors by which a network's scaling must be better: with less, some networks lose
NETWORK_SPREAD = 1.2  # variance of a network, in squared differences of two refits: these share rows and differ less
SCALING_WORK = 2e5  # rows times squared classes that a temperature is learnt from: 2,000 rows of ten classes
FEWEST_SCALING_ROWS = 1000  # rows that it is learnt from if there are many classes: a temperature to a few percent

# ------------------------------------------------------- noise and law, doc/appendix/defaults.md
HEAVY_ROWS = 200  # effective number of weighted rows below which folds of a table of counts warn: a row is over 0.5%
FEWEST_DISTINCT_ROWS = 50  # distinct rows from which copies of a row share a fold: fewer are a table of categories
FEWEST_NOISE_ROWS = 50  # rows from which noise="auto" may depend on x, by judgement
LINEAR_NOISE_COLUMNS = 50  # columns up to which the scale may be log-linear in x, with ten rows each, by judgement
TREE_NOISE_ROWS = 400  # rows from which boosted trees may scale the noise: trees need many rows, by judgement
TREE_NOISE_COLUMNS = 200  # columns up to which they may: they take dense columns, by judgement
MANY_NOISE_ROWS = 1500  # rows from which three folds do for the scale instead of five: as good, and faster
MAX_NOISE_LEVERAGE = 0.5  # mean leverage up to which noise="auto" may depend on x, by judgement
NOISE_ROWS = 5000  # rows that scale and distribution of the noise are learnt from: enough for both, by judgement
LEAST_NOISE_SHARE = 0.5  # share of the noise in residuals below which they do not show its shape, by judgement
MAX_INFORMATIVE_LEVERAGE = 0.5  # leverage from which a row does not shape the noise: it sets most of its prediction
FAMILY_ROWS = 2500  # rows that the family of a GLM is tested on: with more, KOLMOGOROV_NEGLIGIBLE alone would decide
KOLMOGOROV_CRITICAL = 2.5  # distance times sqrt(n) above which fit warns of the family: by chance in 1 of 100,000 fits
NEGLIGIBLE_TAIL = 0.02  # error of the shares beyond bounds of 90% intervals below which fit never warns of the family
KOLMOGOROV_NEGLIGIBLE = 0.05  # distance below which fit never warns of the family: it hardly changes intervals

# ---------------------------------------------------------------------- predictions, doc/user_guide/troubleshooting.md
NORMAL_SHARE = 1.5e-3  # largest epistemic share of the variance, per df, that may be normal: 90% widths change by 0.14%
UNDETERMINED_TOL = 1e-3  # warn if a row moves farther along an undetermined direction; training rows move by about one
SINGLE_ROW_TOL = 0.5  # warn if one training row, or group, determines more than this share of a prediction
SLOW_ROWS = 1000  # rows from which a derivative by a loop over rows warns: fewer rows are fast enough, by judgement
CERTAIN = 1 - 1e-9  # warn if a leverage is above: rounding leaves nothing of the fit without the row
SAME_ROWS = 0.01  # warn if calibration rows have a smaller gradient, in standard errors: other rows have about one
SAME_GRADIENT = 1e-3  # refuse rows as other training rows if their gradient differs by more: rounding is smaller

# ---------------------------------------------------------------------- RibbonCV, doc/user_guide/alpha.md#ribboncv
MIN_GAIN = 0.005  # nats, or share of another score, below which alpha stays 1: no user would notice
