"""The host-indexed model: exact, for small rounds and for small parts of large ones."""
