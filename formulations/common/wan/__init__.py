"""Regions, links and data as arrays, and the schedule of transfers."""
