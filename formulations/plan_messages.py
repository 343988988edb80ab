"""What formulations yield to the round that runs them: candidate plans, and bounds of terms.

A `Candidate` is a plan to verify. It says what changes by indices: of jobs and options in the
round, of hosts in the cluster, of datasets and regions in its WAN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

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
    on top. `data` is for rounds with regions.
    """

    starts: Mapping[int, tuple[int, tuple[Place, ...]]]
    source: str
    preempted: Mapping[int, int] = field(default_factory=dict)
    final: bool = False
    slots: Mapping[int, Slots] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    promises: tuple[Promise, ...] = ()
    offers: tuple[Promise, ...] = ()
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
