"""Integer programs of a round, their relaxations and column generation."""
