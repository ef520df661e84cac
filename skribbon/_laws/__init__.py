"""Distributions of an observation y given the model's raw prediction f, and their mixtures if f itself is uncertain.

A :class:`Law` has one distribution per element of an array. Each module imports only from those before it:

- ``numerics``: quantiles and scores of any distribution, from its cdf.
- ``base``: :class:`Law`, normal and Student's t distribution.
- ``tweedie``: counts, compound Poisson-gamma, gamma and inverse Gaussian.
- ``noise_distributions``: additive noise, in units of its scale: normal, Student's t, or empirical.
- ``families``: the Tweedie family with a normal f, integrated over nodes, and mixtures over draws of f.
"""
