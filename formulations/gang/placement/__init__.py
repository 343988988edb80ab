"""Placements: plans under construction, and the steps that every plan passes through."""
