"""Errors of this folder."""

from __future__ import annotations

from placewright.instances.documents.plan import Plan


class InternalError(RuntimeError):
    """A bug: no candidate is valid, the last verification fails, or a plan beats a certified bound.

    `plan` is the best verified plan that was known then, if there was one.
    """

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message)
        self.plan = plan
