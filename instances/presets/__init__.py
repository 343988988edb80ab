"""Presets: rounds made from rounds, to drain, replace, defragment or return hosts."""
