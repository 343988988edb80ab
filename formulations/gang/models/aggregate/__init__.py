"""The aggregate integer program: job classes on host classes, with column generation."""
