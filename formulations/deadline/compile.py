"""From a round to ways and capacity: the arrays of `problem.py`, and what each way stands for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placewright.formulations.deadline.capacity import Rows, largest_of
from placewright.formulations.deadline.problem import Ints, Problem
from placewright.instances.deadline import Deadline, Due, Pace, finish, gain, least_hosts, need
from placewright.instances.job import Job, Option
from placewright.instances.round import Round


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """What there is to promise in a round.

    Attributes
    ----------
    jobs : tuple of int
        Index in the round of each job of `problem`.
    option : Ints
        (ways,): the option of each way.
    due : tuple of Due
        What each way promises.
    gains : Ints
        (ways,): work per lease, thousandths of a work-second, at the option's least hosts.
    hosts : Ints
        (ways,): the least hosts of the way's option.
    """

    round: Round
    problem: Problem
    jobs: tuple[int, ...]
    option: Ints
    due: tuple[Due, ...]
    gains: Ints
    hosts: Ints

    def after_now(self, way: int, hosts: int) -> tuple[int, int, int, bool]:
        """Return what a way needs after the current lease on some hosts.

        Leases that are still needed, the first of them that can be used, the one after the last,
        and whether that is in time.
        """
        leases, now, at = self.round.leases, self.round.now, self.due[way].at
        deadline, pace = self._of(way)
        left = deadline.work - gain(pace, leases.length_s, hosts)
        if left <= 0:
            return 0, 1, 1, finish(now, deadline.work, pace, hosts) <= at
        each = int(self.gains[way])
        count = -(-left // each)
        last = finish(now, left - (count - 1) * each, pace, int(self.hosts[way]))
        return count, 1, min((at - last) // leases.length_s + 1, leases.horizon), True

    def finish(self, way: int, leases: Sequence[int] | Ints, hosts: int | None) -> int:
        """Return when a job is done that runs in these leases, in the current one on `hosts`."""
        section, now = self.round.leases, self.round.now
        deadline, pace = self._of(way)
        left, least = deadline.work, int(self.hosts[way])
        for lease in leases[:-1]:
            there = hosts if lease == 0 and hosts is not None else least
            left -= gain(pace, section.length_s, there)
        last = int(leases[-1])
        there = hosts if last == 0 and hosts is not None else least
        return finish(section.start(now, last), left, pace, there)

    def _of(self, way: int) -> tuple[Deadline, Pace]:
        deadline = self.round.jobs[self.jobs[self.problem.job[way]]].deadline
        if deadline is None:
            raise AssertionError("a way is of a job with a deadline")
        return deadline, deadline.pace(int(self.option[way]))


def compile_admission(round_: Round) -> Admission:
    """Return the ways to promise something to the jobs of a round, and what its leases have."""
    jobs = tuple(j for j, job in enumerate(round_.jobs) if dues_of(job))
    rows = Rows(round_, (round_.jobs[j] for j in jobs))
    largest = largest_of(round_)
    ways = [way for number, j in enumerate(jobs) for way in _ways(round_, number, j, largest)]
    columns = np.array([way.numbers for way in ways], dtype=np.int64).reshape(-1, 8)
    problem = Problem(
        capacity=rows.capacity(),
        loss=np.array([_loss(round_.jobs[j]) for j in jobs], dtype=np.int64),
        job=columns[:, 0],
        need=columns[:, 1],
        first=columns[:, 2],
        end=columns[:, 3],
        value=columns[:, 4],
        demand=np.array(
            [rows.demand(round_.jobs[jobs[way.numbers[0]]], way.option) for way in ways],
            dtype=np.int64,
        ).reshape(len(ways), rows.count),
    )
    due = tuple(way.due for way in ways)
    return Admission(round_, problem, jobs, columns[:, 5], due, columns[:, 6], columns[:, 7])


@dataclass(frozen=True, slots=True)
class _Way:
    numbers: tuple[int, int, int, int, int, int, int, int]
    due: Due

    @property
    def option(self) -> int:
        return self.numbers[5]


def _ways(round_: Round, number: int, j: int, largest: Mapping[str, int]) -> Iterator[_Way]:
    """Yield the ways of one job that its deadline, the horizon and its running option allow."""
    job, leases = round_.jobs[j], round_.leases
    deadline = job.deadline
    if deadline is None:
        return
    first = 0 if job.running else leases.first_usable(deadline.ready, round_.now)
    for o, option in enumerate(job.options):
        if job.running is not None and job.running.option != o:
            continue
        pace, hosts = deadline.pace(o), hosts_of(job, option, largest)
        count = need(deadline.work, pace, leases.length_s, hosts)
        if count is None:
            continue
        each = gain(pace, leases.length_s, hosts)
        # The last lease need not be over when the job is done.
        last = finish(round_.now, deadline.work - (count - 1) * each, pace, hosts)
        known: dict[int, Due] = {}
        for due in dues_of(job):
            end = min((due.at - last) // leases.length_s + 1, leases.horizon)
            if job.running is not None and job.running.pinned:
                end = min(end, count)
            if end - first >= count and (end not in known or known[end].value < due.value):
                known[end] = due
        for end, due in known.items():
            yield _Way((number, count, first, end, due.value, o, each, hosts), due)


def hosts_of(job: Job, option: Option, largest: Mapping[str, int]) -> int:
    """Return on how many hosts a job is counted: the fewest, or those where it is pinned."""
    if job.running is not None and job.running.pinned:
        return len({task.host for task in job.running.tasks})
    return least_hosts(option, largest)


def at_any_time(round_: Round, jobs: Collection[int]) -> Round:
    """Return the round with these jobs due at the end of the horizon only, whatever they asked."""
    end = round_.leases.start(round_.now, round_.leases.horizon + 1)
    changed = list(round_.jobs)
    for j in jobs:
        deadline = changed[j].deadline
        if deadline is not None:
            update = {"due": (Due(at=end, value=1),), "promise": None}
            changed[j] = changed[j].model_copy(
                update={"deadline": deadline.model_copy(update=update)}
            )
    return round_.model_copy(update={"jobs": tuple(changed)})


def dues_of(job: Job) -> list[Due]:
    """Return the times that a job may be promised, the earliest first: its own, and its promise."""
    deadline = job.deadline
    if deadline is None:
        return []
    times = {due.at: due for due in deadline.due}
    promise = deadline.promise
    if promise is not None and (promise.at not in times or times[promise.at].value < promise.value):
        times[promise.at] = promise
    return [times[at] for at in sorted(times)]


def _loss(job: Job) -> int:
    return job.deadline.promise.value if job.deadline and job.deadline.promise else 0
