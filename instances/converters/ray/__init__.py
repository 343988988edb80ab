"""Dumps of Ray: nodes and placement groups."""
