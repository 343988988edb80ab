"""Lagrangian bounds."""
