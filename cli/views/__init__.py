"""What is shown of a round and a plan, by policy."""
