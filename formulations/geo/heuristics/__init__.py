"""Assign jobs to regions, place each region, exchange and repair."""
