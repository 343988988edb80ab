"""Bounds that are not those of a model of `models/`."""
