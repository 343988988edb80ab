"""Stages as arrays: modes of jobs, who comes before whom, and what is free from when on."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.plan_messages import Timed
from placewright.instances.checks.stage_rows import StageRows
from placewright.instances.derived.waiting import end_of
from placewright.instances.documents.round import Round

MAKESPAN, COMPLETION, SPREAD = "makespan", "completion", "spread"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A mode of each job, and waves: some units of a job that begin at a time.

    `mode` (jobs,); `job`, `begin` and `units` (waves,), in any order.
    """

    mode: Ints
    job: Ints
    begin: Ints
    units: Ints


@dataclass(frozen=True, eq=False)
class Problem:
    """The jobs of a round that have not begun: multi-mode RCPSP whose modes have equal units.

    A mode is an option. Its units are its tasks, each on its own; of a gang one, all its tasks.
    Times are in seconds after `now`.
    """

    round: Round
    rows: tuple[str, ...]  # What each row of capacity is, for people
    jobs: tuple[int, ...]  # Index in the round of each job
    release: Ints  # (jobs,): when the last running job that it waits for is done
    weight: Ints  # (jobs,): what its completion counts; 0 of jobs that others wait for
    before: Ints  # (pairs,): a job ...
    after: Ints  # (pairs,): ... and one that waits for it
    # job, option, seconds, units: (modes,); those of one job lie together, and jobs in order.
    job: Ints
    option: Ints
    seconds: Ints
    units: Ints
    demand: Ints  # (modes, rows): what a unit asks
    # (steps,) and (steps, rows): from when on how much is free; it only rises.
    times: Ints
    free: Ints
    held_makespan: int  # When the last running job ends
    held_completion: int  # What running jobs count in `completion`

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Jobs, each after all those that it waits for."""
        graph = TopologicalSorter[int](dict.fromkeys(range(len(self.jobs)), ()))
        for before, after in zip(self.before.tolist(), self.after.tolist(), strict=True):
            graph.add(after, before)
        return tuple(graph.static_order())

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The jobs that wait for each job."""
        found: list[list[int]] = [[] for _ in self.jobs]
        for before, after in zip(self.before.tolist(), self.after.tolist(), strict=True):
            found[before].append(after)
        return tuple(map(tuple, found))

    @cached_property
    def modes(self) -> tuple[range, ...]:
        """The modes of each job."""
        ends = np.searchsorted(self.job, np.arange(len(self.jobs) + 1)).tolist()
        return tuple(range(a, b) for a, b in itertools.pairwise(ends))

    @cached_property
    def least(self) -> Ints:
        """The fewest seconds that each mode takes, alone on what is free in the end (modes,)."""
        room = self.free[-1] // np.maximum(1, self.demand)
        most = np.where(self.demand > 0, room, self.units[:, None]).min(axis=1, initial=2**31)
        waves = -(-self.units // np.clip(most, 1, self.units))
        seconds: Ints = self.seconds * waves
        return seconds

    @cached_property
    def shortest(self) -> Ints:
        """The fewest seconds of each job (jobs,)."""
        return self._of_jobs(self.least)

    @cached_property
    def work(self) -> Ints:
        """The least that each job takes of each row, times seconds (jobs, rows)."""
        return self._of_jobs(self.demand * (self.units * self.seconds)[:, None])

    def _of_jobs(self, of_modes: Ints) -> Ints:
        first = np.array([modes.start for modes in self.modes], dtype=np.int64)
        found: Ints = np.minimum.reduceat(of_modes, first) if len(first) else of_modes[:0]
        return found

    @cached_property
    def head(self) -> Ints:
        """When each job can begin at the earliest (jobs,), by critical paths."""
        head = self.release.copy()
        for j in self.order:
            for k in self.successors[j]:
                head[k] = max(head[k], head[j] + self.shortest[j])
        return head

    @cached_property
    def tail(self) -> Ints:
        """What has to follow the end of each job at least (jobs,), by critical paths."""
        tail = np.zeros_like(self.release)
        for j in reversed(self.order):
            for k in self.successors[j]:
                tail[j] = max(tail[j], tail[k] + self.shortest[k])
        return tail

    @cached_property
    def led(self) -> Bools:
        """Whether each job leads to each of `last`, or is it (jobs, last)."""
        return self.tails >= 0

    @cached_property
    def tails(self) -> Ints:
        """What follows each job at least to the end of each of `last` (jobs, last); -1: none."""
        tails = np.full((len(self.jobs), len(self.last)), -1, dtype=np.int64)
        tails[self.last, np.arange(len(self.last))] = 0
        for j in reversed(self.order):
            for k in self.successors[j]:
                on = tails[k] >= 0
                tails[j, on] = np.maximum(tails[j, on], tails[k, on] + self.shortest[k])
        return tails

    @cached_property
    def last(self) -> Ints:
        """The jobs that nobody waits for."""
        waited: Ints = np.flatnonzero(np.bincount(self.before, minlength=len(self.jobs)) == 0)
        return waited

    @cached_property
    def pipeline(self) -> Ints:
        """The number of each of `last` among those that wait for a job in common (last,)."""
        number = np.arange(len(self.last))
        for row in self.led:
            mine = np.flatnonzero(row)
            if len(mine) > 1:
                number[np.isin(number, number[mine])] = number[mine].min()
        return np.unique(number, return_inverse=True)[1]

    def ends(self, schedule: Schedule) -> Ints:
        """Return when each job is done (jobs,)."""
        ends = np.zeros_like(self.release)
        seconds = self.seconds[schedule.mode[schedule.job]]
        np.maximum.at(ends, schedule.job, schedule.begin + seconds)
        return ends

    def values(self, schedule: Schedule) -> dict[str, int]:
        """Return the terms of times of a schedule."""
        ends = self.ends(schedule)
        return {
            MAKESPAN: max(self.held_makespan, int(ends.max(initial=0))),
            COMPLETION: self.held_completion + int(self.weight @ ends),
        }

    def timed(self, schedule: Schedule) -> tuple[Timed, ...]:
        """Return when each job of the problem runs, by its index in the round."""
        at, seconds = self.round.now + schedule.begin, self.seconds[schedule.mode].tolist()
        begun = Counter[tuple[int, int]]()
        for j, begin, units in zip(schedule.job.tolist(), at.tolist(), schedule.units, strict=True):
            begun[j, begin] += int(units)
        waves: list[list[tuple[int, int, int]]] = [[] for _ in self.jobs]
        for (j, begin), units in sorted(begun.items()):
            waves[j].append((begin, begin + seconds[j], units))
        options = self.option[schedule.mode].tolist()
        return tuple(map(Timed, self.jobs, options, map(tuple, waves)))


def compile_stages(round_: Round) -> Problem:
    """Return the problem of a round whose checks have passed."""
    rows, now = StageRows(round_), round_.now
    jobs = tuple(j for j, job in enumerate(round_.jobs) if job.running is None)
    number = {round_.jobs[j].name: n for n, j in enumerate(jobs)}
    ends = {job.name: end_of(job, now) - now for job in round_.jobs if job.running is not None}
    release = np.zeros(len(jobs), dtype=np.int64)
    pairs, awaited = [], set[str]()
    modes: list[tuple[int, int, int, int]] = []
    demand: list[list[int]] = []
    capacity = np.array([row.capacity for row in rows.rows], dtype=np.int64)
    for n, j in enumerate(jobs):
        job = round_.jobs[j]
        if job.stage is None:
            raise AssertionError("every job has a stage, as its checks say")
        awaited.update(job.stage.after)
        for name in job.stage.after:
            if name in number:
                pairs.append((number[name], n))
            else:
                release[n] = max(release[n], ends[name])
        for o, option in enumerate(job.options):
            units = 1 if job.stage.gang else option.groups[0].count
            each = [amount // units for amount in rows.asked(job, option)]
            if (np.array(each, dtype=np.int64) <= capacity).all():
                modes.append((n, o, job.stage.seconds(o), units))
                demand.append(each)
    weight = [0 if round_.jobs[j].name in awaited else round_.jobs[j].weight for j in jobs]
    sinks = [job for job in round_.jobs if job.running is not None and job.name not in awaited]
    columns = np.array(modes, dtype=np.int64).reshape(-1, 4)
    asked = np.array(demand, dtype=np.int64).reshape(len(modes), len(capacity))
    before, after = np.array(sorted(set(pairs)), dtype=np.int64).reshape(-1, 2).T
    times, free = _free(round_, rows, ends, capacity)
    used: Bools = np.any(asked, axis=0)
    return Problem(
        round=round_,
        rows=tuple(row.text() for row, one in zip(rows.rows, used.tolist(), strict=True) if one),
        jobs=jobs,
        release=release,
        weight=np.array(weight, dtype=np.int64),
        before=before,
        after=after,
        job=columns[:, 0],
        option=columns[:, 1],
        seconds=columns[:, 2],
        units=columns[:, 3],
        demand=asked[:, used],
        times=times,
        free=free[:, used],
        held_makespan=max(ends.values(), default=0),
        held_completion=sum(job.weight * ends[job.name] for job in sinks),
    )


def _free(
    round_: Round, rows: StageRows, ends: dict[str, int], capacity: Ints
) -> tuple[Ints, Ints]:
    """Return from when on how much of each row is free beside what runs."""
    running = [job for job in round_.jobs if job.running is not None]
    held = np.array([rows.held(job) for job in running], dtype=np.int64)
    held = held.reshape(len(running), len(capacity))
    over = np.array([ends[job.name] for job in running], dtype=np.int64)
    times: Sequence[int] = [0, *sorted(set(over.tolist()))]
    free = [np.maximum(0, capacity - held[over > time].sum(axis=0)) for time in times]
    return np.array(times, dtype=np.int64), np.array(free, dtype=np.int64)
