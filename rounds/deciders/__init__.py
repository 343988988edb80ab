"""What decides a round of each policy."""
