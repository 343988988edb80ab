"""Fragmentation as a term: what it is, a bound on it, and plans that strand few GPUs."""
