"""The rules of the independent check, by policy."""
