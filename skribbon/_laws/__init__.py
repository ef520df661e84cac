"""Distributions of an observation y given the model's raw prediction f, and their mixtures if f itself is uncertain.

A :class:`Law` has one distribution per element of an array. Each module imports only from those before it:

- ``numerics``: quantiles and scores of any distribution, from its cdf.
- ``base``: :class:`Law`, normal and Student's t distribution.
- ``tweedie``: counts, compound Poisson-gamma, gamma and inverse Gaussian.
- ``shapes``: additive noise, in units of its scale: normal, Student's t, or empirical.
- ``families``: the Tweedie family with a normal f, integrated over nodes, and mixtures over draws of f.
"""

from .base import Estimate, Law, Normal, Student, normal_levels, student_ratio
from .families import Mixture, TweedieFamily
from .noise_distributions import EmpiricalLaw, LocationFamily, NoiseLaw, NormalLaw, StudentLaw
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
