"""Tiny random rounds, all of their plans, and what the solver and its bounds make of them."""
