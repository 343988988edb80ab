"""A simulator: rounds of a trace, lease by lease."""
