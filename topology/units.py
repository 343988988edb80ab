"""Units and the names that all documents use for them."""

from __future__ import annotations

WHOLE_GPU = 1000
"""Milli-GPU of one whole GPU."""

MILLION = 10**6
"""Millionths in one."""

UNLIMITED = 10**12
"""What a host has of a resource that pools limit and the host does not: as much as can be asked."""

HOST_LEVEL = "host"
"""The innermost level of every cluster."""
