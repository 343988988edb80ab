"""Running jobs that move or stop, and jobs that are packed anew."""
