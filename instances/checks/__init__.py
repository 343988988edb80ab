"""Checks of references between the parts of a round, and of the jobs that run."""
