"""Observation noise: its scale at every row, and the shape of its distribution."""

from .._laws.noise_distributions import EmpiricalLaw, NoiseLaw, NormalLaw, StudentLaw
from .scale import ConstantNoise, DofNoise, HeteroskedasticNoise, JointNoise, LooNoise, Noise, TrainNoise

__all__ = [
    "ConstantNoise",
    "DofNoise",
    "EmpiricalLaw",
    "HeteroskedasticNoise",
    "JointNoise",
    "LooNoise",
    "Noise",
    "NoiseLaw",
    "NormalLaw",
    "StudentLaw",
    "TrainNoise",
]
