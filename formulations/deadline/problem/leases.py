"""Schedules under construction, what promises leave, and the current lease as a gang round."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.phases import InnerRound
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.problem.compile import Admission, largest_host_gpus
from placewright.formulations.deadline.problem.problem import (
    BEST_EFFORT,
    NONE,
    Problem,
    Schedule,
    demand_classes_of,
    number_of,
    priority_classes,
    usage_of,
)
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.leases import min_hosts, unavailable_hosts, work_per_lease
from placewright.instances.documents.deadline import Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Leases
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.instances.presets.presets import with_health
from placewright.topology.units import HOST_LEVEL, MILLION, WHOLE_GPU

# A schedule under construction: which job runs when, and the residual capacity of each lease.


class ScheduleState:
    """A mutable schedule within capacity; jobs may lack some of their leases.

    `alternative` (jobs,): the alternative by which each job runs, or `NONE`. `runs` and `idle`
    (jobs, horizon): where the job runs, and where its alternative would also allow it to run.
    `residual` (rows, horizon): what is left of each row, milli-GPU. `demand_class` and
    `class_demand` (alternatives,) and (classes, rows): alternatives of one class ask the same of
    all rows.
    """

    def __init__(self, problem: Problem, capacity: Ints | None = None) -> None:
        self.problem = problem
        self.class_demand, self.demand_class = demand_classes_of(problem.demand)
        self._rows = [np.flatnonzero(demand) for demand in self.class_demand]
        self._row_demand = [
            demand[rows, None] for demand, rows in zip(self.class_demand, self._rows, strict=True)
        ]
        self.residual = (problem.capacity if capacity is None else capacity).copy()
        self.alternative = np.full(problem.jobs, NONE, dtype=np.int64)
        self.runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
        self.idle = np.zeros_like(self.runs)

    def copy(self) -> ScheduleState:
        """Return an independent copy."""
        other = copy(self)
        other.residual, other.alternative = self.residual.copy(), self.alternative.copy()
        other.runs, other.idle = self.runs.copy(), self.idle.copy()
        return other

    def restore(self, other: ScheduleState) -> None:
        """Restore a copy, which must not change any more."""
        self.residual = other.residual
        self.alternative = other.alternative
        self.runs = other.runs
        self.idle = other.idle

    @classmethod
    def of(
        cls, problem: Problem, schedule: Schedule, capacity: Ints | None = None
    ) -> ScheduleState:
        """Return the state of a schedule; with less capacity, residual capacity may be negative."""
        state = cls(problem, capacity)
        state.add_all(schedule.alternative[has := schedule.alternative != NONE], schedule.runs[has])
        return state

    def schedule(self) -> Schedule:
        """Return the schedule; every job with an alternative must have all its leases."""
        return Schedule(self.alternative.copy(), self.runs.copy())

    def fits(self, demand_class: int) -> Bools:
        """Return whether one more job of a demand class fits in each lease (horizon,)."""
        fits: Bools = (
            self.residual[self._rows[demand_class]] >= self._row_demand[demand_class]
        ).all(axis=0)
        return fits

    def fits_by_class(self) -> tuple[Bools, Ints]:
        """Return whether one more job of each scheduled class fits, and the row of each class.

        (scheduled classes, horizon) and (classes,).
        """
        runs = (
            np.bincount(
                self.demand_class[self.alternative[self.alternative != NONE]],
                minlength=len(self.class_demand),
            )
            > 0
        )
        classes = np.flatnonzero(runs)
        fits = np.array(
            [self.fits(demand_class) for demand_class in classes.tolist()], dtype=np.bool_
        )
        row: Ints = runs.cumsum() - 1
        return fits.reshape(len(classes), self.problem.horizon), row

    def free_leases(self, alternative: int) -> Ints:
        """Return the leases, ascending, that an alternative may use and that hold it."""
        first, end = self.problem.first[alternative], self.problem.end[alternative]
        fits = (
            self.residual[self._rows[self.demand_class[alternative]], first:end]
            >= self._row_demand[self.demand_class[alternative]]
        )
        leases: Ints = np.flatnonzero(fits.all(axis=0)) + first
        return leases

    def add(self, alternative: int, leases: Ints) -> None:
        """Add an alternative in these leases, which have capacity; its job has none so far."""
        problem = self.problem
        job = self.problem.job[alternative]
        demand_class = self.demand_class[alternative]
        self.alternative[job] = alternative
        self.idle[job, problem.first[alternative] : problem.end[alternative]] = True
        self.idle[job, leases] = False
        self.runs[job, leases] = True
        self.residual[np.ix_(self._rows[demand_class], leases)] -= self._row_demand[demand_class]

    def add_all(self, alternatives: Ints, runs: Bools) -> None:
        """Add alternatives of unscheduled jobs with leases, bool (alternatives, horizon)."""
        problem, leases = self.problem, np.arange(self.problem.horizon)
        jobs = problem.job[alternatives]
        self.alternative[jobs] = alternatives
        self.runs[jobs] = runs
        inside = (problem.first[alternatives, None] <= leases) & (
            leases < problem.end[alternatives, None]
        )
        self.idle[jobs] = inside & ~runs
        self.residual -= usage_of(problem.demand[alternatives], runs)

    def remove(self, job: int) -> Ints:
        """Remove a job from the schedule, and return its leases."""
        leases = np.flatnonzero(self.runs[job])
        demand_class = self.demand_class[self.alternative[job]]
        self.residual[np.ix_(self._rows[demand_class], leases)] += self._row_demand[demand_class]
        self.runs[job] = self.idle[job] = False
        self.alternative[job] = NONE
        return leases

    def assign(self, job: int, lease: int) -> None:
        """Assign one more lease to a scheduled job."""
        self._switch(job, lease, on=True)

    def unassign(self, job: int, lease: int) -> None:
        """Take a lease from a scheduled job."""
        self._switch(job, lease, on=False)

    def _switch(self, job: int, lease: int, *, on: bool) -> None:
        self.runs[job, lease], self.idle[job, lease] = on, not on
        demand = self.class_demand[self.demand_class[self.alternative[job]]]
        self.residual[:, lease] += -demand if on else demand


# Slack: milli-GPU leases that promises leave before each time; a quick filter of alternatives.
#
# Until time T an alternative needs at least the leases that it cannot have after T (demand-bound
# test). So the promises of a schedule never need more than all leases before T have, and an
# alternative that would is rejected without a look at single leases.
#
# An alternative that needs n leases before `end` must begin by end - n: before that nothing is
# forced, one lease more in each lease from there to `end`, and all n afterwards. Two numbers
# describe it, and no array is as large as alternatives times leases.


class Slack:
    """Residual milli-GPU leases before each T, with the forced demand of promises taken off.

    `residual` (rows, horizon): for T of 1 to the horizon; negative where the promises cannot all be
    kept.
    """

    def __init__(self, problem: Problem, alternative: Ints) -> None:
        self.problem = problem
        self._steps = np.arange(1, problem.horizon + 1)
        alternatives = alternative[alternative != NONE]
        # Forced demand rises from lease to lease from an alternative's latest start to its end.
        rise = np.zeros((problem.horizon + 1, len(problem.capacity)), dtype=np.int64)
        np.add.at(
            rise,
            problem.end[alternatives] - problem.need[alternatives],
            problem.demand[alternatives],
        )
        np.subtract.at(rise, problem.end[alternatives], problem.demand[alternatives])
        taken = rise[:-1].cumsum(axis=0).cumsum(axis=0).T
        self.residual: Ints = problem.capacity.cumsum(axis=1) - taken

    def add(self, alternative: int) -> None:
        """Add the forced demand of a promise."""
        self._change(alternative, -1)

    def drop(self, alternative: int) -> None:
        """Remove the forced demand of a promise."""
        self._change(alternative, 1)

    def admits(self, alternative: int) -> bool:
        """Whether one more promise may fit; False is certain."""
        late, end, need = self._latest_start(alternative)
        demand = self.problem.demand[alternative][:, None]
        return bool(
            late >= self.problem.first[alternative]
            and (self.residual[:, :late] >= 0).all()
            and (self.residual[:, late:end] >= demand * self._steps[:need]).all()
            and (self.residual[:, end:] >= demand * need).all()
        )

    def admits_each(self, alternatives: Ints) -> Bools:
        """Return whether each alternative, alone, may fit beside the promises (alternatives,)."""
        problem = self.problem
        need, end = problem.need[alternatives], problem.end[alternatives]
        late = end - need
        fits: Bools = late >= problem.first[alternatives]
        for row, left in enumerate(self.residual):
            demand = problem.demand[alternatives, row]
            before = np.append(0, np.minimum.accumulate(left))
            after = np.append(np.minimum.accumulate(left[::-1])[::-1], np.iinfo(np.int64).max)
            fits &= (before[np.maximum(0, late)] >= 0) & (after[end] >= demand * need)
            for each in np.unique(demand[fits]).tolist():
                mine = np.flatnonzero(fits & (demand == each))
                ramp = left - each * self._steps
                least = _range_minimum(ramp, late[mine], end[mine])
                fits[mine] = least >= -each * late[mine]
        return fits

    def _latest_start(self, alternative: int) -> tuple[int, int, int]:
        end, need = int(self.problem.end[alternative]), int(self.problem.need[alternative])
        return end - need, end, need

    def _change(self, alternative: int, sign: int) -> None:
        late, end, need = self._latest_start(alternative)
        demand = sign * self.problem.demand[alternative][:, None]
        self.residual[:, late:end] += demand * self._steps[:need]
        self.residual[:, end:] += demand * need


def _range_minimum(values: Ints, first: Ints, end: Ints) -> Ints:
    """Return the minimum of the values over each interval, none empty (sparse table).

    The minima of all runs of 1, 2, 4, ... values are made once; two of them cover an interval.
    """
    runs, length = [values], end - first
    for step in range(int(length.max(initial=1)).bit_length() - 1):
        runs.append(np.minimum(runs[-1][: -(1 << step)], runs[-1][1 << step :]))
    level = np.frexp(length.astype(np.float64))[1] - 1
    least = np.empty(len(length), dtype=np.int64)
    for step, run in enumerate(runs):
        of = np.flatnonzero(level == step)
        least[of] = np.minimum(run[first[of]], run[end[of] - (1 << step)])
    return least


# The current lease as a round of gangs: jobs that must run now, and jobs that may.
#
# A job whose later leases alone do not keep its promise must run now: it precedes all others and
# may preempt any job that is not pinned. All other jobs take what is left, by the policy's terms
# and by priority; with `disruption` first, a running job has a small value, so that few are
# preempted. Where spreading a job over hosts slows it, it has a second option, on one host.


FIRST_PRIORITY = 10**9
"""Of jobs that must run, less one for each time that their GPUs could double: the larger, the
sooner. That of any other job is its own, and below."""
MAX_OTHER_PRIORITY = FIRST_PRIORITY - 32


COUNTED = ("best_effort", "early")
PLACES = ("disruption", "spread", "proximity", "opened")
"""Terms that the gangs have from the policy."""


@dataclass(frozen=True, eq=False)
class CurrentLease(InnerRound):
    """The current lease as a round of gangs, and how its plans are lifted."""

    admission: Admission
    round: Round  # Of policy `gang`; with the hosts of the whole round, in its order
    evicted: frozenset[int]  # Indices in the whole round of jobs that run where they cannot stay

    def lift(self, plan: Candidate) -> Candidate:
        """Return a plan of the gangs as one of the whole round, without its promises."""
        lifted = super().lift(plan)
        stopped = {job: NONE for job in self.evicted if job not in lifted.starts}
        return replace(lifted, preempted={**lifted.preempted, **stopped})


def build_current_lease(admission: Admission, schedule: Schedule, must: Bools) -> CurrentLease:
    """Return the gangs of the current lease.

    `schedule`: promises, and the leases that keep them. `must` (jobs,): who is to run now, of the
    jobs of the admission's problem.
    """
    round_, problem = admission.round, admission.problem
    number = {j: p for p, j in enumerate(admission.jobs)}
    evicted, gangs = jobs_on_away_hosts(round_), _GangBuilder(admission)
    for j in range(len(round_.jobs)):
        position = number.get(j)
        alternative = NONE if position is None else int(schedule.alternative[position])
        if alternative == NONE:
            deadline = round_.jobs[j].deadline
            ready = None if deadline is None else deadline.ready
            if round_.leases.first_usable(ready, round_.now) == 0:
                gangs.add_without_promise(j, evicted=j in evicted)
        elif problem.first[alternative] == 0:
            gangs.add_promised(j, alternative, must=bool(must[position]), evicted=j in evicted)
        elif round_.jobs[j].running and j not in evicted:
            gangs.add_switching(j)
    inner = gang_round(round_, gangs.build_jobs(), gangs.terms)
    return CurrentLease(admission, inner, evicted, jobs=tuple(gangs.jobs), options=gangs.options)


def jobs_on_away_hosts(round_: Round) -> frozenset[int]:
    """Return the running jobs that must move, since a host of theirs is away now."""
    gone = unavailable_hosts(round_.leases, round_.now)
    return frozenset(
        j
        for j, job in enumerate(round_.jobs)
        if job.running and any(task.host in gone for task in job.running.tasks)
    )


def gang_round(round_: Round, jobs: tuple[Job, ...], terms: tuple[str, ...]) -> Round:
    """Return the round of policy `gang` of these jobs and terms; away hosts are closed."""
    gone = unavailable_hosts(round_.leases, round_.now)
    policy = round_.policy.model_copy(
        update={
            "formulation": "gang",
            "terms": terms,
            "priority": "preemption",
            "keep_sizes": True,
        }
    )
    return round_.model_copy(
        update={
            "cluster": with_health(round_.cluster, dict.fromkeys(gone, False)),
            "jobs": jobs,
            "policy": policy,
            "leases": Leases(),
        }
    )


@dataclass(frozen=True, slots=True)
class _GangOption:
    """An option of a gang: the round's option, and what it contributes to each term."""

    option: Option
    number: int
    value: int
    best_effort: int
    early: int


class _GangBuilder:
    """Builds the gangs; keeps what each contributes to the terms of the round."""

    def __init__(self, admission: Admission) -> None:
        self._admission, self._round = admission, admission.round
        self._largest = largest_host_gpus(self._round)
        self._gangs: list[tuple[Job, list[_GangOption]]] = []
        self.jobs: list[int] = []

    @property
    def terms(self) -> tuple[str, ...]:
        """Terms of the gang round: `progress` stands for `best_effort` and `early` together."""
        own = ["progress" if term in COUNTED else term for term in self._round.policy.terms]
        return ("value", *(t for t in dict.fromkeys(own) if t == "progress" or t in PLACES))

    @property
    def options(self) -> tuple[tuple[int, ...], ...]:
        """Option of the round behind each option of each gang."""
        return tuple(tuple(variant.number for variant in variants) for _, variants in self._gangs)

    def add_promised(self, j: int, alternative: int, *, must: bool, evicted: bool) -> None:
        """Add a job whose promise allows it to run now, with its alternative's option."""
        number = int(self._admission.option[alternative])
        job, full = self._round.jobs[j], max(1, int(self._admission.gains[alternative]))
        milli = job.options[number].milli_gpu
        value = 0 if evicted else self._value_of_staying(job)
        priority = min(job.priority, MAX_OTHER_PRIORITY)
        if must:
            # Large jobs take the place of small ones, which find other places more easily.
            gpus = -(-milli // WHOLE_GPU)
            doublings = gpus.bit_length() - 1
            value = (
                parameters.PARAMETERS.must_run_value_per_gpu
                * max(1, gpus)
                * (parameters.PARAMETERS.num_doublings_of_value + max(0, doublings))
            )
            priority = max(MAX_OTHER_PRIORITY + 1, FIRST_PRIORITY - 31 + gpus.bit_length())
        variants = [
            _GangOption(option, number, max(min(value, 1), value * each // full), 0, milli)
            for option, each in self._variants(j, number)
        ]
        self._add(j, variants, evicted=evicted, priority=min(FIRST_PRIORITY, priority))

    def add_switching(self, j: int) -> None:
        """Add a running job whose promise has another option from the next lease on.

        Its promise is kept only if another job takes its place, so stopping it loses nothing.
        """
        job = self._round.jobs[j]
        for number in _allowed_options(job):
            variant = _GangOption(job.options[number], number, value=0, best_effort=0, early=0)
            self._add(j, [variant], evicted=False, priority=min(job.priority, MAX_OTHER_PRIORITY))

    def add_without_promise(self, j: int, *, evicted: bool) -> None:
        """Add a job without a promise, with all its options."""
        job = self._round.jobs[j]
        variants = [
            _GangOption(
                option,
                number,
                value=0 if evicted else self._value_of_staying(job),
                best_effort=best_effort_value(self._round, job, each),
                early=0,
            )
            for number in _allowed_options(job)
            for option, each in self._variants(j, number)
        ]
        priority = min(self._round.jobs[j].priority, MAX_OTHER_PRIORITY)
        self._add(j, variants, evicted=evicted, priority=priority)

    def _value_of_staying(self, job: Job) -> int:
        """Return the value of a running job that goes on, in GPUs; 0 unless disruption leads."""
        terms = self._round.policy.terms
        first = next((term for term in terms if term in (*COUNTED, "disruption")), None)
        return _gpus_held(job) if first == "disruption" else 0

    def _variants(self, j: int, number: int) -> Iterator[tuple[Option, int]]:
        """Yield an option and its work per lease; on one host first, if spreading slows it."""
        job, length = self._round.jobs[j], self._round.leases.length_s
        option = job.options[number]
        pace = Pace() if job.deadline is None else job.deadline.pace(number)
        least = min_hosts(option, self._largest)
        slowest = min((speed for _, speed in pace.spanning), default=1000)
        if least == 1 and slowest < 1000:
            yield (
                option.model_copy(update={"required": HOST_LEVEL}),
                work_per_lease(pace, length, 1),
            )
            worst = pace.model_copy(update={"spanning": ((2, slowest),)})
            yield option, work_per_lease(worst, length, 2)
        else:
            yield option, work_per_lease(pace, length, least)

    def _add(self, j: int, variants: list[_GangOption], *, evicted: bool, priority: int) -> None:
        job = self._round.jobs[j]
        running = None if evicted else job.running
        if running is not None:
            spread = len({task.host for task in running.tasks}) > 1
            running = running.model_copy(update={"option": len(variants) - 1 if spread else 0})
        update = {"running": running, "priority": priority, "deadline": None}
        self.jobs.append(j)
        self._gangs.append((job.model_copy(update=update), variants))

    def build_jobs(self) -> tuple[Job, ...]:
        """Return the gangs; the first of both terms has the larger part of `progress`."""
        progress = iter(_weighted_sum(self._counts()).tolist())
        jobs = []
        for job, variants in self._gangs:
            options = tuple(
                variant.option.model_copy(
                    update={"value": variant.value, "progress": next(progress)}
                )
                for variant in variants
            )
            jobs.append(job.model_copy(update={"options": options}))
        return tuple(jobs)

    def _counts(self) -> Ints:
        """Return what each option counts in each term, `best_effort` by priority class."""
        classes = priority_classes(self._round, BEST_EFFORT)
        rows = []
        for j, (_, variants) in zip(self.jobs, self._gangs, strict=True):
            k = number_of(classes, self._round.jobs[j])
            for variant in variants:
                best_effort = [variant.best_effort * (i == k) for i in range(len(classes) or 1)]
                row = {BEST_EFFORT: best_effort, "early": [variant.early]}
                rows.append([n for term in self._round.policy.terms for n in row.get(term, ())])
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(rows[0]) if rows else 0)


def best_effort_value(round_: Round, job: Job, each: int) -> int:
    """Return what work in the current lease (thousandths of a second) adds to `best_effort`."""
    work = round_.leases.horizon * round_.leases.length_s
    if job.deadline is not None:
        work = job.deadline.work_s
    return job.weight * min(MILLION, MILLION * each // (1000 * work))


def _weighted_sum(counts: Ints) -> Ints:
    """Return one integer per option that orders options lexicographically by the terms.

    Where that makes numbers that a solver cannot tell apart, each has a hundredth of the one
    before.
    """
    if not counts.shape[1]:
        return np.zeros(len(counts), dtype=np.int64)
    counts = counts // np.maximum(1, np.gcd.reduce(counts, axis=0))
    most = counts.sum(axis=0).tolist()
    factors = [1.0]
    for total in reversed(most[1:]):
        factors.insert(0, factors[0] * (total + 1))
    if factors[0] * most[0] > parameters.PARAMETERS.max_total_progress:
        factors = [
            parameters.PARAMETERS.max_total_progress * 0.01**rank / max(1, total)
            for rank, total in enumerate(most)
        ]
    weighted: Ints = np.ceil(counts * factors).sum(axis=1).astype(np.int64)
    return weighted


def _gpus_held(job: Job) -> int:
    """Return the GPUs that a job holds now, parts rounded up."""
    if job.running is None:
        return 0
    return -(-job.options[job.running.option].milli_gpu // WHOLE_GPU)


def _allowed_options(job: Job) -> range | tuple[int, ...]:
    """Return the options that a job may run with now: a running job keeps its own."""
    if job.running is not None:
        return (job.running.option,)
    return range(len(job.options))
