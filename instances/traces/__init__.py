"""Traces: jobs of a cluster over time, as columns, read from what schedulers and papers publish."""
