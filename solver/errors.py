"""What the solver package raises; infeasible, unbounded and out of time are statuses instead."""

from __future__ import annotations

__all__ = ["BackendUnavailableError", "UnsupportedModelError"]


class UnsupportedModelError(Exception):
    """A backend cannot take this model; the message names the row or the column."""


class BackendUnavailableError(Exception):
    """A backend is unknown or its solver is not installed; the message says what to install."""
