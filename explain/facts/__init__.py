"""Facts: sentences of a round or plan, each with the edit that takes it away."""
