"""Regions, links and datasets as arrays, and the scheduler of copies between regions."""
