"""Bounds, proven by relaxation and by branch and bound."""
