"""Regions and data: facts, tables, charts and pictures."""
