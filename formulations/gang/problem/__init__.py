"""The compiled round: what is decided, on which hosts, as arrays. Imports no other part of gang."""
