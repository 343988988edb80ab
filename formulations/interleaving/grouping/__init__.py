"""Grouping: which jobs share GPUs, as set packing over columns."""
