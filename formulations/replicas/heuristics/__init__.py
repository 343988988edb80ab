"""Constructive and improving heuristics, one a file."""
