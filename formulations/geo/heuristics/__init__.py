"""Heuristics: assignment of jobs to regions, decomposition by region, exchange, data orders."""
