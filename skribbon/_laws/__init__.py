"""Observation laws: y given the model's raw prediction f, and their mixtures where f itself is uncertain.

A law holds one distribution per element of an array. What is uncertain about f is either a normal law, integrated by
quadrature (:class:`Latent`) or in closed form, or a set of equally likely draws (:class:`Mixture`).

Which room holds what, the lowest first; each imports from those before it:

- ``quadrature``: nodes and weights.
- ``search``, ``crps``: quantiles and scores of any law, from its cdf; ``table``: quantiles of many by interpolation,
  ``grid``: quantiles and densities of many whose f is as uncertain as y.
- ``base``: :class:`Law`, which deals with points, chunks and levels.
- ``location``, ``tweedie``: the laws of y given f, with their special functions.
- ``shapes``: what additive noise looks like in units of its scale: normal, Student's, or as residuals show it.
- ``mixture``, ``latent``: the laws of y where f is uncertain.
- ``normal_path``: mean scores of normal laws along a path of variances.
- ``families``: what a loss knows, :class:`LocationFamily` and :class:`TweedieFamily`; these make all the others.
"""

from .base import Law
from .families import LocationFamily, TweedieFamily
from .latent import Latent
from .location import Estimate, Normal, Student, normal_levels, student_ratio
from .mixture import Mixture
from .normal_path import normal_path_scores
from .shapes import EmpiricalLaw, NoiseLaw, NormalLaw, StudentLaw
from .tweedie import CompoundPoissonGamma, Counts, Gamma, InverseGaussian

__all__ = [
    "CompoundPoissonGamma",
    "Counts",
    "EmpiricalLaw",
    "Estimate",
    "Gamma",
    "InverseGaussian",
    "Latent",
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
    "normal_path_scores",
    "student_ratio",
]
