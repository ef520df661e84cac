"""Distributions of an observation y given the model's raw prediction f, and their mixtures if f itself is uncertain.

A law holds one distribution per element of an array. The uncertainty of f is either normal, integrated over nodes
(``families.UncertainMean``) or in closed form, or a set of equally likely draws (:class:`Mixture`).

Modules, each of which imports only from those before it:

- ``numerics``: quantiles and scores of any distribution, from its cdf.
- ``base``: :class:`Law`, which deals with degenerate distributions, chunks and levels.
- ``normal``, ``tweedie``: distributions of y given f, with their special functions.
- ``shapes``: shapes of additive noise in units of its scale: normal, Student's t, or as residuals show it.
- ``mixture``: distribution of y if f is one of several draws.
- ``families``: :class:`LocationFamily` and :class:`TweedieFamily`, from a loss's dispersion and f to the distribution
  of y; ``UncertainMean`` if f is normal.
"""

from .base import Law
from .families import LocationFamily, TweedieFamily
from .mixture import Mixture
from .normal import Estimate, Normal, Student, normal_levels, student_ratio
from .shapes import EmpiricalLaw, NoiseLaw, NormalLaw, StudentLaw
from .tweedie import CompoundPoissonGamma

__all__ = [
    "CompoundPoissonGamma",
    "EmpiricalLaw",
    "Estimate",
    "Law",
    "LocationFamily",
    "Mixture",
    "NoiseLaw",
    "Normal",
    "NormalLaw",
    "Student",
    "StudentLaw",
    "TweedieFamily",
    "normal_levels",
    "student_ratio",
]
