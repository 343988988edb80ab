"""Whether the parts of a round refer to each other rightly, and running work is possible."""
