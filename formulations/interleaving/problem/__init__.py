"""The round as classes of jobs that may share GPUs, and rows of capacity."""
