"""The plan sections that follow from decisions, and reasons to wait."""
