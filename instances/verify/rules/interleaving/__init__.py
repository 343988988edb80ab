"""Rules about jobs that take turns on GPUs."""
