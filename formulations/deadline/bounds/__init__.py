"""Bounds that need no solver."""
