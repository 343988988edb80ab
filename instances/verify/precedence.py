"""Precedence of jobs, and the terms that count the jobs of some precedences."""

from __future__ import annotations

from typing import NamedTuple


class Precedence(NamedTuple):
    """The precedence of a job with an option: cells, entitlement, then priority.

    The jobs that a tenant's cells are for come before all others.
    """

    cells: bool
    entitled: bool
    priority: int

    def __str__(self) -> str:
        suffix = ", guaranteed" if self.cells else "" if self.entitled else ", borrowed"
        return f"priority {self.priority}{suffix}"


class ClassTerm(NamedTuple):
    """A term of one class: the precedences that count in it, highest first, and what they ask."""

    precedences: tuple[Precedence, ...]
    asked: int
