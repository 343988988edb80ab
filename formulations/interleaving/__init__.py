"""Interleaving: groups of jobs that share GPUs by taking turns, and what each takes of a host."""
