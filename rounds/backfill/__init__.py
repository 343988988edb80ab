"""Backfilling: which waiting jobs get a reservation, and what may start beside it."""
