"""Presets: rounds made from rounds, to drain, replace, defragment, return or protect hosts."""
