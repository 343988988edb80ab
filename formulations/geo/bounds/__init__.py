"""Bounds: Lagrangian bounds at rounded duals of the assignment LP."""
