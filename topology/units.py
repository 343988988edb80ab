"""Units and the names that all documents use for them."""

from __future__ import annotations

WHOLE_GPU = 1000
"""Milli-GPU of one whole GPU."""

MILLION = 10**6
"""Millionths in one."""

HOST_LEVEL = "host"
"""The innermost level of every cluster."""
