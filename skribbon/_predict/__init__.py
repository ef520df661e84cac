"""Predictive distributions: uncertain raw predictions, noise and target scale."""
