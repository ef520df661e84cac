"""Uncertainty of a network's last layer alone."""

from .base import Curvature
from .dense import GaussNewton, Hessian


class LastLayer(Curvature):
    """H of the last layer, dense; all layers before it are taken as known.

    Cheap for any depth, and an understatement of uncertainty: away from the data only what the last hidden units
    still tell apart can vary.

    Parameters
    ----------
    damping : "auto" or float, default="auto"
    """

    knows_leverages = True

    def view(self, model):
        return model.last_layer()

    def _inner(self, model):
        return (Hessian if model.exact_is_psd else GaussNewton)(damping=self.damping)

    def of_rows(self, model, Z, y, weight):
        return self._inner(model).of_rows(model, Z, y, weight)

    def factor(self, rows, moments):
        return self._inner(rows.model).factor(rows, moments)

    def holds_square(self, p):
        return True
