"""Rules about regions and data."""
