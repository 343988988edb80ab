"""Deadline admission: which jobs are promised to finish in time, and in which leases each runs."""
