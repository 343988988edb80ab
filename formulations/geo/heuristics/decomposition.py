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
from placewright.formulations.gang.problem.quotas import held_by
from placewright.formulations.geo.heuristics.anti_affinity import Labels
from placewright.formulations.geo.heuristics.assign import Chosen, bound_cost, bound_whole, choose
from placewright.formulations.geo.heuristics.data_orders import regions_after, with_data
from placewright.formulations.geo.heuristics.exchange import nearer
from placewright.formulations.geo.heuristics.residual import Room
from placewright.formulations.geo.heuristics.subproblem import Part, Quotas, Regions, Settled
from placewright.formulations.geo.models.current_capacity import kinds_left, tight_kinds
from placewright.formulations.geo.problem.class_arrays import Kinds
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.geo.problem.job_classes import kinds_of
from placewright.formulations.geo.problem.running_jobs import Lying
from placewright.formulations.session import Bound, Candidate, Session, near

PASSES = 3
"""How often jobs that found no room are offered to other regions."""

WELL = 5e-3
"""Gap of value within which no other plan is sought."""

LITTLE = 5e-4
"""Part of the value that is there already for which no other pass is made."""

FULL = 2**40
"""Milli-GPU taken of a host to which nothing may come."""

COSTS = ("remote_reads", "egress_cost")


class Answered(Protocol):
    """How a region's round was decided."""

    @property
    def candidate(self) -> Candidate | None:
        """The plan, None without one."""
        ...


Decide = Callable[[Sequence[Part], Session], Iterable[Answered]]


def apart(
    lying: Lying, kinds: Kinds, most: float, session: Session, decide: Decide, *, last: bool
) -> Iterator[Candidate]:
    """Yield a plan of a round, after an interrupt of what was decided by then.

    `kinds` are those of bounds, `most` is the value that they prove; `last`: no other plan follows.
    """
    costs, began = costs_of(lying.problem), time.monotonic()
    regions, labels = Regions(lying.problem, lying.gangs), Labels(lying.problem)
    first = lying
    if labels:
        first = Lying(replace(lying.problem, can=labels.first()), lying.gangs)
        kinds = kinds_of(first)
    found = _Rounds(lying, regions, labels, costs, decide)
    other = _Rounds(lying, regions, labels, costs, decide)
    interrupt: KeyboardInterrupt | None = None
    try:
        found.run(tight_kinds(first), session)
        took = 0.0 if session.deterministic else time.monotonic() - began
        if not session.expired(took) and not near(most, found.value, WELL):
            other.run(kinds, session)
    except KeyboardInterrupt as error:
        interrupt = error
    settled = max(found, other, key=lambda rounds: rounds.value).settled
    plan = Candidate(
        dict(settled.starts),
        "regions",
        dict(settled.preempted),
        final=last,
        slots=dict(settled.slots),
    )
    yield with_data(lying.problem, nearer(lying.problem, lying.gangs, plan, costs))
    if interrupt is not None:
        raise interrupt


def whole_bound(kinds: Kinds, session: Session) -> Iterator[Bound]:
    """Yield the most value of any plan of whole jobs, if the best one is not proven without it."""
    if session.best is None or session.close_enough(session.best["value"]):
        return
    most = bound_whole(kinds, session)
    if most is not None:
        yield Bound("value", most)


def cost_bound(kinds: Kinds, session: Session) -> Iterator[Bound]:
    """Yield what plans of the best plan's value cost at least, in the second term."""
    problem = kinds.problem
    first = next((t for t in problem.round.policy.terms[1:2] if t in COSTS), None)
    if first is not None and session.best is not None:
        value = session.best["value"]
        least = bound_cost(kinds, costs_of(problem), value, session)
        if least is not None:
            yield Bound(first, least, (("value", value),), certified=True)


def costs_of(problem: Problem) -> Ints:
    """Return what jobs cost in regions, as the first term says that counts it."""
    known = {"remote_reads": problem.remote, "egress_cost": problem.egress}
    return next((known[t] for t in problem.round.policy.terms if t in known), problem.remote)


class _Rounds:
    """The rounds of regions, pass after pass."""

    def __init__(
        self, lying: Lying, regions: Regions, labels: Labels, costs: Ints, decide: Decide
    ) -> None:
        self.lying, self.problem, self.round = lying, lying.problem, lying.problem.round
        self.regions, self.costs, self.decide = regions, costs, decide
        self.settled = Settled()
        self._labels = labels
        self._tried: set[tuple[int, int]] = set()

    @property
    def value(self) -> int:
        """What the plan counts."""
        jobs, settled = self.round.jobs, self.settled
        starts = settled.starts.items()
        new = sum(jobs[j].value_of(o) for j, (o, _) in starts if jobs[j].running is None)
        stopped = ((jobs[j], jobs[j].running) for j in settled.preempted)
        return new - sum(job.value_of(runs.option) for job, runs in stopped if runs is not None)

    def run(self, kinds: Kinds, session: Session) -> None:
        """Decide all passes, the first one by the program of these kinds."""
        given = choose(kinds, self.costs, session)
        self._pass(self._with_bound(self._offered() if given is None else given), session)
        for _ in range(PASSES):
            before = len(self.settled.starts)
            offered = self._next(session)
            if offered is None:
                break
            self._pass(offered, session)
            if len(self.settled.starts) == before:
                break

    def _with_bound(self, given: Chosen) -> Chosen:
        """Send those that one region alone can run there in any case: they may be worth more."""
        can = self.problem.can
        bound = (given.region == NONE) & (self.problem.at == NONE) & (can.sum(axis=1) == 1)
        region = np.where(bound, can.argmax(axis=1), given.region)
        return Chosen(region, given.model)

    def _next(self, session: Session) -> Chosen | None:
        """Return what is offered to other regions, None if that does not pay."""
        if session.expired() or not self._pays(self._elsewhere()):
            return None
        offered = self._offered()
        return offered if self._pays(np.flatnonzero(offered.region != NONE).tolist()) else None

    def _barred(self) -> set[tuple[int, int]]:
        """Return jobs with regions that were asked, or that their labels keep them from."""
        if not self._labels:
            return self._tried
        return self._tried | self._labels.closed(self._where())

    def _elsewhere(self) -> list[int]:
        """Return the jobs without a place that some region can run which was not asked."""
        regions = self.problem.can.sum(axis=1)
        regions[self.problem.at != NONE] = 0
        for j, _ in self._barred():
            regions[j] -= 1
        return [j for j in np.flatnonzero(regions).tolist() if j not in self.settled.starts]

    def _pass(self, chosen: Chosen, session: Session) -> None:
        """Let regions decide on jobs that are given to them, but for labels that others have."""
        region = chosen.region
        if self._labels:
            where, region = self._where(), region.copy()
            self.settled.stay = self._labels.stuck(where)
            region[[j for j, r in self._labels.closed(where) if region[j] == r]] = NONE
            region[self._labels.outdone(region)] = NONE
        order = np.argsort(region, kind="stable")
        cuts = np.searchsorted(region[order], np.arange(len(self.problem.wan.regions) + 1))
        mine = {
            r: np.sort(order[cuts[r] : cuts[r + 1]]).tolist()
            for r in range(len(cuts) - 1)
            if cuts[r] < cuts[r + 1]
        }
        model = {j: int(chosen.model[j]) for jobs in mine.values() for j in jobs}
        quotas = self._quotas(mine)
        parts = [
            self.regions.part(r, jobs, quotas[r], self.settled, model) for r, jobs in mine.items()
        ]
        names = self.problem.cluster.hosts
        for part, answer in zip(parts, self.decide(parts, session), strict=True):
            self._tried.update((j, part.region) for j in mine[part.region])
            if answer.candidate is not None:
                self.settled.add(part.region, part.told(answer.candidate), names)

    def _where(self) -> Ints:
        """Return the region of each job that runs or has started (jobs,), else NONE."""
        return regions_after(self.problem, self.settled.starts, self.settled.preempted)

    def _offered(self) -> Chosen:
        """Return the regions that jobs without a place are offered to next."""
        kinds = kinds_left(self.lying, self._taken(), self.settled.starts)
        pending = np.flatnonzero((self.problem.at == NONE) & (kinds.of_job != NONE)).tolist()
        waiting = [j for j in pending if j not in self.settled.starts]
        region = np.full(len(kinds.of_job), NONE, dtype=np.int64)
        model = region.copy()
        for j, way in Room(kinds).offer(waiting, self.costs, self._barred()):
            region[j], model[j] = kinds.way_region[way], kinds.way_model[way]
        return Chosen(region, model)

    def _pays(self, jobs: Sequence[int]) -> bool:
        """Whether these jobs could be worth another pass."""
        every = self.round.jobs
        new = sum(every[j].value_of(0) for j in jobs)
        known = sum(every[j].value_of(option) for j, (option, _) in self.settled.starts.items())
        return new > LITTLE * known

    def _taken(self) -> Ints:
        """Return the milli-GPU that the plan takes of hosts so far (hosts,)."""
        taken = np.zeros(self.problem.cluster.num_hosts, dtype=np.int64)
        index, jobs = self.problem.cluster.host_index, self.round.jobs
        for j, (option, places) in self.settled.starts.items():
            for group, _, host, _ in places:
                taken[host] += jobs[j].options[option].groups[group].gpu
        for j in (*self.settled.preempted, *self.settled.starts):
            running = jobs[j].running
            if running is not None:
                groups = jobs[j].options[running.option].groups
                for task in running.tasks:
                    taken[index[task.host]] -= groups[task.group].gpu
        # Nothing comes to hosts that somebody was stopped on.
        for j in self.settled.preempted:
            running = jobs[j].running
            for task in () if running is None else running.tasks:
                taken[index[task.host]] = FULL
        return taken

    def _quotas(self, mine: dict[int, list[int]]) -> dict[int, Quotas]:
        """Return what tenants may hold in regions that are given these jobs.

        Of a quota of the whole round a region gets what is held there and what the jobs ask that
        are given to it, as far as there is some left.
        """
        jobs, at, settled = self.round.jobs, self.problem.at, self.settled
        limits = {t.name: dict(t.quota) for t in self.round.tenants if t.quota}
        here = self.problem.quota
        found: dict[int, dict[str, dict[str, int]]] = {r: {} for r in mine}
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
                asked = held_by(job.options[job.running.option])
                before[job.tenant].update(asked)
                region, holds = int(at[j]), j not in settled.preempted
            else:
                start = settled.starts.get(j)
                asked = held_by(job.options[start[0]]) if start else {}
                region, holds = int(where[start[1][0][2]]) if start else NONE, start is not None
            if holds:
                held[region, job.tenant].update(asked)
                every[job.tenant].update(asked)
        for tenant, limit in limits.items():
            left = {
                name: max(most, before[tenant][name]) - every[tenant][name]
                for name, most in limit.items()
            }
            for r, pending in mine.items():
                asks: Counter[str] = Counter()
                for j in pending:
                    if jobs[j].tenant == tenant:
                        options = [held_by(option) for option in jobs[j].options]
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
