"""Admission as arrays: the alternatives of each job, and rows of capacity by lease."""
