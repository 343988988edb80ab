"""What formulations yield to the round that runs them: candidate plans, and bounds of terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor, inf, nextafter
from typing import TypeAlias

# Bounds of terms, which are whole numbers: tolerances, rounding, and which of two is tighter.


HOLD_SLACK = 0.5
"""Terms are integers: held within a half, nothing changes and no solver tolerance matters."""

SHARPNESS = 1e-6
"""Relative slack of a solver's bound: a value this near to it is as good as proven."""

MOST_SLACK = 0.5
"""Of a claimed bound whose tolerance is larger than that: below it lies no other whole number."""


def near(bound: float, value: float, gap: float) -> bool:
    """Whether a value is proven within a relative gap by a bound."""
    return abs(bound - value) <= gap * max(abs(bound), abs(value))


def proven_whole(bound: float, sense: str = "min") -> int:
    """Return the tightest whole number that a solver proves with a bound of a term.

    Solvers stop within tolerances: of a minimum 7.0000004 does not prove 8, and of a maximum
    6.9999996 not 6.
    """
    slack = min(SHARPNESS * max(1.0, abs(bound)), MOST_SLACK)
    return floor(bound + slack) if sense == "max" else ceil(bound - slack)


def outward(bound: float, sense: str) -> float:
    """Return a bound, maybe an int, as a float that is no tighter: beyond 2^53 floats are few."""
    near = float(bound)
    if near == bound or (near > bound) == (sense == "max"):
        return near
    return nextafter(near, inf if sense == "max" else -inf)


def tighter(first: float | None, second: float | None, sense: str) -> float | None:
    """Return the tighter of two bounds of a term with this sense; None is no bound."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second) if sense == "max" else max(first, second)


# A `Candidate` is a plan to verify. It says what changes by indices: of jobs and options in the
# round, of hosts in the cluster, of datasets and regions in its WAN.


Place: TypeAlias = tuple[int, int, int, tuple[int, ...]]
"""The place of one task: (group, index in the group, host, GPUs on the host)."""

Slots: TypeAlias = tuple[int | None, ...]
"""Per place of a job the start of its MIG slice; () if none of its tasks is one."""


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that share GPUs, by their indices in the round, the offset of each, and the period.

    The period is in microseconds.
    """

    members: tuple[int, ...]
    offsets: tuple[int, ...]
    period: int


@dataclass(frozen=True, slots=True)
class Promise:
    """The leases that keep a promise: the job's index in the round, its option, what is promised.

    `at` is the promised time and `finish` the planned one, seconds on the round's clock; `leases`
    are half-open intervals of lease indices, in order. A job that was promised nothing, but could
    be, has its `finish` as the promised time and the `value` 0.
    """

    job: int
    option: int
    at: int
    value: int
    finish: int
    leases: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Timed:
    """When a job runs, by its index in the round: its option, and its waves.

    A wave begins, ends (seconds on the round's clock), and has so many tasks; that of a gang is
    one of 1.
    """

    job: int
    option: int
    waves: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """A part of a copy: dataset, regions on its path, GiB, and its time on the round's clock."""

    dataset: int
    path: tuple[int, ...]
    gib: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DataPlan:
    """What a plan says of data, by indices of jobs, datasets, regions and GPU models.

    `homes` has the region and GPU model of each job that can run, `creates` and `drops` the
    dataset, the region and the time of each replica that comes or goes. `waits` has the region
    where a job will have its data, and when. What jobs read over links follows from where they run.
    Indices are those of `common.wan.arrays.Wan`.
    """

    homes: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    creates: tuple[tuple[int, int, int], ...] = ()
    drops: tuple[tuple[int, int, int], ...] = ()
    flows: tuple[Flow, ...] = ()
    waits: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan to verify, by the jobs' indices in the round.

    `starts` has the option and task places of each job that starts or migrates, `preempted` for
    each preempted job one that takes its place, -1 if nobody does. Other running jobs are kept. A
    `final` one is verified with its reasons at once, so that it need not be verified again: it is
    the last that the formulation means to yield, or its reasons cost next to nothing. `slots` has,
    for jobs with MIG slices, where they are, and `groups` are all that share GPUs after the round.
    `promises` are all that hold after the round, and `offers` what refused jobs could be promised
    on top. `schedule` says when pending jobs with stages run. `data` is for rounds with regions.
    """

    starts: Mapping[int, tuple[int, tuple[Place, ...]]]
    source: str
    preempted: Mapping[int, int] = field(default_factory=dict)
    final: bool = False
    slots: Mapping[int, Slots] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    promises: tuple[Promise, ...] = ()
    offers: tuple[Promise, ...] = ()
    schedule: tuple[Timed, ...] = ()
    data: DataPlan | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """No plan that is at least as good in `holds` beats `value` in `term`.

    `holds` are (term, value) pairs: the earlier terms, held no worse than the best plan's values.
    `certified`: recomputed in our own code; otherwise claimed by a solver. A `value` beyond
    2^53 should be an int, as a float might be tighter than what was proven.
    """

    term: str
    value: float
    holds: tuple[tuple[str, int], ...] = ()
    certified: bool = False
