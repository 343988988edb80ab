"""The host-indexed integer program: exact, for small rounds and small parts of large ones."""
