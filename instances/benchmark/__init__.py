"""The instance library of the public benchmark: rounds, and the best that is known of each."""
