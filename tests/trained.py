"""The Training behind a Ribbon, for tests that look inside a fit."""

from sklearn.base import is_classifier

from skribbon._estimators.ribbon import first_pass, fit_ribbon, settled
from skribbon._estimators.settings import Settings


def trained(ribbon, X, y, sample_weight=None, groups=None):
    """Fitted attributes of a Ribbon as a dict, and its Training."""
    settings = Settings.from_classifier(ribbon) if is_classifier(ribbon) else Settings.from_regressor(ribbon, y)
    fitted, rows = ribbon._fit_base_model(X, y, sample_weight, groups)
    training, found = settled(ribbon, first_pass(ribbon, settings, rows), rows.model)
    return fitted | found | fit_ribbon(settings, training), training
