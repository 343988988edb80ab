"""A round as arrays, aggregated to job classes and dataset classes."""
