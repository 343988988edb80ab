"""Clusters, jobs and placements: facts, tables, charts and pictures."""
