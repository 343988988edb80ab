"""What a plan decides, as words."""

from __future__ import annotations

from placewright.instances.documents.plan import DecisionKind

OUTCOMES = {
    DecisionKind.START: "started",
    DecisionKind.MIGRATE: "migrated",
    DecisionKind.PREEMPT: "preempted",
    DecisionKind.KEEP: "kept",
    DecisionKind.WAIT: "waiting",
}
MOVES = (DecisionKind.MIGRATE, DecisionKind.PREEMPT)
"""Decisions that only some plans have; what counts them leaves them out where there are none."""
