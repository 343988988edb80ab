"""Menus of options from published speed models, one module per system.

Each module turns what its system measures or assumes of a job into `Option`s of the Round document:
what the job takes, and by which numbers (`value`, `progress`) the system prefers one to another.
"""
