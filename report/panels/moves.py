"""Moves in the order in which they can be carried out, and collectives."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.report.facts.jobs import OUTCOMES, moves_of
from placewright.report.panels.subject import Subject
from placewright.report.table import Table, table
from placewright.report.text import gpus, number


def moves(subject: Subject) -> Iterator[Table]:
    """Yield the moves of each plan that has some."""
    for name, plan in zip(subject.names, subject.plans, strict=True):
        of_plan = "" if len(subject.plans) == 1 else f" of {name}"
        found = moves_of(subject.jobs, plan)
        if not found:
            continue
        spare = sum(move.spare for move in found)
        yield table(
            f"Moves{of_plan}, in this order",
            (">step", "job", "decision", ">GPUs", "from", "to, or why"),
            (
                (
                    number(step),
                    subject.cell(move.job),
                    OUTCOMES[move.kind] + (", by a spare place" if move.spare else ""),
                    gpus(move.milli_gpu),
                    move.source,
                    move.target,
                )
                for step, move in enumerate(found, 1)
            ),
            f"{spare:,} of {len(found):,} need a spare place." if spare else "",
        )
