"""Repair beyond the disruption budget, and completion under strict priority."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush

from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import (
    more_of_pool,
    repair_preemptions,
    use_of_pool,
)
from placewright.formulations.gang.problem.jobs import ANY_JOB
from placewright.formulations.gang.problem.limits import (
    CLASS_VALUES,
    ENTITLED,
    NOTHING,
    SHARE_TERMS,
    Disruption,
    DisruptionBudget,
    QuotaKey,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU

# Repair of placements beyond the disruption budget: jobs go back to their places.
#
# Each step brings back the job for which the least value is given up, per share of what is too
# much. Pending jobs in its place stop, and running jobs that have moved there go back to theirs.
# Where too many jobs migrate, one may stop instead, if preemptions are left and that gives up
# less. So the steps end, at the latest where every running job is in place.


def repair_disruptions(placement: Placement) -> None:
    """Make preemptions lawful, and keep the placement within the disruption budget.

    Where jobs had to go back, pending ones start wherever they still fit.
    """
    repair_preemptions(placement)
    budget = placement.problem.budget
    if budget is None or _is_within(placement, budget):
        return
    starts = any(start.job == ANY_JOB for _, start in placement.changed())
    _Return(placement, budget).until_within()
    repair_preemptions(placement)
    if starts and _is_within(placement, budget):
        with _pending_jobs_only(placement):
            fill_by_policy(placement)
        repair_preemptions(placement)
    while not _is_within(placement, budget):
        _Return(placement, budget).until_within()
        repair_preemptions(placement)


def disruption_of(placement: Placement, budget: DisruptionBudget) -> Disruption:
    """Return what a placement uses of a disruption budget."""
    return budget.used(*_displaced(placement))


class BudgetGuard:
    """Whether a placement stays within the disruption budget, or no further beyond it than before.

    `holds` compares it with what it was when the guard was made.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement, self._budget = placement, placement.problem.budget
        self._before = self._excess()

    def holds(self) -> bool:
        """Whether no limit is exceeded by more, and no more protected jobs are preempted."""
        return all(now <= was for now, was in zip(self._excess(), self._before, strict=True))

    def _excess(self) -> tuple[int, ...]:
        if self._budget is None:
            return ()
        displaced = _displaced(self._placement)
        protected = sum(map(self._budget.is_protected, displaced[0]))
        return *self._budget.excess(self._budget.used(*displaced)), protected


def _is_within(placement: Placement, budget: DisruptionBudget) -> bool:
    return budget.allows(*_displaced(placement))


def _displaced(placement: Placement) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return the running jobs that are stopped, have moved, resize, and do that off their hosts."""
    displaced = list(placement.displaced_jobs())
    resized = [job for job in displaced if placement.is_running(job) and placement.resizes(job)]
    return (
        [job for job in displaced if not placement.is_running(job)],
        [job for job in displaced if placement.is_running(job) and not placement.resizes(job)],
        resized,
        [job for job in resized if not placement.resizes_in_place(job)],
    )


@contextmanager
def _pending_jobs_only(placement: Placement) -> Iterator[None]:
    """Context: no stopped running job starts."""
    before = {
        c: number
        for c, number in enumerate(placement.waiting)
        if placement.problem.classes[c].running
    }
    for c in before:
        placement.waiting[c] = 0
    yield
    for c, number in before.items():
        placement.waiting[c] = number


class _Return:
    """Brings running jobs of a placement back to their places."""

    def __init__(self, placement: Placement, budget: DisruptionBudget) -> None:
        self.placement, self.budget = placement, budget
        self.problem = placement.problem
        self.preempted, migrated, resized, left = _displaced(placement)
        self.migrated = migrated + resized
        self.used = budget.used(self.preempted, migrated, resized, left)
        # Numbers of the jobs that arrive on each host; those that have stopped stay listed.
        self.arrived: defaultdict[int, set[int]] = defaultdict(set)
        for number, start in placement.changed():
            for put in start.tasks:
                if not put.stays:
                    self.arrived[put.host].add(number)

    def until_within(self) -> None:
        """Bring jobs back until the placement is within the budget."""
        for job in self.preempted:
            if self.budget.is_protected(job):
                self.bring_back(job)
        queue = [
            (score, job)
            for job in (*self.preempted, *self.migrated)
            if (score := self._score(job)) is not None
        ]
        heapify(queue)
        while queue and self.budget.excess(self.used) != NOTHING:
            _, job = heappop(queue)
            # Fewer jobs may be in its place by now, and less may be too much.
            score = self._score(job)
            if score is not None and queue and score > queue[0][0]:
                heappush(queue, (score, job))
            elif score is not None and self._stops_rather(job):
                self._stop(job)
            elif score is not None:
                self.bring_back(job)

    def _stops_rather(self, job: int) -> bool:
        """Whether a job that has moved may stop instead, and that gives up less value."""
        placement, stop = self.placement, self.budget.stops.get(job)
        if stop is None or stop.protected or not placement.is_running(job):
            return False
        excess = self.budget.excess(self.used)
        after = self.budget.excess(self.used.plus(self._moved(job), -1).plus(stop.preempted))
        fewer = (after.migrated_jobs, after.resized_jobs) < (
            excess.migrated_jobs,
            excess.resized_jobs,
        )
        no_worse = all(now <= was for now, was in zip(after, excess, strict=True))
        return fewer and no_worse and self._value_of(job) < self._value_in_the_way(job)

    def _stop(self, job: int) -> None:
        """Stop a job that has moved, which counts as a preemption."""
        stop = self.budget.stops[job]
        self.used = self.used.plus(self._moved(job), -1).plus(stop.preempted)
        self.placement.stop(self.placement.start_of(job))

    def bring_back(self, job: int) -> None:
        """Bring a job back; pending jobs in its place stop, and running ones go back as well."""
        placement, running = self.placement, self.problem.running[job]
        if placement.in_place(job):
            return
        stop = self.budget.stops.get(job)
        if stop is not None:
            moved = placement.is_running(job)
            self.used = self.used.plus(self._moved(job) if moved else stop.preempted, -1)
        if placement.is_running(job):
            placement.stop(placement.start_of(job))
        hosts = {host for _, _, host, _ in running.places}
        while not placement.fits_in_place(job):
            there = list(self._takers_of_pools(job)) or [
                one for host in hosts for one in self._arrivals(host)
            ]
            pending = [(value, number) for value, number, other in there if other == ANY_JOB]
            if pending:
                placement.stop(min(pending)[1])
            elif there:
                self.bring_back(there[0][2])
            else:
                raise AssertionError("nobody is in the place of a job; expected that it fits")
        job_class = self.problem.classes[running.job_class]
        while over := placement.quota_excess(job_class.accounts, job_class.choices[0]):
            self._give_back(over)
        placement.restart(self.problem.running_placement_of[job])

    def _score(self, job: int) -> float | None:
        """Return the value given up to bring a job back, per share of the excess that this spares.

        None if it spares nothing.
        """
        placement, stop = self.placement, self.budget.stops.get(job)
        if stop is None or placement.in_place(job):
            return None
        moved = placement.is_running(job)
        spared = self._moved(job) if moved else stop.preempted
        excess = self.budget.excess(self.used)
        share = sum(
            min(1.0, amount / over) for amount, over in zip(spared, excess, strict=True) if over
        )
        if not share:
            return None
        loss = self._value_in_the_way(job)
        if not moved:
            loss -= self._value_of(job)
        elif self._stops_rather(job):
            loss = self._value_of(job)
        return loss / share if loss > 0 else loss * share

    def _moved(self, job: int) -> Disruption:
        """Return what a job that has moved or resizes counts with."""
        stop, placement = self.budget.stops[job], self.placement
        if not placement.resizes(job):
            return stop.migrated
        left = stop.pinned and not placement.resizes_in_place(job)
        return stop.resized._replace(left_place=int(left))

    def _value_of(self, job: int) -> int:
        """Return the value of a running job."""
        return self.problem.classes[self.problem.running[job].job_class].choices[0].value

    def _value_in_the_way(self, job: int) -> int:
        """Return about how much value starts where a job was, on GPUs that are not free."""
        placement, problem = self.placement, self.problem
        running = problem.running[job]
        groups = problem.classes[running.job_class].choices[0].groups
        lacking: defaultdict[int, int] = defaultdict(int)
        for group, _, host, _ in running.places:
            lacking[host] += int(problem.shape_gpu[groups[group].shape])
        stopped: dict[int, int] = {}
        for host, asked in lacking.items():
            free = placement.whole[host] * WHOLE_GPU + placement.partial_free[host].sum()
            left = asked - int(free)
            for value, number, other in sorted(self._arrivals(host)):
                if left <= 0:
                    break
                left -= self._milli_on(number, host)
                stopped[number] = value if other == ANY_JOB else 0
        return sum(stopped.values())

    def _arrivals(self, host: int) -> Iterator[tuple[int, int, int]]:
        """Yield value, number and job of each job with tasks that arrive on a host."""
        for number in sorted(self.arrived[host]):
            start = self.placement.get(number)
            if start is not None:
                job_class = self.problem.classes[start.job_class]
                yield job_class.choices[start.choice].value, number, start.job

    def _takers_of_pools(self, job: int) -> Iterator[tuple[int, int, int]]:
        """Yield value, number and job of what takes more than before where a job lacks a pool."""
        placement, problem = self.placement, self.problem
        home = problem.running_placement_of[job]
        for pool, left in zip(placement.pools.pools, placement.pools.left, strict=True):
            asked = use_of_pool(problem, pool, home)
            short = {d for d, amount in asked.items() if amount > left[d]}
            for number, start in list(placement.changed()) if short else ():
                if not short.isdisjoint(more_of_pool(problem, pool, start)):
                    yield placement.choice_of(start).value, number, start.job

    def _milli_on(self, number: int, host: int) -> int:
        """Return the milli-GPU of the tasks of a placed job that arrive on a host."""
        start = self.placement.get(number)
        if start is None:
            return 0
        groups = self.problem.classes[start.job_class].choices[start.choice].groups
        return sum(
            put.count * int(self.problem.shape_gpu[groups[put.group].shape])
            for put in start.tasks
            if put.host == host and not put.stays
        )

    def _give_back(self, keys: Iterable[QuotaKey]) -> None:
        """Stop the started job of least value that takes of some quotas or caps.

        Where there is none, a job goes back that resizes.
        """
        takers = [
            (start.job != ANY_JOB, job_class.choices[start.choice].value, number, start.job)
            for number, start in self.placement.changed()
            for job_class in [self.problem.classes[start.job_class]]
            if (start.job == ANY_JOB or start.choice)
            and self.problem.takes_of(keys, job_class.accounts, job_class.choices[start.choice])
        ]
        resizes, _, number, job = min(takers)
        if resizes:
            self.bring_back(job)
        else:
            self.placement.stop(number)


# Completion under strict priority: no GPU stays idle that a waiting job could have.
#
# A search that ends for want of time has not decided the lower priority classes, and a repair may
# free GPUs. What waits starts there greedily, class by class.


NO_LOSS = (ENTITLED, "remaining", *SHARE_TERMS)
"""Terms for which no start of a waiting job is a loss."""


def complete(placement: Placement) -> bool:
    """Start waiting jobs of all priority classes that still fit; return whether value rises.

    The placement keeps the disruption budget, and its preemptions are lawful, before and after.
    Nothing changes without priority classes, nor where a term before them may suffer.
    """
    before = placement.value
    if not _only_gains(placement.problem) or not any(placement.waiting):
        return False
    fill_by_policy(placement)
    repair_disruptions(placement)
    return placement.value > before


def _only_gains(problem: Problem) -> bool:
    """Whether no term before those of the priority classes may suffer from a start."""
    if not problem.priority_classes:
        return False
    before = problem.terms[: problem.terms.index(CLASS_VALUES[0])]
    return all(term in NO_LOSS for term in before)
