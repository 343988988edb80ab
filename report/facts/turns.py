"""Timelines of groups: which stage each job is in, over one period.

A stage begins where its slot begins. Slots begin as early as they can, so between the end of a
stage and the end of its slot the job waits. Contention makes everything longer alike: all times
are fractions of the period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from placewright.report.text import place

if TYPE_CHECKING:
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Decision, Plan
    from placewright.instances.documents.round import Round
    from placewright.instances.documents.sharing import Sharing

SPANNING = (2, 1, 1)
"""How many slots each stage may take where the first one spans."""


class Bar(NamedTuple):
    """A stage on the timeline: index of its resource, begin and end as fractions of the period."""

    resource: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Member:
    """A job of a group: what it does when, and its speed as a fraction of that alone.

    A stage that goes on past the period's end has a second bar from its beginning.
    """

    name: str
    bars: tuple[Bar, ...]
    speed: float


@dataclass(frozen=True, slots=True)
class Turns:
    """One period of a group of jobs that share GPUs.

    Parameters
    ----------
    where, milli_gpu
        The GPUs that they share.
    period
        Microseconds.
    efficiency
        Time that resources are in use, over the time that there is in all slots.
    boundaries
        Where slots begin and end, as fractions of the period: 0 first, 1 last.
    members
        In the order of the plan.
    """

    where: str
    milli_gpu: int
    period: int
    efficiency: float
    boundaries: tuple[float, ...]
    members: tuple[Member, ...]


class Timelines(NamedTuple):
    """What is drawn of a plan: the resources, the first groups, and how many groups more."""

    resources: tuple[str, ...]
    turns: tuple[Turns, ...]
    more: int


def groups_in(plan: Plan | None) -> list[Mapping[str, Any]]:
    """Return the groups of jobs that share GPUs in a valid plan; no plan has none."""
    return [
        group
        for section in (plan.sections if plan else ())
        if section["kind"] == "groups"
        for group in section["groups"]
    ]


def timelines_of(round_: Round, plan: Plan | None, limit: int) -> Timelines | None:
    """Return the turns of the first `limit` groups of a valid plan; None if it has no groups."""
    groups = groups_in(plan)
    if plan is None or not groups:
        return None
    jobs = {job.name: job for job in round_.jobs}
    decisions = {decision.job: decision for decision in plan.decisions}
    turns = (
        _turns(round_.sharing, jobs, decisions[group["members"][0]["job"]], group)
        for group in groups[:limit]
    )
    return Timelines(round_.sharing.resources, tuple(turns), max(len(groups) - limit, 0))


def _turns(
    sharing: Sharing, jobs: Mapping[str, Job], placed: Decision, group: Mapping[str, Any]
) -> Turns:
    """Lay out one period of a group of which one member's decision is given."""
    lasts = SPANNING if sharing.spanning else (1,) * len(sharing.resources)
    names = [member["job"] for member in group["members"]]
    offsets = [member["offset"] for member in group["members"]]
    stages = [_profile(jobs[name])[0] for name in names]
    times = boundaries(stages, offsets, lasts)
    total, period = times[-1], group["period"]
    begins = list(accumulate(lasts[:-1], initial=0))
    members = []
    for name, offset, job_stages in zip(names, offsets, stages, strict=True):
        starts = [times[(begin - offset) % sharing.slots] for begin in begins]
        bars = [
            bar
            for resource, (start, stage) in enumerate(zip(starts, job_stages, strict=True))
            for bar in _bars(resource, start / total, (start + stage) / total)
        ]
        members.append(Member(name, tuple(bars), _profile(jobs[name])[1] / period))
    return Turns(
        where=place(placed.tasks),
        milli_gpu=jobs[placed.job].options[placed.option or 0].milli_gpu,
        period=period,
        efficiency=sum(map(sum, stages)) / (sharing.slots * period),
        boundaries=tuple(time / total for time in times),
        members=tuple(members),
    )


def boundaries(
    stages: Sequence[Sequence[int]], offsets: Sequence[int], lasts: Sequence[int]
) -> list[int]:
    """Return when slots begin at the earliest if the first one begins at 0, and the period.

    Parameters
    ----------
    stages, offsets
        Of each member.
    lasts
        How many slots each stage may take, 1 or 2.

    Returns
    -------
    One more than there are slots. The last is the least period at these offsets.
    """
    slots = sum(lasts)
    # needs[n][s]: how long the n + 1 slots from s on are at least.
    needs = [[0] * slots for _ in range(max(lasts))]
    for job_stages, offset in zip(stages, offsets, strict=True):
        for begin, last, stage in zip(
            accumulate(lasts[:-1], initial=0), lasts, job_stages, strict=True
        ):
            slot = (begin - offset) % slots
            needs[last - 1][slot] = max(needs[last - 1][slot], stage)

    def longest(start: int) -> list[int]:
        """Return the least time from this boundary to each one of the next two periods."""
        times = [0]
        for slot in range(start, start + 2 * slots):
            done = len(times)
            times.append(
                max(
                    times[done - 1 - n] + row[(slot - n) % slots]
                    for n, row in enumerate(needs)
                    if n < done
                )
            )
        return times

    # Every way around begins at the first boundary, or passes over it to the second.
    first, second = longest(0), longest(1)
    period = max(first[slots], second[slots])
    # What began in the period before may end later than what began in this one.
    return [0, *(max(first[s], first[s + slots] - period) for s in range(1, slots)), period]


def _bars(resource: int, start: float, end: float) -> list[Bar]:
    """Return a stage as bars, those after the period's end moved to its beginning."""
    parts = [(start, min(end, 1.0)), (0.0, end - 1)]
    return [Bar(resource, first, last) for first, last in parts if last > first]


def _profile(job: Job) -> tuple[tuple[int, ...], int]:
    """Return the stages of a job of a group, and the iteration that it has alone."""
    if job.profile is None:
        raise ValueError(f"job {job.name} of a group has no profile")
    return job.profile.stages, job.profile.alone
