"""Alternatives: a due time and an option by which a job can be promised something, and its leases.

docs/formulations/deadline.md defines which plans exist; each of them gives its promises by some of
these alternatives. Most are *steady*: counted leases keep the promise while the job runs on as it
does. The others need more from the current lease:

- a running job changes to another option from the next lease on, so that another job must take its
  place now (unless its host is away: such alternatives are steady);
- a job runs now on more hosts than it needs, because it is faster there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from placewright.formulations.deadline.problem.capacity_rows import largest_host_gpus
from placewright.instances.derived.lease_arithmetic import (
    completion_time,
    leases_needed,
    min_hosts,
    relative_speed,
    work_per_lease,
)
from placewright.instances.derived.outages import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.deadline import Due, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round


class Alternative(NamedTuple):
    """A due time of a job and one of its options, as in `problem.Problem`.

    `job` is its number among the jobs of the admission. Of its leases each gains `each`
    thousandths of a second of work on `hosts` hosts. `fast`: the current lease counts on more
    hosts, where the job is faster.
    """

    job: int
    need: int
    first: int
    end: int
    value: int
    option: int
    each: int
    hosts: int
    due: Due
    fast: bool
    steady: bool


class AlternativeGenerator:
    """Generates the alternatives of jobs that deadlines and the horizon allow."""

    def __init__(self, round_: Round) -> None:
        self._round, self._largest = round_, largest_host_gpus(round_)
        self._away = unavailable_hosts(round_.leases, round_.now)
        self._all_hosts = sum(len(expand(entry.name)) for entry in round_.cluster.hosts)

    def of(self, jobs: Sequence[int]) -> Iterator[Alternative]:
        """Yield the alternatives of some jobs of the round, those of one job together."""
        for number, j in enumerate(jobs):
            job = self._round.jobs[j]
            for o in options_of(job):
                yield from self._with_option(number, job, o)

    def _with_option(self, number: int, job: Job, o: int) -> Iterator[Alternative]:
        leases, deadline, option = self._round.leases, job.deadline, job.options[o]
        if deadline is None:
            return
        pace, hosts = deadline.pace(o), hosts_of(job, option, self._largest)
        first = first_with(self._round, job, o)
        steady = job.running is None or job.running.option == o or self._must_leave(job)
        each = work_per_lease(pace, leases.length_s, hosts)
        count = leases_needed(deadline.work, pace, leases.length_s, hosts)
        regular: list[tuple[int, Due]] = []
        if count is not None:
            # The last lease need not be over when the job is done.
            left = deadline.work - (count - 1) * each
            last = completion_time(self._round.now, left, pace, hosts)
            regular = self._ends(job, o, count, first, last)
            for end, due in regular:
                yield Alternative(
                    number, count, first, end, due.value, o, each, hosts, due, False, steady
                )
        if first == 0 and not (job.running and job.running.pinned):
            for fewer_leases, end, due in self._faster_now(job, o, pace, hosts):
                if count is None or fewer_leases < count or due.value > _best_value(regular, end):
                    yield Alternative(
                        number, fewer_leases, 0, end, due.value, o, each, hosts, due, True, False
                    )

    def _faster_now(
        self, job: Job, o: int, pace: Pace, hosts: int
    ) -> Iterator[tuple[int, int, Due]]:
        """Yield leases, end and due time of a job that is faster on more hosts now."""
        leases, now, deadline = self._round.leases, self._round.now, job.deadline
        fastest = fastest_hosts(pace, hosts, min(tasks_of(job.options[o]), self._all_hosts))
        each = work_per_lease(pace, leases.length_s, hosts)
        most = work_per_lease(pace, leases.length_s, fastest)
        if deadline is None or most <= each:
            return
        if deadline.work <= most:
            done = completion_time(now, deadline.work, pace, fastest)
            if in_time := [due for due in dues_of(job) if done <= due.at]:
                yield 1, 1, max(in_time, key=lambda due: due.value)
        elif each:
            later = -(-(deadline.work - most) // each)
            last = completion_time(now, deadline.work - most - (later - 1) * each, pace, hosts)
            for end, due in self._ends(job, o, later + 1, 0, last):
                yield later + 1, end, due

    def _ends(self, job: Job, o: int, count: int, first: int, last: int) -> list[tuple[int, Due]]:
        """Return the due times that `count` leases from `first` on can meet, each with their end.

        `last`: when the job is done if its last lease is the current one. Of due times that never
        differ in their leases the best counts; in the current lease a job may be slower than here.
        """
        leases, found = self._round.leases, dict[tuple[int, int], tuple[int, Due]]()
        pinned = job.running is not None and job.running.pinned
        pace = Pace() if job.deadline is None else job.deadline.pace(o)
        differs = bool(pace.spanning) and not pinned and tasks_of(job.options[o]) > 1
        horizon = leases.start(self._round.now, leases.horizon)
        for due in dues_of(job):
            end = min((due.at - last) // leases.length_s + 1, leases.horizon)
            if pinned:
                end = min(end, count)
            key = (due.at, 0) if differs and due.at < horizon else (0, end)
            if end - first >= count and (key not in found or found[key][1].value < due.value):
                found[key] = end, due
        return list(found.values())

    def _must_leave(self, job: Job) -> bool:
        """Whether a running job is on a host that is away."""
        running = job.running
        return running is not None and any(task.host in self._away for task in running.tasks)


def _best_value(others: Sequence[tuple[int, Due]], end: int) -> int:
    """Return the largest value of an alternative with at least as much time."""
    return max((due.value for other, due in others if other >= end), default=0)


def tasks_of(option: Option) -> int:
    """Return the number of tasks of an option."""
    return sum(group.count for group in option.groups)


def options_of(job: Job) -> range | tuple[int, ...]:
    """Return the options that a job may be promised; a pinned job has its own only."""
    if job.running is not None and job.running.pinned:
        return (job.running.option,)
    return range(len(job.options))


def first_with(round_: Round, job: Job, option: int) -> int:
    """Return the first lease in which a job can use an option.

    A job that runs goes on with the option that it runs, and may change to another one with the
    next lease.
    """
    ready = None if job.deadline is None else job.deadline.ready
    first = round_.leases.first_usable(ready, round_.now)
    changes = job.running is not None and job.running.option != option
    return max(first, 1) if changes else first


def fastest_hosts(pace: Pace, least: int, most: int) -> int:
    """Return the hosts, `least` to `most`, on which a job is fastest; of ties the fewest."""
    numbers = [least] + [max(least, before + 1) for before in (1, *(m for m, _ in pace.spanning))]
    return max(
        (number for number in numbers if number == least or number <= most),
        key=lambda number: (relative_speed(pace, number), -number),
    )


def hosts_of(job: Job, option: Option, largest: Mapping[str, int]) -> int:
    """Return the number of hosts that a job is counted on: the fewest, or its own if pinned."""
    if job.running is not None and job.running.pinned:
        return len({task.host for task in job.running.tasks})
    return min_hosts(option, largest)


def dues_of(job: Job) -> list[Due]:
    """Return the due times of a job, earliest first, its present promise among them."""
    deadline = job.deadline
    if deadline is None:
        return []
    times = {due.at: due for due in deadline.due}
    promise = deadline.promise
    if promise is not None and (promise.at not in times or times[promise.at].value < promise.value):
        times[promise.at] = promise
    return [times[at] for at in sorted(times)]
