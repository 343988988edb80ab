"""A round as arrays: who may run where now, aggregated to job classes."""
