"""A large round, region by region: who goes where, each region on its own, and what found no room.

First the program of regions (choosing.py) says which region runs which job. Each region decides its
part as a round of gangs, preemption included. Jobs that found no room there are then offered to
other regions, where those that have started stay where they are, and nobody moves on hosts to which
something came: so what a region does next is lawful with what it did before.

If the value of that is not near enough to its bound, and as much time is left as it took, all is
done once more with the kinds of the bound (kinds.py), by which hosts may be emptied for gangs.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Ints
from placewright.formulations.gang.problem.quotas import resources_held
from placewright.formulations.geo.heuristics.anti_affinity import CrossRegionAntiAffinity
from placewright.formulations.geo.heuristics.assign import (
    RegionAssignment,
    assign_regions,
    solve_cost_bound,
    solve_integer_value_bound,
)
from placewright.formulations.geo.heuristics.data_orders import add_data_orders, regions_after
from placewright.formulations.geo.heuristics.exchange import minimise_remote_reads
from placewright.formulations.geo.heuristics.residual import ResidualCapacity
from placewright.formulations.geo.heuristics.subproblem import (
    FixedDecisions,
    Quotas,
    RegionSubproblem,
    RegionSubproblems,
)
from placewright.formulations.geo.models.current_capacity import (
    classes_at_current_capacity,
    classes_at_residual_capacity,
)
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.geo.problem.job_classes import build_job_classes
from placewright.formulations.geo.problem.running_jobs import RunningJobs
from placewright.formulations.session import Bound, Candidate, Session, near

MAX_RESIDUAL_PASSES = 3
"""How often jobs that found no room are offered to other regions."""

VALUE_GAP = 5e-3
"""Gap of value within which no other plan is sought."""

MIN_GAIN = 5e-4
"""Part of the value that is there already for which no other pass is made."""

BLOCKED_MILLI = 2**40
"""Milli-GPU taken of a host to which nothing may come."""

COSTS = ("remote_reads", "egress_cost")


class RegionResult(Protocol):
    """How a region's round was decided."""

    @property
    def candidate(self) -> Candidate | None:
        """The plan, None without one."""
        ...


SolveRegions = Callable[[Sequence[RegionSubproblem], Session], Iterable[RegionResult]]


def decompose_by_region(
    running_jobs: RunningJobs,
    classes: JobClasses,
    most: float,
    session: Session,
    decide: SolveRegions,
    *,
    last: bool,
) -> Iterator[Candidate]:
    """Yield a plan of a round, after an interrupt of what was decided by then.

    `kinds` are those of bounds, `most` is the value that they prove; `last`: no other plan follows.
    """
    costs, began = costs_of(running_jobs.problem), time.monotonic()
    regions, anti_affinity = (
        RegionSubproblems(running_jobs.problem, running_jobs.gangs),
        CrossRegionAntiAffinity(running_jobs.problem),
    )
    first = running_jobs
    if anti_affinity:
        first = RunningJobs(
            replace(running_jobs.problem, eligible=anti_affinity.first_regions()),
            running_jobs.gangs,
        )
        classes = build_job_classes(first)
    found = _Decomposition(running_jobs, regions, anti_affinity, costs, decide)
    other = _Decomposition(running_jobs, regions, anti_affinity, costs, decide)
    interrupt: KeyboardInterrupt | None = None
    try:
        found.run(classes_at_current_capacity(first), session)
        took = 0.0 if session.deterministic else time.monotonic() - began
        if not session.expired(took) and not near(most, found.value, VALUE_GAP):
            other.run(classes, session)
    except KeyboardInterrupt as error:
        interrupt = error
    fixed = max(found, other, key=lambda rounds: rounds.value).fixed
    plan = Candidate(
        dict(fixed.starts),
        "regions",
        dict(fixed.preempted),
        final=last,
        slots=dict(fixed.slots),
    )
    yield add_data_orders(
        running_jobs.problem,
        minimise_remote_reads(running_jobs.problem, running_jobs.gangs, plan, costs),
    )
    if interrupt is not None:
        raise interrupt


def integer_value_bound(classes: JobClasses, session: Session) -> Iterator[Bound]:
    """Yield the most value of any plan of whole jobs, if the best one is not proven without it."""
    if session.best is None or session.close_enough(session.best["value"]):
        return
    most = solve_integer_value_bound(classes, session)
    if most is not None:
        yield Bound("value", most)


def cost_bound(classes: JobClasses, session: Session) -> Iterator[Bound]:
    """Yield what plans of the best plan's value cost at least, in the second term."""
    problem = classes.problem
    first = next((t for t in problem.round.policy.terms[1:2] if t in COSTS), None)
    if first is not None and session.best is not None:
        value = session.best["value"]
        least = solve_cost_bound(classes, costs_of(problem), value, session)
        if least is not None:
            yield Bound(first, least, (("value", value),), certified=True)


def costs_of(problem: Problem) -> Ints:
    """Return what jobs cost in regions, as the first term says that counts it."""
    known = {"remote_reads": problem.remote_gib, "egress_cost": problem.egress}
    return next((known[t] for t in problem.round.policy.terms if t in known), problem.remote_gib)


class _Decomposition:
    """The rounds of regions, pass after pass."""

    def __init__(
        self,
        running_jobs: RunningJobs,
        regions: RegionSubproblems,
        anti_affinity: CrossRegionAntiAffinity,
        costs: Ints,
        decide: SolveRegions,
    ) -> None:
        self.running_jobs, self.problem, self.round = (
            running_jobs,
            running_jobs.problem,
            running_jobs.problem.round,
        )
        self.regions, self.costs, self.decide = regions, costs, decide
        self.fixed = FixedDecisions()
        self._anti_affinity = anti_affinity
        self._tried: set[tuple[int, int]] = set()

    @property
    def value(self) -> int:
        """What the plan counts."""
        jobs, fixed = self.round.jobs, self.fixed
        starts = fixed.starts.items()
        new = sum(jobs[j].value_of(o) for j, (o, _) in starts if jobs[j].running is None)
        stopped = ((jobs[j], jobs[j].running) for j in fixed.preempted)
        return new - sum(job.value_of(runs.option) for job, runs in stopped if runs is not None)

    def run(self, classes: JobClasses, session: Session) -> None:
        """Decide all passes, the first one by the program of these kinds."""
        assignment = assign_regions(classes, self.costs, session)
        self._solve_regions(
            self._assign_single_region_jobs(
                self._greedy_assignment() if assignment is None else assignment
            ),
            session,
        )
        for _ in range(MAX_RESIDUAL_PASSES):
            before = len(self.fixed.starts)
            assignment = self._next_assignment(session)
            if assignment is None:
                break
            self._solve_regions(assignment, session)
            if len(self.fixed.starts) == before:
                break

    def _assign_single_region_jobs(self, assignment: RegionAssignment) -> RegionAssignment:
        """Send those that one region alone can run there in any case: they may be worth more."""
        eligible = self.problem.eligible
        bound = (
            (assignment.region == NONE)
            & (self.problem.current_region == NONE)
            & (eligible.sum(axis=1) == 1)
        )
        region = np.where(bound, eligible.argmax(axis=1), assignment.region)
        return RegionAssignment(region, assignment.model)

    def _next_assignment(self, session: Session) -> RegionAssignment | None:
        """Return what is offered to other regions, None if that does not pay."""
        if session.expired() or not self._worthwhile(self._jobs_with_other_regions()):
            return None
        assignment = self._greedy_assignment()
        return (
            assignment
            if self._worthwhile(np.flatnonzero(assignment.region != NONE).tolist())
            else None
        )

    def _excluded(self) -> set[tuple[int, int]]:
        """Return jobs with regions that were asked, or that their labels keep them from."""
        if not self._anti_affinity:
            return self._tried
        return self._tried | self._anti_affinity.forbidden(self._current_regions())

    def _jobs_with_other_regions(self) -> list[int]:
        """Return the jobs without a place that some region can run which was not asked."""
        regions = self.problem.eligible.sum(axis=1)
        regions[self.problem.current_region != NONE] = 0
        for j, _ in self._excluded():
            regions[j] -= 1
        return [j for j in np.flatnonzero(regions).tolist() if j not in self.fixed.starts]

    def _solve_regions(self, assignment: RegionAssignment, session: Session) -> None:
        """Let regions decide on jobs that are given to them, but for labels that others have."""
        region = assignment.region
        if self._anti_affinity:
            where, region = self._current_regions(), region.copy()
            self.fixed.pinned_jobs = self._anti_affinity.immovable(where)
            region[[j for j, r in self._anti_affinity.forbidden(where) if region[j] == r]] = NONE
            region[self._anti_affinity.yielding(region)] = NONE
        order = np.argsort(region, kind="stable")
        cuts = np.searchsorted(region[order], np.arange(len(self.problem.wan.regions) + 1))
        jobs_of_region = {
            r: np.sort(order[cuts[r] : cuts[r + 1]]).tolist()
            for r in range(len(cuts) - 1)
            if cuts[r] < cuts[r + 1]
        }
        model = {j: int(assignment.model[j]) for jobs in jobs_of_region.values() for j in jobs}
        quotas = self._region_quotas(jobs_of_region)
        subproblems = [
            self.regions.build(r, jobs, quotas[r], self.fixed, model)
            for r, jobs in jobs_of_region.items()
        ]
        names = self.problem.cluster.hosts
        for subproblem, answer in zip(subproblems, self.decide(subproblems, session), strict=True):
            self._tried.update((j, subproblem.region) for j in jobs_of_region[subproblem.region])
            if answer.candidate is not None:
                self.fixed.add(subproblem.region, subproblem.lift(answer.candidate), names)

    def _current_regions(self) -> Ints:
        """Return the region of each job that runs or has started (jobs,), else NONE."""
        return regions_after(self.problem, self.fixed.starts, self.fixed.preempted)

    def _greedy_assignment(self) -> RegionAssignment:
        """Return the regions that jobs without a place are offered to next."""
        classes = classes_at_residual_capacity(
            self.running_jobs, self._taken_milli(), self.fixed.starts
        )
        pending = np.flatnonzero(
            (self.problem.current_region == NONE) & (classes.class_of_job != NONE)
        ).tolist()
        waiting = [j for j in pending if j not in self.fixed.starts]
        region = np.full(len(classes.class_of_job), NONE, dtype=np.int64)
        model = region.copy()
        for j, assignment_index in ResidualCapacity(classes).assign_greedily(
            waiting, self.costs, self._excluded()
        ):
            region[j], model[j] = (
                classes.assignment_region[assignment_index],
                classes.assignment_model[assignment_index],
            )
        return RegionAssignment(region, model)

    def _worthwhile(self, jobs: Sequence[int]) -> bool:
        """Whether these jobs could be worth another pass."""
        every = self.round.jobs
        new = sum(every[j].value_of(0) for j in jobs)
        known = sum(every[j].value_of(option) for j, (option, _) in self.fixed.starts.items())
        return new > MIN_GAIN * known

    def _taken_milli(self) -> Ints:
        """Return the milli-GPU that the plan takes of hosts so far (hosts,)."""
        taken = np.zeros(self.problem.cluster.num_hosts, dtype=np.int64)
        index, jobs = self.problem.cluster.host_index, self.round.jobs
        for j, (option, places) in self.fixed.starts.items():
            for group, _, host, _ in places:
                taken[host] += jobs[j].options[option].groups[group].gpu
        for j in (*self.fixed.preempted, *self.fixed.starts):
            running = jobs[j].running
            if running is not None:
                groups = jobs[j].options[running.option].groups
                for task in running.tasks:
                    taken[index[task.host]] -= groups[task.group].gpu
        # Nothing comes to hosts that somebody was stopped on.
        for j in self.fixed.preempted:
            running = jobs[j].running
            for task in () if running is None else running.tasks:
                taken[index[task.host]] = BLOCKED_MILLI
        return taken

    def _region_quotas(self, jobs_of_region: dict[int, list[int]]) -> dict[int, Quotas]:
        """Return what tenants may hold in regions that are given these jobs.

        Of a quota of the whole round a region gets what is held there and what the jobs ask that
        are given to it, as far as there is some left.
        """
        jobs, current_region, fixed = self.round.jobs, self.problem.current_region, self.fixed
        limits = {t.name: dict(t.quota) for t in self.round.tenants if t.quota}
        here = self.problem.quota
        found: dict[int, dict[str, dict[str, int]]] = {r: {} for r in jobs_of_region}
        for (r, tenant), most in here.items():
            if r in found:
                found[r][tenant] = {**limits.get(tenant, {}), "gpu": most}
        if not limits:
            return dict(found)
        held: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        every: defaultdict[str, Counter[str]] = defaultdict(Counter)
        before: defaultdict[str, Counter[str]] = defaultdict(Counter)
        where = self.problem.wan.host_region
        for j, job in enumerate(jobs):
            if job.tenant not in limits:
                continue
            if job.running is not None:
                asked = resources_held(job.options[job.running.option])
                before[job.tenant].update(asked)
                region, holds = int(current_region[j]), j not in fixed.preempted
            else:
                start = fixed.starts.get(j)
                asked = resources_held(job.options[start[0]]) if start else {}
                region, holds = int(where[start[1][0][2]]) if start else NONE, start is not None
            if holds:
                held[region, job.tenant].update(asked)
                every[job.tenant].update(asked)
        for tenant, limit in limits.items():
            left = {
                name: max(most, before[tenant][name]) - every[tenant][name]
                for name, most in limit.items()
            }
            for r, pending in jobs_of_region.items():
                asks: Counter[str] = Counter()
                for j in pending:
                    if jobs[j].tenant == tenant:
                        options = [resources_held(option) for option in jobs[j].options]
                        for name in limit:
                            asks[name] += max(option.get(name, 0) for option in options)
                quota = {}
                for name in limit:
                    more = max(0, min(left[name], asks[name]))
                    left[name] -= more
                    quota[name] = held[r, tenant][name] + more
                cap = here.get((r, tenant))
                if cap is not None:
                    quota["gpu"] = min(quota.get("gpu", cap), cap)
                found[r][tenant] = quota
        return dict(found)
