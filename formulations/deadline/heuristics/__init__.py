"""Schedules of leases: constructed, repaired, improved, and placed now."""
