"""Helpers that know nothing of the method: checks, types, threads, lazy imports."""
