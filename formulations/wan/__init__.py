"""Regions, links and data as arrays, and how data moves: what both formulations of data share."""
