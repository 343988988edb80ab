"""Modes: how promises can be kept, with the current lease or without it.

A mode (as in multi-mode project scheduling) is an alternative with its part in the current lease:
to run there on a number of hosts within a range in which it is equally fast, or not to run. It
fixes how many leases are needed after the current one, and until when.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.deadline.problem.alternatives import tasks_of
from placewright.formulations.deadline.problem.compile import Admission
from placewright.instances.derived.lease_arithmetic import relative_speed
from placewright.instances.documents.deadline import Pace

NOT_NOW = 0
"""Hosts of a mode that does not run now."""


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """The modes of an admission, as arrays (modes,).

    Attributes
    ----------
    alternative : int64
        The alternative of the admission.
    fewest, most : int64
        Hosts in the current lease, `NOT_NOW` for none.
    need, end : int64
        Leases needed after the current one, and the one after the last that can be used; the first
        is `first`.
    first : int64
    """

    alternative: Ints
    fewest: Ints
    most: Ints
    need: Ints
    first: Ints
    end: Ints


def modes_of(admission: Admission, hosts: int) -> Modes:
    """Return all modes of an admission on a cluster with this number of hosts."""
    rows = [
        row
        for alternative in range(admission.problem.alternatives)
        for row in _of(admission, alternative, hosts)
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    return Modes(*table.T)


def _of(admission: Admission, alternative: int, hosts: int) -> Iterator[tuple[int, ...]]:
    problem = admission.problem
    job = admission.round.jobs[admission.jobs[problem.job[alternative]]]
    option = int(admission.option[alternative])
    first, end, need = (
        int(problem.first[alternative]),
        int(problem.end[alternative]),
        int(problem.need[alternative]),
    )
    pinned = job.running is not None and job.running.pinned
    if first == 0:
        pace = Pace() if job.deadline is None else job.deadline.pace(option)
        own = int(admission.hosts[alternative])
        ranges = (
            [(own, own)]
            if pinned
            else equal_speed_ranges(pace, min(hosts, tasks_of(job.options[option])))
        )
        for fewest, most in ranges:
            later, begin, until, feasible_alone = admission.after_current_lease(alternative, fewest)
            if feasible_alone and until - begin >= later:
                yield alternative, fewest, most, later, begin, until
    later_on = max(1, first)
    if not pinned and not admission.fast[alternative] and end - later_on >= need:
        yield alternative, NOT_NOW, NOT_NOW, need, later_on, end


def equal_speed_ranges(pace: Pace, most: int) -> list[tuple[int, int]]:
    """Return the ranges of numbers of hosts, up to `most`, on which a job is equally fast."""
    ranges: list[tuple[int, int]] = []
    ends = [1, *(number for number, _ in pace.spanning if number < most), most]
    for before, last in zip([0, *ends], ends, strict=False):
        if before >= last:
            continue
        if ranges and relative_speed(pace, ranges[-1][1]) == relative_speed(pace, last):
            ranges[-1] = ranges[-1][0], last
        else:
            ranges.append((before + 1, last))
    return ranges
