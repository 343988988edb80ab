"""Integer programs of a round, their linear relaxations, and column generation."""
