"""From one round to the next: what changes, and what is remembered."""
