"""The assignment program of regions, and the round as one program."""
