"""The order of the gallery: as questions come up."""

ORDER = (
    "plot_first_interval.py",
    "plot_which_interval.py",
    "plot_guarantee.py",
    "plot_prediction_sets.py",
    "plot_tuning_alpha.py",
    "plot_grid_search.py",
    "plot_pipeline.py",
    "plot_defaults_noise.py",
    "plot_defaults_fit.py",
    "plot_heteroskedastic.py",
    "plot_classification.py",
    "plot_repeated_measures.py",
    "plot_several_outputs.py",
    "plot_large_table.py",
    "plot_comparisons.py",
    "plot_population.py",
    "plot_influence.py",
    "plot_poisson_claims.py",
    "plot_network.py",
    "plot_out_of_distribution.py",
    "plot_tree_features.py",
    "plot_own_model.py",
    "plot_speed.py",
)


class ReadingOrder:
    """Sort key of the gallery's files; a new one comes last until it finds its place above."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        return ORDER.index(filename) if filename in ORDER else len(ORDER)
