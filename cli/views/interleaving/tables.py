"""The table of groups: by size, their number, GPUs and mean speed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from placewright.cli.format.table import print_table, table
from placewright.report.facts.turns import groups_in
from placewright.report.text import gpus, number, percent

if TYPE_CHECKING:
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Plan

Row = tuple[str, str, str, str, str]


def sizes_of(jobs: Mapping[str, Job], plan: Plan) -> list[Row]:
    """Return a row per size of groups, the smallest first.

    Its columns: jobs of a group, groups, the GPUs that they hold and those that their jobs ask,
    and the mean of the jobs' speeds as parts of those alone.
    """
    by_size: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for group in groups_in(plan):
        by_size[len(group["members"])].append(group)
    rows = []
    for size, groups in sorted(by_size.items()):
        held = sum(jobs[g["members"][0]["job"]].options[0].milli_gpu for g in groups)
        speed = sum(_alone(jobs, group) / group["period"] for group in groups)
        rows.append(
            (
                number(size),
                number(len(groups)),
                gpus(held),
                gpus(size * held),
                percent(speed / (size * len(groups))),
            )
        )
    return rows


def _alone(jobs: Mapping[str, Job], group: Mapping[str, Any]) -> int:
    """Add up the microseconds that an iteration of each member takes alone."""
    profiles = [jobs[member["job"]].profile for member in group["members"]]
    return sum(profile.alone for profile in profiles if profile is not None)


def print_groups(console: Console, jobs: Mapping[str, Job], plan: Plan) -> None:
    """Print how many groups take turns, by their size."""
    rows = sizes_of(jobs, plan)
    if rows:
        columns = ("jobs each", "groups", "GPUs", "GPUs asked", "mean speed, of that alone")
        made = table("Groups that take turns", *columns, right=columns)
        for row in rows:
            made.add_row(*row)
        print_table(console, made)
