"""Edits: what each change makes of a round, checked like a file, and as a sentence."""
