"""A large round, region by region: who goes where, each region on its own, and what found no room.

First the program of regions (choosing.py) says which region runs which job. Each region decides its
part as a round of gangs, preemption included. Jobs that found no room there are then offered to
other regions, where those that have started stay where they are, and nobody moves on hosts to which
something came: so what a region does next is lawful with what it did before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from placewright.formulations.gang.problem import Problem as Gangs
from placewright.formulations.gang.quotas import held_by
from placewright.formulations.geo.choosing import Chosen, choose
from placewright.formulations.geo.compile import Problem
from placewright.formulations.geo.kinds import Kinds, kinds_of
from placewright.formulations.geo.regions import Part, Quotas, Regions, Settled
from placewright.formulations.geo.room import Room
from placewright.formulations.geo.waiting import with_data
from placewright.formulations.session import Bound, Candidate, Session
from placewright.formulations.wan.compile import NONE, Ints

PASSES = 3
"""How often jobs that found no room are offered to other regions."""

COSTS = ("remote_reads", "egress_cost")


class Answered(Protocol):
    """How a region's round was decided."""

    @property
    def candidate(self) -> Candidate | None:
        """The plan, None without one."""
        ...


Decide = Callable[[Sequence[Part], Session], Iterable[Answered]]


def apart(
    problem: Problem, gangs: Gangs, session: Session, decide: Decide
) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of a round; `gangs` are all its jobs as one round of gangs."""
    kinds = kinds_of(problem, gangs)
    costs = _costs(problem)
    chosen = choose(kinds, costs, session)
    if chosen is not None:
        yield Bound("value", chosen.most, certified=True)
    region = _anywhere(kinds, costs) if chosen is None else chosen.region
    yield from _Rounds(problem, kinds, costs, decide).plans(region, session)
    if chosen is not None:
        yield from _least(problem, chosen, session)


def _costs(problem: Problem) -> Ints:
    """Return what jobs cost in regions, as the first term says that counts it."""
    known = {"remote_reads": problem.remote, "egress_cost": problem.egress}
    return next((known[t] for t in problem.round.policy.terms if t in known), problem.remote)


def _anywhere(kinds: Kinds, costs: Ints) -> Ints:
    """Return regions with room for jobs one by one, the most worth first."""
    room, at = Room(kinds), kinds.problem.at
    runs = np.flatnonzero((at != NONE) & (kinds.of_job != NONE)).tolist()
    room.hold((j, int(at[j]), room.option_run(j)) for j in runs)
    region = np.full(len(at), NONE, dtype=np.int64)
    pending = np.flatnonzero((at == NONE) & (kinds.of_job != NONE)).tolist()
    for j, r in room.offer(pending, costs):
        region[j] = r
    return region


def _least(problem: Problem, chosen: Chosen, session: Session) -> Iterator[Bound]:
    """Yield what plans of the best plan's value cost at least."""
    terms, best = problem.round.policy.terms, session.best
    first = next((t for t in terms if t in COSTS), None)
    if best is None or first is None or terms.index(first) != 1:
        return
    least = chosen.least(_costs(problem), best["value"], session)
    if least is not None:
        holds = (("value", best["value"]),)
        yield Bound(first, max(0.0, least), holds, certified=True)


class _Rounds:
    """The rounds of regions, pass after pass."""

    def __init__(self, problem: Problem, kinds: Kinds, costs: Ints, decide: Decide) -> None:
        self.problem, self.kinds, self.costs, self.decide = problem, kinds, costs, decide
        self.regions, self.round = Regions(problem), problem.round
        self.settled = Settled()
        self._tried: set[tuple[int, int]] = set()

    def plans(self, region: Ints, session: Session) -> Iterator[Candidate]:
        """Yield the plan of the first pass, and the last one if more jobs found room after it."""
        self._pass(region, session)
        yield self._candidate("regions")
        started = len(self.settled.starts)
        for _ in range(PASSES):
            if session.expired():
                break
            offered = self._offered()
            if not (offered != NONE).any():
                break
            before = len(self.settled.starts)
            self._pass(offered, session)
            if len(self.settled.starts) == before:
                break
        if len(self.settled.starts) > started:
            yield self._candidate("other regions")

    def _candidate(self, source: str) -> Candidate:
        found = Candidate(
            dict(self.settled.starts),
            source,
            dict(self.settled.preempted),
            slots=dict(self.settled.slots),
        )
        return with_data(self.problem, found)

    def _pass(self, region: Ints, session: Session) -> None:
        """Let regions decide on jobs that are given to them (jobs,)."""
        order = np.argsort(region, kind="stable")
        cuts = np.searchsorted(region[order], np.arange(len(self.problem.wan.regions) + 1))
        mine = {
            r: np.sort(order[cuts[r] : cuts[r + 1]]).tolist()
            for r in range(len(cuts) - 1)
            if cuts[r] < cuts[r + 1]
        }
        quotas = self._quotas(mine)
        parts = [self.regions.part(r, jobs, quotas[r], self.settled) for r, jobs in mine.items()]
        names = self.problem.cluster.hosts
        for part, answer in zip(parts, self.decide(parts, session), strict=True):
            self._tried.update((j, part.region) for j in mine[part.region])
            if answer.candidate is not None:
                self.settled.add(part.region, part.told(answer.candidate), names)

    def _offered(self) -> Ints:
        """Return the regions that jobs without a place are offered to next (jobs,)."""
        at, settled, room = self.problem.at, self.settled, Room(self.kinds)
        runs = np.flatnonzero((at != NONE) & (self.kinds.of_job != NONE)).tolist()
        room.hold((j, int(at[j]), room.option_run(j)) for j in runs if j not in settled.preempted)
        where = self.problem.wan.host_region
        room.hold(
            (j, int(where[places[0][2]]), option)
            for j, (option, places) in settled.starts.items()
            if at[j] == NONE
        )
        region = np.full(len(at), NONE, dtype=np.int64)
        pending = np.flatnonzero((at == NONE) & (self.kinds.of_job != NONE)).tolist()
        waiting = [j for j in pending if j not in settled.starts]
        for j, r in room.offer(waiting, self.costs, self._tried):
            region[j] = r
        return region

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
                most = here.get((r, tenant))
                if most is not None:
                    quota["gpu"] = min(quota.get("gpu", most), most)
                found[r][tenant] = quota
        return dict(found)
