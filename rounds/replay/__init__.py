"""Simulator: the rounds of a trace under policy `deadline`, lease by lease."""
