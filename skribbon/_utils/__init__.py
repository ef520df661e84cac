"""Helpers independent of the method: checks of input, types, wrappers of base models, compatibility."""
