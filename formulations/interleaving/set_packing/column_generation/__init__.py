"""Column generation over groups of distinct jobs, with exact pricing."""
