"""Dumps of Slurm clusters: JSON in the dialects v0.0.38 to v0.0.45, and some text."""
