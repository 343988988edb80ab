"""Incremental rounds: a round that follows another one starts from its plan.

The running jobs are the last plan. They stay, except those displaced by waiting jobs of more value,
and those exchanged to fill holes. The duals of the last linear relaxation bound the result
(bounds.py). If the plan is not near this bound, the relaxation is solved again, from the
patterns of the last one and of the plan. If a gap remains, the search goes on from there as in a
round of its own, and from scratch while that leaves the gap open. A search that gained next to
nothing says what gap such rounds keep: later ones are not searched beyond it, until many jobs
have changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple, Self

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.bounds import DualPrices, trivial_bounds
from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.heuristics.gang_insertion import insert_gangs
from placewright.formulations.gang.heuristics.link_exchange import exchange_for_links
from placewright.formulations.gang.heuristics.migration import migrate
from placewright.formulations.gang.models.aggregate.accounts import budget_prices
from placewright.formulations.gang.models.aggregate.host_classes import ResourceGrid
from placewright.formulations.gang.models.aggregate.host_columns import (
    HostPatterns,
    host_patterns_apply,
)
from placewright.formulations.gang.models.aggregate.solve import (
    HostPatternModel,
    PricedModel,
    bound_by_relaxation,
    collect_bounds,
    host_pattern_model,
    later_bounds,
    tasks_per_host,
)
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import complete, repair_disruptions
from placewright.formulations.gang.placement.greedy import upgrade_options
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.gpu_links import GPU_LINKS
from placewright.formulations.gang.problem.jobs import TaskPlacement
from placewright.formulations.gang.problem.limits import PROGRESS, VALUE, BudgetPrices
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import STRANDED
from placewright.formulations.gang.run import run, small, with_relieved_links
from placewright.formulations.plan_messages import Bound, Candidate, near
from placewright.formulations.session import Session
from placewright.solver import Outcome
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

ADAPTED = "adapted"


class IncrementalGang:
    """The gang formulation of an engine; keeps duals and patterns from round to round."""

    def __init__(self) -> None:
        self._warm_start: _WarmStart | None = None
        self._idle_search: _IdleSearch | None = None
        self._has_plan = False

    def __call__(self, problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds, as `run` does."""
        if self._has_plan and not session.expired() and _applies(problem):
            try:
                adapt = self._adapt_classes if problem.priority_classes else self._adapt
                yield from with_relieved_links(problem, session, adapt)
            except Exception as error:  # noqa: BLE001 - a fault here must not cost the plan
                session.degraded.append(f"adapted: {type(error).__name__}: {error}")
        if session.best is None:
            yield from run(problem, session)
            self._has_plan = True

    def _adapt(self, problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
        """Adapt the last plan, and search on unless little can be gained.

        Yields nothing if host patterns do not apply.
        """
        tuning = parameters.PARAMETERS.incremental
        empty, grid = self._begin(problem)
        if grid is None:
            return
        placement = Placement(problem)
        displace_greedily(placement)
        solved = None if self._warm_start else self._solve(problem, session, empty, placement)
        prices = self._prices(problem, grid)
        bounds = [Bound(VALUE, prices.bound(), certified=True)] if prices else []
        bounds += solved.bounds if solved else []
        usual = self._usual_gap(problem)

        def is_enough(placement: Placement) -> bool:
            """Whether a bound proves a placement so well that nothing more is tried."""
            return any(
                near(bound.value, placement.value, tuning.price_gap_rel)
                or _is_usual(bound.value - placement.value, usual)
                for bound in bounds
            )

        _improve(session, placement, prices, is_enough)
        if solved is None and not is_enough(placement):
            solved = self._solve(problem, session, empty, placement)
            bounds += solved.bounds
            prices = self._prices(problem, grid) or prices
        if prices is not None and not is_enough(placement):
            # In another order: who needs whole hosts first.
            other = Placement(problem)
            _insert(session, other, prices)
            displace_greedily(other)
            _improve(session, other, prices, is_enough)
            placement = max(placement, other, key=lambda p: p.value)
        bound = min((bound.value for bound in bounds), default=np.inf)
        if solved is None or is_enough(placement) or _is_near_bound(session, placement, bound):
            repair_disruptions(placement)
            yield assign(placement, ADAPTED, final=True)
            yield from trivial_bounds(problem)
            yield from bounds
            return
        repair_disruptions(placement)
        yield assign(placement, ADAPTED)
        yield from trivial_bounds(problem)
        yield from bounds
        before, searches = _gap(session), not session.expired()
        if _is_usual(before, usual):
            return
        if not problem.resizes:
            for step in migrate(
                session, problem, PricedModel(*solved.model), solved.outcome, placement
            ):
                yield step
                if _gap(session) <= usual < before:
                    return
        if session.best is None or session.close_enough(session.best[VALUE]):
            yield from later_bounds(session, *solved.model)
        elif not session.expired():
            # With other patterns the search may end elsewhere.
            yield from run(problem, session)
        if searches:
            self._idle_search = _IdleSearch.of(problem, before, _gap(session))

    def _adapt_classes(self, problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
        """Adapt the last plan, and search on unless little can be gained in each priority class.

        Displacement and exchange maximise the weighted sum. Its bound says little of the lower
        classes, so each has its relaxation, from the patterns of the last round.
        """
        empty, grid = self._begin(problem)
        if grid is None:
            return
        placement = Placement(problem)
        displace_greedily(placement)
        solved = self._solve(problem, session, empty, placement)
        _improve(session, placement, self._prices(problem, grid))
        complete(placement)
        yield assign(placement, ADAPTED)
        yield from trivial_bounds(problem)
        first = problem.value_terms[0]
        bounds, _ = collect_bounds(bound_by_relaxation(session, *solved.model, first))
        yield from bounds
        yield from later_bounds(session, *solved.model, problem.value_terms)
        if _classes_are_near_bounds(problem, session):
            return
        yield from migrate(session, problem, PricedModel(*solved.model), solved.outcome, placement)
        if _classes_are_near_bounds(problem, session):
            yield from later_bounds(session, *solved.model)
        elif not session.expired():
            yield from run(problem, session)

    def _usual_gap(self, problem: Problem) -> float:
        """Return the gap beyond which searches gained next to nothing of late, -inf if unknown."""
        last = self._idle_search
        return last.gap if last is not None and last.is_like(problem) else -np.inf

    def _begin(self, problem: Problem) -> tuple[Placement, ResourceGrid | None]:
        """Return the cleared hosts, and their grid if host patterns apply; drop what is too old."""
        empty = Placement(problem, cleared=True)
        grid = ResourceGrid(problem, empty)
        if not host_patterns_apply(problem, grid):
            return empty, None
        if self._warm_start is not None and not self._warm_start.is_valid_for(problem):
            self._warm_start = None
        return empty, grid

    def _prices(self, problem: Problem, grid: ResourceGrid) -> DualPrices | None:
        """Return the prices of the last relaxation for this round, None without one."""
        last = self._warm_start
        if last is None:
            return None
        return DualPrices.of(problem, grid, last.prices, last.budget_prices)

    def _solve(
        self, problem: Problem, session: Session, empty: Placement, placement: Placement
    ) -> _Relaxation:
        """Solve the linear relaxation and keep its duals and patterns."""
        model = host_pattern_model(problem, empty, tasks_per_host(empty))
        if model is None:
            raise ValueError("host patterns do not apply; expected that they were asked")
        model.patterns.add_patterns_of(placement)
        if self._warm_start is not None:
            self._warm_start.add_patterns_to(model.patterns)
        bounds, outcome = collect_bounds(bound_by_relaxation(session, *model, VALUE))
        if outcome is not None and outcome.row_duals is not None:
            self._warm_start = _WarmStart.of(model, outcome.row_duals)
        return _Relaxation(model, bounds, outcome)


def _improve(
    session: Session,
    placement: Placement,
    prices: DualPrices | None,
    is_enough: Callable[[Placement], bool] = lambda _: False,
) -> None:
    """Exchange jobs, and insert gangs that need whole hosts unless the placement is enough."""
    _exchange(session, placement, prices)
    if prices is not None and not is_enough(placement):
        _insert(session, placement, prices)
        _exchange(session, placement, prices)
    upgrade_options(placement)
    if GPU_LINKS in placement.problem.terms:
        exchange_for_links(placement, session)
    repair_disruptions(placement)


def _is_usual(gap: float, usual: float) -> bool:
    """Whether a gap is at most the usual one; much less says that what could not be had is gone."""
    return parameters.PARAMETERS.incremental.least_usual_share * usual <= gap <= usual


def _insert(session: Session, placement: Placement, prices: DualPrices) -> None:
    """Insert gangs that may be worth their prices, for a part of the time."""
    share = parameters.PARAMETERS.insertion.first_insertion_share
    insert_gangs(session.part(share), placement, prices.may_pay)


def _gap(session: Session) -> float:
    """Return how far `value` of the best plan is from its bound; infinite without one of them."""
    if session.best is None or session.first_bound is None:
        return np.inf
    return session.first_bound - session.best[VALUE]


def _is_near_bound(session: Session, placement: Placement, bound: float) -> bool:
    """Whether the bound leaves too little to gain for a search."""
    tuning = parameters.PARAMETERS.incremental
    little = tuning.negligible_gain_rel * (placement.problem.running_value + abs(placement.value))
    return bound - placement.value <= little or near(bound, placement.value, session.gap)


def _classes_are_near_bounds(problem: Problem, session: Session) -> bool:
    """Whether the bound of each priority class leaves too little to gain for a search."""
    best, bounds = session.best, session.best_known.bounds
    if best is None:
        return False
    tuning = parameters.PARAMETERS.incremental
    running = sum(len(c.jobs) * c.choices[0].own_value for c in problem.classes if c.running)
    return all(
        term in bounds
        and bounds[term] - best[term]
        <= max(
            tuning.negligible_class_gain_rel * (running + abs(best[term])), session.gap * one.asked
        )
        for term, one in zip(problem.value_terms, problem.priority_classes, strict=True)
    )


def _exchange(session: Session, placement: Placement, prices: DualPrices | None) -> None:
    """Exchange jobs on hosts that hold less than they could, until the time is over."""
    lossy = _hosts_by_loss(placement, prices)
    exchange_jobs(placement, takewhile(lambda _: not session.expired(), lossy))


def _hosts_by_loss(placement: Placement, prices: DualPrices | None) -> list[int]:
    """Return hosts with free GPUs, those first that hold least of what they could."""
    hosts = np.flatnonzero(placement.whole > 0)
    if prices is not None:
        loss = prices.loss_per_host(placement)[hosts]
        order = np.argsort(-loss, kind="stable")
        hosts = hosts[order[loss[order] >= 1.0]]
    lossy: list[int] = hosts.tolist()
    return lossy


def _applies(problem: Problem) -> bool:
    """Whether `value` comes first, in a large round with running jobs and no hosts to vacate.

    What is stranded depends on which host each job is on, which displacement ignores; and no job
    changes its size by it, as it may have to for `progress`.
    """
    return (
        problem.weighted_terms[0] == VALUE
        and STRANDED not in problem.terms
        and bool(problem.running)
        and not (problem.resizes and PROGRESS in problem.terms)
        and not problem.vacate.any()
        and not small(problem)
    )


class _Relaxation(NamedTuple):
    """A relaxation, the bounds that it proves, and its outcome."""

    model: HostPatternModel
    bounds: list[Bound]
    outcome: Outcome | None


@dataclass(frozen=True, eq=False, slots=True)
class _IdleSearch:
    """A search that gained next to nothing: the gap in `value` that it left, and of which round."""

    gap: float
    jobs: frozenset[str]

    @classmethod
    def of(cls, problem: Problem, before: float, after: float) -> Self | None:
        """Return that of a search that began and ended with these gaps; None if it gained more."""
        little = parameters.PARAMETERS.incremental.idle_gain_rel * problem.running_value
        idle = before - after <= little and after < np.inf
        return cls(after, _names(problem)) if idle else None

    def is_like(self, problem: Problem) -> bool:
        """Whether most jobs of another round were in that one."""
        now = _names(problem)
        changed = len(now ^ self.jobs) / max(1, len(now | self.jobs))
        return changed <= parameters.PARAMETERS.incremental.max_changed_share


def _names(problem: Problem) -> frozenset[str]:
    return frozenset(job.name for job in problem.round.jobs)


@dataclass(frozen=True, eq=False, slots=True)
class _WarmStart:
    """What a relaxation leaves for the next round: prices per shape, patterns by host class.

    Shapes keep their indices as long as the cluster is the same object and these come first.
    """

    cluster: Cluster
    shapes: Ints
    sizes: Ints
    prices: Floats
    budget_prices: BudgetPrices
    keys: Ints
    cuts: Ints

    @classmethod
    def of(cls, model: HostPatternModel, row_duals: Floats) -> Self:
        """Keep the patterns of least reduced-cost loss; those in use have none."""
        tuning = parameters.PARAMETERS.incremental
        counts, patterns = model
        pool = patterns.pool
        arrays = counts.model.arrays(VALUE, relax=True)
        worth = arrays.reduced_costs(row_duals)[pool.columns]
        best = np.argsort(-worth, kind="stable")[: tuning.max_kept_patterns]
        return cls(
            cluster=counts.problem.cluster,
            shapes=_shape_keys(counts.problem),
            sizes=patterns.grid.sizes,
            prices=-row_duals[counts.task_row],
            budget_prices=budget_prices(counts, row_duals),
            keys=patterns.keys[pool.kind[best]],
            cuts=pool.cuts[best],
        )

    def is_valid_for(self, problem: Problem) -> bool:
        """Whether the shapes of another round begin with these."""
        mine = _shape_keys(problem)[: len(self.shapes)]
        return problem.cluster is self.cluster and np.array_equal(mine, self.shapes)

    def add_patterns_to(self, patterns: HostPatterns) -> None:
        """Add the patterns to another round's, unless its resource units differ."""
        sizes, known = patterns.grid.sizes, len(self.sizes)
        if not np.array_equal(sizes[:known], self.sizes):
            return
        index = {tuple(key): a for a, key in enumerate(patterns.keys.tolist())}
        kinds = np.array([index.get(tuple(key), -1) for key in self.keys.tolist()], dtype=np.int64)
        cuts = np.zeros((len(kinds), len(sizes)), dtype=np.int64)
        cuts[:, :known] = self.cuts
        patterns.add(kinds[kinds >= 0], cuts[kinds >= 0])


def _shape_keys(problem: Problem) -> Ints:
    """Return a row per shape of what makes shapes differ, without allowed hosts."""
    return np.column_stack([problem.shape_gpu, problem.shape_rank, problem.shape_demand])


# Exchange neighbourhood: two jobs change hosts so that one more waiting job fits.
#
# A host may have free GPUs that no waiting job can use. Where other resources lack, a one-task
# job on it changes hosts with a lighter one of as many GPUs. Where a stopped job keeps lower
# ranks out, a job of a higher rank moves in, and the waiting one takes its place.


def exchange_jobs(placement: Placement, hosts: Iterable[int]) -> None:
    """Start waiting one-task jobs on or beside these hosts while exchanges make them fit.

    Only for rounds without shares, quotas and reserved GPUs; others stay as they are.
    """
    problem = placement.problem
    if not problem.is_share.any() and not problem.quota and problem.usable.all():
        exchange = _Exchange(placement)
        for host in hosts:
            while placement.whole[host] and exchange.improve_host(host):
                pass


class _Exchange:
    """One-task jobs that may move, as arrays: their starts, shapes and hosts."""

    def __init__(self, placement: Placement) -> None:
        self.placement, problem = placement, placement.problem
        self.problem = problem
        self.sizes = np.column_stack([problem.shape_gpu // WHOLE_GPU, problem.shape_demand])
        self.free = np.column_stack([placement.whole, placement.free])
        table = [
            (number, start.tasks[0].host, choice.groups[0].shape)
            for number, start in placement.changed()
            if (choice := problem.classes[start.job_class].choices[start.choice]).is_single_task
        ]
        moved = np.array(table, dtype=np.int64).reshape(-1, 3)
        both = np.concatenate([moved, _in_place(placement)])
        self.number, self.at, self.shape = both[problem.open[both[:, 1]]].T
        self.size = self.sizes[self.shape]
        self.rank = problem.shape_rank[self.shape]
        self.waiting = self._waiting_shapes()
        self._most = parameters.PARAMETERS.insertion.max_exchange_partners

    def _waiting_shapes(self) -> list[tuple[int, int, int]]:
        """Return (shape, class, choice) of waiting one-task jobs, the most valuable first."""
        best: dict[int, tuple[int, int, int]] = {}
        for c, job_class in enumerate(self.problem.classes):
            for o, choice in enumerate(job_class.choices if self.placement.waiting[c] else ()):
                shape = choice.groups[0].shape
                if choice.is_single_task and self.sizes[shape, 0]:
                    best[shape] = max(best.get(shape, (-1, -1, -1)), (choice.value, c, o))
        order = sorted(best, key=lambda s: (-best[s][0], self.sizes[s].tolist()))
        kept: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
        most = parameters.PARAMETERS.insertion.max_exchange_shapes
        for s in order:
            equal_value = kept[best[s][0], self.problem.shape_hosts[s].tobytes()]
            if len(equal_value) < most and not any(
                (self.sizes[s] >= self.sizes[t]).all() for t in equal_value
            ):
                equal_value.append(s)
        chosen = {s for equal_value in kept.values() for s in equal_value}
        return [(s, *best[s][1:]) for s in order if s in chosen]

    def improve_host(self, host: int) -> bool:
        """Start one more job by the first exchange found; return whether there was one."""
        closed = int(self.placement.least_rank[host])
        for shape, c, o in self.waiting:
            if not self.placement.waiting[c]:
                continue
            size = self.sizes[shape]
            if size[0] > self.free[host, 0]:
                continue
            eligible = self.problem.shape_hosts[shape, host] and (
                self.problem.shape_rank[shape] >= closed
            )
            if eligible and self._swap_and_start(host, shape, c, o):
                return True
            if closed and self._move_and_start(host, shape, c, o):
                return True
        return False

    def _swap_and_start(self, host: int, shape: int, c: int, o: int) -> bool:
        """Start a job on a host that it fits once one of its jobs has changed places."""
        size = self.sizes[shape]
        lack = (size - self.free[host]).clip(min=0)
        if not lack.any() and self.placement.pools.fits_host(shape, host):
            self._start(shape, c, o, host)
            return True
        others = (self.free >= lack).all(axis=1)
        others[host] = False
        partners = np.flatnonzero(others[self.at])
        if not len(partners):
            return False
        mine = np.flatnonzero(self.at == host)
        # What may come here at all, and may be left.
        partners = partners[
            self.problem.shape_hosts[self.shape[partners], host]
            & (self.rank[partners] >= self.placement.least_rank[host])
        ]
        for a in mine.tolist():
            fits = (self.size[partners] <= self.free[host] + self.size[a] - size).all(axis=1)
            fits &= self.size[partners, 0] == self.size[a, 0]
            some = partners[fits]
            there = self.at[some]
            some = some[
                (self.size[a] <= self.free[there] + self.size[some]).all(axis=1)
                & self.problem.shape_hosts[self.shape[a], there]
                & (self.rank[a] >= self.placement.least_rank[there])
            ]
            for b in some[: self._most].tolist():
                to = {a: int(self.at[b]), b: host}
                if self._pools_allow(shape, host, to):
                    self._move(to)
                    self._start(shape, c, o, host)
                    return True
        return False

    def _move_and_start(self, host: int, shape: int, c: int, o: int) -> bool:
        """Move a job of a rank that may come here, and start one in its place."""
        problem, placement = self.problem, self.placement
        size, rank = self.sizes[shape], problem.shape_rank[shape]
        fits = (self.rank >= placement.least_rank[host]) & (self.size <= self.free[host]).all(
            axis=1
        )
        some = np.flatnonzero(fits & (self.at != host))
        there = self.at[some]
        some = some[
            (size <= self.free[there] + self.size[some]).all(axis=1)
            & (size[0] > self.free[there, 0])
            & problem.shape_hosts[self.shape[some], host]
            & problem.shape_hosts[shape, there]
            & (placement.least_rank[there] <= rank)
        ]
        for i in some[: self._most].tolist():
            left = int(self.at[i])
            if self._pools_allow(shape, left, {i: host}):
                self._move({i: host})
                self._start(shape, c, o, left)
                return True
        return False

    def _pools_allow(self, shape: int, host: int, to: Mapping[int, int]) -> bool:
        """Whether pools have room for one more task on a host once jobs have moved."""
        changes = [(shape, host, 1)]
        for i, there in to.items():
            mine = int(self.shape[i])
            changes += [(mine, int(self.at[i]), -1), (mine, int(there), 1)]
        return self.placement.pools.allow(changes)

    def _move(self, to: dict[int, int]) -> None:
        """Move jobs to other hosts, all at once."""
        placement = self.placement
        starts = {}
        for i in to:
            start = placement.get(int(self.number[i]))
            if start is None:
                raise ValueError(f"start {self.number[i]} has stopped")
            starts[i] = start
            placement.stop(int(self.number[i]))
        for i, start in starts.items():
            shape, host = int(self.shape[i]), to[i]
            self.free[self.at[i]] += self.size[i]
            self.free[host] -= self.size[i]
            puts = [TaskPlacement(0, host, 1, placement.put(shape, host))]
            self.number[i] = placement.start(start.job_class, start.choice, puts, start.job)
            self.at[i] = host

    def _start(self, shape: int, c: int, o: int, host: int) -> None:
        puts = [TaskPlacement(0, host, 1, self.placement.put(shape, host))]
        self.placement.start(c, o, puts)
        self.free[host] -= self.sizes[shape]


def _in_place(placement: Placement) -> Ints:
    """Start, host and shape of the running one-task jobs that are where they were."""
    problem = placement.problem
    single = {c for c, k in enumerate(problem.classes) if k.running and k.choices[0].is_single_task}
    here = [
        placement.start_of(job) if r.job_class in single and placement.in_place(job) else -1
        for job, r in problem.running.items()
    ]
    job, _, host, shape = problem.running_tasks.T
    number = np.array(here, dtype=np.int64)[np.searchsorted(list(problem.running), job)]
    table: Ints = np.stack([number, host, shape], axis=1)[number >= 0]
    return table
