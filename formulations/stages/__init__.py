"""Stages: jobs that wait for others, as resource-constrained project scheduling."""
