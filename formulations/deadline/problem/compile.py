"""From a round to the arrays of the problem: alternatives, and rows of capacity by lease."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    AdmittedClasses,
    Problem,
    Schedule,
    number_of,
    priority_classes,
    units_of,
    weights_of,
)
from placewright.formulations.gang.problem.limits import accounts_of, limits_of
from placewright.instances.checks.deadlines import unions
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.leases import (
    completion_time,
    leases_needed,
    min_hosts,
    relative_speed,
    unavailable_hosts,
    work_per_lease,
)
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.deadline import Deadline, Due, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

# Rows of capacity: what sets of GPU models, quotas and caps have in each lease.
#
# Unhealthy hosts have nothing, hosts that are away nothing while they are, and what pinned jobs
# hold is not there for others until their work is done. Reservations are of the current lease; it
# also has what jobs hold already where nothing new may arrive.


Models = frozenset[str]
Leases = tuple[int, int]
"""An interval of leases: the first one, and the one after the last."""


class CapacityRows:
    """Capacity rows of a round: sets of GPU models, quotas and caps.

    Of quotas and caps GPUs count, GPUs of a model and jobs.
    `asking`: jobs that may ask for leases.
    """

    def __init__(self, round_: Round, asking: Iterable[Job]) -> None:
        self._round = round_
        self._hosts = hosts_by_name(round_.cluster)
        self._all_models = Models(one.gpu_model for one in self._hosts.values() if one.gpu_model)
        asking = list(asking)
        sets = unions(
            {
                self._allowed(group.gpu_models)
                for job in asking
                for option in job.options
                for group in option.groups
                if group.gpu
            }
        )
        self._sets = sorted(sets, key=lambda one: (len(one), sorted(one)))
        limits = limits_of(round_)
        owners = {account for job in asking for account in accounts_of(job)} if limits else set()
        self._limits = [
            (account, measure, most)
            for account, measures in limits.items()
            for measure, most in measures.items()
            if account in owners and measure.kind != "resources"
        ]

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._sets) + len(self._limits)

    def demand(self, job: Job, option: int) -> list[int]:
        """Return what a job asks of each row with an option; 0 if it is pinned."""
        if job.running is not None and job.running.pinned:
            return [0] * self.count
        asked = [0] * len(self._sets)
        for group in job.options[option].groups:
            models = self._allowed(group.gpu_models)
            for r, row in enumerate(self._sets):
                if models <= row:
                    asked[r] += group.milli_gpu
        mine = accounts_of(job) if self._limits else ()
        return asked + [
            measure.asked_by(job.options[option]) if account in mine else 0
            for account, measure, _ in self._limits
        ]

    def capacity(self) -> Ints:
        """Return the capacity of each row in each lease, milli-GPU or jobs (rows, horizon)."""
        capacity = self._capacity_by_model()
        none = np.zeros(self._round.leases.horizon, dtype=np.int64)
        rows = [sum((capacity[model] for model in sorted(row)), none) for row in self._sets]
        for account, measure, most in self._limits:
            left = np.full_like(none, most)
            mine = [
                (job, measure.asked_by(job.options[job.running.option]))
                for job in self._round.jobs
                if job.running is not None and account in accounts_of(job)
            ]
            left[0] = max(most, sum(held for _, held in mine))
            for job, held in mine:
                if job.running is not None and job.running.pinned:
                    left[: self._leases_left(job)] -= held
            rows.append(np.maximum(left, 0))
        return np.array(rows, dtype=np.int64).reshape(self.count, len(none))

    def current_milli_gpu(self) -> int:
        """Return the milli-GPU of all models in the current lease."""
        return sum(int(row[0]) for row in self._capacity_by_model().values())

    def has_closed_running_gpus(self) -> bool:
        """Whether something runs on GPUs on which nothing new may arrive now."""
        closed, away = self._closed(), _away(self._round)
        return any(
            gpu in closed.get(task.host, ()) and not _is_away_now(away, task.host)
            for job in self._round.jobs
            if job.running is not None
            for task in job.running.tasks
            for gpu in task.gpus
        )

    def _allowed(self, models: Sequence[str] | None) -> Models:
        return self._all_models if models is None else self._all_models & Models(models)

    def _capacity_by_model(self) -> dict[str, Ints]:
        """Return the milli-GPU of each model in each lease (horizon,)."""
        horizon, away, closed = self._round.leases.horizon, _away(self._round), self._closed()
        healthy = {
            host: entry.healthy
            for entry in self._round.cluster.hosts
            for host in expand(entry.name)
        }
        change = {model: np.zeros(horizon + 1, dtype=np.int64) for model in self._all_models}
        for host, one in self._hosts.items():
            if one.gpu_model is None or not healthy[host]:
                continue
            mine, kept = change[one.gpu_model], WHOLE_GPU * len(closed.get(host, ()))
            _add(mine, 0, horizon, WHOLE_GPU * one.gpus)
            for first, end in away.get(host, ()):
                _add(mine, first, end, -WHOLE_GPU * one.gpus)
            if not _is_away_now(away, host):
                _add(mine, 0, 1, -kept)
        for job in self._round.jobs:
            running = job.running
            for task in () if running is None else running.tasks:
                model = self._hosts[task.host].gpu_model
                if model is None or running is None:
                    continue
                each = min(WHOLE_GPU, job.options[running.option].groups[task.group].gpu)
                stays = sum(gpu in closed.get(task.host, ()) for gpu in task.gpus)
                if not _is_away_now(away, task.host):
                    _add(change[model], 0, 1, each * stays)
                if running.pinned:
                    leases_left, held = self._leases_left(job), each * len(task.gpus)
                    leases_left = leases_left if healthy[task.host] else min(leases_left, 1)
                    _add(change[model], 0, leases_left, -held)
                    for first, end in away.get(task.host, ()):
                        _add(change[model], min(first, leases_left), min(end, leases_left), held)
        return {model: each[:-1].cumsum() for model, each in change.items()}

    def _closed(self) -> dict[str, set[int]]:
        """Return the GPUs of each host on which nothing new may arrive now."""
        closed = {
            host: set(range(self._hosts[host].gpus))
            for entry in self._round.cluster.hosts
            if not entry.healthy
            for host in expand(entry.name)
        }
        for reservation in self._round.reservations:
            for host in expand(reservation.host):
                every = tuple(range(self._hosts[host].gpus))
                closed.setdefault(host, set()).update(reservation.gpus or every)
        return closed

    def _leases_left(self, job: Job) -> int:
        """Return the number of leases that a pinned job still needs, at most the horizon."""
        leases, count = self._round.leases, None
        if job.deadline is not None and job.running is not None:
            hosts = len({task.host for task in job.running.tasks})
            pace = job.deadline.pace(job.running.option)
            count = leases_needed(job.deadline.work, pace, leases.length_s, hosts)
        return leases.horizon if count is None else min(count, leases.horizon)


def largest_host_gpus(round_: Round) -> dict[str, int]:
    """Return the GPUs of the largest host of each GPU model."""
    largest: dict[str, int] = {}
    for one in hosts_by_name(round_.cluster).values():
        if one.gpu_model is not None:
            largest[one.gpu_model] = max(one.gpus, largest.get(one.gpu_model, 0))
    return largest


def _away(round_: Round) -> Mapping[str, list[Leases]]:
    """Return the intervals of leases in which each host is away: sorted, disjoint."""
    every: defaultdict[str, list[Leases]] = defaultdict(list)
    for outage in round_.leases.outages:
        first, end = round_.leases.overlapped(outage, round_.now)
        for host in expand(outage.host) if first < end else ():
            every[host].append((first, end))
    return {host: _merge(sorted(leases)) for host, leases in every.items()}


def _merge(sorted_: list[Leases]) -> list[Leases]:
    """Return sorted intervals with those merged that touch."""
    merged = sorted_[:1]
    for first, end in sorted_[1:]:
        start, so_far = merged[-1]
        if first > so_far:
            merged.append((first, end))
        else:
            merged[-1] = start, max(so_far, end)
    return merged


def _is_away_now(away: Mapping[str, list[Leases]], host: str) -> bool:
    """Whether a host is away in the current lease."""
    return host in away and away[host][0][0] == 0


def _add(change: Ints, first: int, end: int, amount: int) -> None:
    """Add an amount from one lease to before another, in the changes from lease to lease."""
    change[first] += amount
    change[end] -= amount


# Alternatives: a due time and an option by which a job can be promised something, and its leases.
#
# docs/formulations/deadline.md defines which plans exist; each of them gives its promises by some
# of these alternatives. Most are *steady*: counted leases keep the promise while the job runs on
# as it does. The others need more from the current lease:
#
# - a running job changes to another option from the next lease on, so that another job must take
# its
#   place now (unless its host is away: such alternatives are steady);
# - a job runs now on more hosts than it needs, because it is faster there.


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


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """The admission problem of a round, and what its jobs and alternatives stand for."""

    round: Round
    problem: Problem
    jobs: tuple[int, ...]  # Index in the round of each job of `problem`
    option: Ints  # (alternatives,): the option of each alternative
    due: tuple[Due, ...]  # What each alternative promises
    # (alternatives,): work per lease, thousandths of a work-second, at the option's least hosts.
    gains: Ints
    hosts: Ints  # (alternatives,): the least hosts of the alternative's option
    # (alternatives,): whether the alternative counts on more hosts in the current lease, where it
    # is faster.
    fast: Bools
    # (alternatives,): whether counted leases keep the promise while the job runs on as it does.
    steady: Bools
    # The promises that the last round has left, by the steady alternatives.
    known: Schedule | None = None

    def steady_only(self) -> Admission:
        """Return the admission with its steady alternatives only."""
        if self.steady.all():
            return self
        alternatives = np.flatnonzero(self.steady)
        return replace(
            self,
            problem=self.problem.restrict(alternatives),
            option=self.option[alternatives],
            due=tuple(self.due[alternative] for alternative in alternatives.tolist()),
            gains=self.gains[alternatives],
            hosts=self.hosts[alternatives],
            fast=self.fast[alternatives],
            steady=self.steady[alternatives],
        )

    def after_current_lease(self, alternative: int, hosts: int) -> tuple[int, int, int, bool]:
        """Return what an alternative needs after the current lease on some hosts.

        Leases that are still needed, the first of them that can be used, the one after the last,
        and whether that is in time.
        """
        leases, now, at = self.round.leases, self.round.now, self.due[alternative].at
        deadline, pace = self._of(alternative)
        left = deadline.work - work_per_lease(pace, leases.length_s, hosts)
        if left <= 0:
            return 0, 1, 1, completion_time(now, deadline.work, pace, hosts) <= at
        each = int(self.gains[alternative])
        if not each:
            return leases.horizon, 1, 1, False
        count = -(-left // each)
        last = completion_time(now, left - (count - 1) * each, pace, int(self.hosts[alternative]))
        return count, 1, min((at - last) // leases.length_s + 1, leases.horizon), True

    def finish(self, alternative: int, leases: Sequence[int] | Ints, hosts: int | None) -> int:
        """Return when a job is done that runs in these leases, in the current one on `hosts`."""
        section, now = self.round.leases, self.round.now
        deadline, pace = self._of(alternative)
        least, last = int(self.hosts[alternative]), int(leases[-1])
        here = least if hosts is None else hosts
        left = deadline.work - (len(leases) - 1) * work_per_lease(pace, section.length_s, least)
        if last and leases[0] == 0:
            left += work_per_lease(pace, section.length_s, least) - work_per_lease(
                pace, section.length_s, here
            )
        return completion_time(section.start(now, last), left, pace, least if last else here)

    def _of(self, alternative: int) -> tuple[Deadline, Pace]:
        deadline = self.round.jobs[self.jobs[self.problem.job[alternative]]].deadline
        if deadline is None:
            raise AssertionError("an alternative is of a job with a deadline")
        return deadline, deadline.pace(int(self.option[alternative]))


def compile_admission(round_: Round) -> Admission:
    """Return the admission problem of a round."""
    jobs = tuple(j for j, job in enumerate(round_.jobs) if dues_of(job))
    rows = CapacityRows(round_, (round_.jobs[j] for j in jobs))
    alternatives = list(AlternativeGenerator(round_).of(jobs))
    # The alternatives of a job with one option ask the same.
    asked = {
        (number, option): rows.demand(round_.jobs[jobs[number]], option)
        for number, option in {
            (alternative.job, alternative.option) for alternative in alternatives
        }
    }
    columns = np.array([alternative[:8] for alternative in alternatives], dtype=np.int64).reshape(
        -1, 8
    )
    problem = Problem(
        capacity=rows.capacity(),
        loss=np.array([_promised_value(round_.jobs[j]) for j in jobs], dtype=np.int64),
        job=columns[:, 0],
        need=columns[:, 1],
        first=columns[:, 2],
        end=columns[:, 3],
        value=columns[:, 4],
        demand=np.array(
            [asked[alternative.job, alternative.option] for alternative in alternatives],
            dtype=np.int64,
        ).reshape(len(alternatives), rows.count),
        classes=_classes_of_admitted(round_, jobs),
    )
    return Admission(
        round=round_,
        problem=problem,
        jobs=jobs,
        option=columns[:, 5],
        due=tuple(alternative.due for alternative in alternatives),
        gains=columns[:, 6],
        hosts=columns[:, 7],
        fast=np.array([alternative.fast for alternative in alternatives], dtype=np.bool_),
        steady=np.array([alternative.steady for alternative in alternatives], dtype=np.bool_),
    )


def _classes_of_admitted(round_: Round, jobs: Sequence[int]) -> AdmittedClasses | None:
    classes = priority_classes(round_, ADMITTED)
    if not classes:
        return None
    units = units_of(round_, classes)
    return AdmittedClasses(
        number=np.array([number_of(classes, round_.jobs[j]) for j in jobs], dtype=np.int64),
        weights=weights_of(classes, units),
        units=units,
        asked=tuple(one.asked for one in classes),
    )


def without_deadlines(round_: Round, jobs: Collection[int]) -> Round:
    """Return the round with these jobs due at the end of the horizon only."""
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


def _promised_value(job: Job) -> int:
    return job.deadline.promise.value if job.deadline and job.deadline.promise else 0
