"""The table of collectives: bottleneck bandwidth and time of each placed gang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placewright.report.text import NONE, milliseconds, number

if TYPE_CHECKING:
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Plan

GBIT = 1000
Row = tuple[str, str, str, str, str]


def collectives_of(plan: Plan) -> list[Mapping[str, Any]]:
    """Return what a valid plan says of collectives, the slowest first."""
    groups = [
        group
        for section in plan.sections
        if section["kind"] == "communication"
        for group in section["groups"]
    ]
    return sorted(groups, key=lambda group: -group["time_us"])


def row_of(jobs: Mapping[str, Job], options: Mapping[str, int], found: Mapping[str, Any]) -> Row:
    """Return job, group, pattern with data, bottleneck and time of a collective as text."""
    group = jobs[found["job"]].options[options[found["job"]]].groups[found["group"]]
    asked, mbit = group.communication, found["bottleneck_mbit"]
    return (
        found["job"],
        group.name,
        NONE if asked is None else f"{asked.pattern} of {asked.data_mib or 0:,} MiB",
        NONE if mbit is None else f"{number(mbit / GBIT)} Gbit/s",
        milliseconds(found["time_us"]),
    )


def options_of(plan: Plan) -> dict[str, int]:
    """Return the option of each job that holds something."""
    decisions: Sequence[Any] = plan.decisions
    return {d.job: d.option for d in decisions if d.option is not None}
