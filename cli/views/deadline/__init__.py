"""Promises and leases: facts, tables, charts and pictures."""
