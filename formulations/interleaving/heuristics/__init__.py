"""Heuristics around the set packing: kept places, group matching, insertion."""
