"""Seeded clusters and rounds."""
