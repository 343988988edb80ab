"""What converters share: CSV tables, sampling, best fit."""
