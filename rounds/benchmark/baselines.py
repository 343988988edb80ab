"""Baselines on rounds of policy `gang`: placement rules, and the literal program in one solver.

The rules are those of FGD's evaluation (Weng et al., ATC 2023): first fit, best fit, dot product
and FGD itself. Jobs come by priority and then in the order of the round; what has no room waits,
and nobody moves. The literal program is the host-indexed model, one integer per task shape (or
gang) and host, given to one solver as it is: no host classes, no patterns, no repair, and the first
objective term only, with the whole time limit for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.models.host.model import num_task_variables
from placewright.formulations.gang.models.host.solve import COUNTED, exact_model, start_jobs
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import lift_all, place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, Group, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.rounds.benchmark.packing_rules import (
    Cost,
    Fragmentation,
    Kind,
    Kinds,
    best_fit,
    dot_product,
    first_fit,
)
from placewright.rounds.deciders.gang import GangDecider, has_cells, has_waiting_rules
from placewright.rounds.decisions import DefaultDecisions, decisions_of
from placewright.rounds.displacement.victims import lawful
from placewright.solver import Limits, Worker

GAP = 1e-4
"""Relative gap at which every method may stop: that of a round without limits of its own."""

MAX_CELLS = 200_000
"""Most variables of a literal program that is tried."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a method made of a round: a plan if it found one, and its bound on the first term.

    `status` is the solver's own; `note` says why there is nothing, if there is something to say.
    """

    plan: Plan | None = None
    bound: float | None = None
    status: str = "feasible"
    note: str = ""


def literal(
    backend: str, round_: Round, seconds: float, *, seed: int = 0, work: float | None = None
) -> Attempt | None:
    """Decide with the host-indexed model; building it is part of the limit. None if too large.

    `seconds`, `work`: as in `Limits`.
    """
    began = time.monotonic()
    problem = compile_round(round_)
    term = problem.terms[0]
    if num_task_variables(problem) > MAX_CELLS:
        return None
    problem = replace(problem, terms=(term,))
    exact, slots = exact_model(problem)
    with Worker() as worker:
        left = max(0.0, seconds - (time.monotonic() - began))
        memory = round_.limits.memory_mib
        limits = Limits(left, GAP, seed, work=work, memory_mib=memory)
        # Its rows are a restriction, of which a bound would not hold for every plan.
        arrays = exact.model.arrays(term, without={COUNTED} if problem.running else ())
        if backend == "cp-sat":  # It has integers only: indicators that follow from them are, too.
            arrays = replace(arrays, integer=np.ones_like(arrays.integer))
        outcome = worker.solve(backend, arrays, limits)
    bound = None if outcome.bound is None else problem.round_bound(term, outcome.bound)
    if outcome.values is None:
        return Attempt(None, bound, outcome.status.value, outcome.message)
    placement = Placement(problem, cleared=True)
    start_jobs(exact, slots, outcome.values, placement)
    plan = plan_of(round_, problem, placement, backend)
    note = outcome.message if plan else "a job that may not preempt is where a victim was"
    return Attempt(plan, bound, outcome.status.value, note)


def greedy_preemption(round_: Round) -> Attempt:
    """Insert waiting jobs by priority, then value per GPU, where lawful victims cost least.

    Placewright's own insertion, without any model after it, and without a bound.
    """
    problem = compile_round(round_)
    placement = Placement(problem)
    priorities = [
        max((round_.jobs[job].priority for job in job_class.jobs), default=0)
        for job_class in problem.classes
    ]
    for priority in sorted(set(priorities), reverse=True):
        later = [
            n if p < priority else 0 for n, p in zip(placement.waiting, priorities, strict=True)
        ]
        placement.waiting = [n - m for n, m in zip(placement.waiting, later, strict=True)]
        displace_greedily(placement)
        placement.waiting = [n + m for n, m in zip(placement.waiting, later, strict=True)]
    return Attempt(plan_of(round_, problem, placement, "greedy preemption"))


def is_unknown(round_: Round) -> bool:
    """Whether a round has what no baseline knows: cells, reservations, aging or maintenance."""
    return has_cells(round_) or has_waiting_rules(round_)


def plan_of(round_: Round, problem: Problem, placement: Placement, source: str) -> Plan | None:
    """Return a placement as a plan; victims that are not lawful, or not needed, stay.

    None if some job that may not preempt is where a victim was.
    """
    repair_preemptions(placement)
    decider = GangDecider(round_, problem)
    found = lawful(round_, decider.hosts, assign(placement, source))
    if found is None:
        return None
    decisions = decisions_of(round_, decider.hosts, DefaultDecisions()(round_), found)
    sections = tuple(one for one in decider.sections(found, decisions) if one is not None)
    return Plan(decisions=decisions, sections=sections)


class _View:
    """A placement as packing rules look at it: its task shapes are the kinds of pods."""

    def __init__(self, placement: Placement) -> None:
        problem = placement.problem
        asked = zip(problem.shape_gpu.tolist(), problem.shape_demand[:, :2].tolist(), strict=True)
        self.pods = Kinds(
            kinds=tuple(Kind(gpu, cpu, memory, None) for gpu, (cpu, memory) in asked),
            counts=_asked(problem),
            gpus=problem.cluster.gpu_count.astype(np.int64),
            capacity=np.maximum(problem.cluster.capacity[:, :2], 1).astype(np.int64),
            allowed=problem.shape_hosts,
        )
        self._placement = placement
        self.left, self.whole = placement.free[:, :2], placement.whole
        self.gpus = placement.arrivable_milli_gpu()

    def refresh(self) -> _View:
        """Look again at the GPUs, which have changed."""
        self.gpus = self._placement.arrivable_milli_gpu()
        return self


def _asked(problem: Problem) -> Ints:
    """Return how many tasks of each shape the first options of pending jobs ask."""
    counts = np.zeros(len(problem.shape_gpu), dtype=np.int64)
    for job_class in problem.classes:
        for group in () if job_class.running else job_class.choices[0].groups:
            counts[group.shape] += len(job_class.jobs) * group.count
    return counts


@dataclass(slots=True)
class _Placer:
    """Places tasks one after another on the host that costs least."""

    placement: Placement
    view: _View
    cost: Cost
    fragmentation: Fragmentation | None

    def place(self, choice: Choice) -> list[TaskPlacement] | None:
        """Place an option; None, and nothing changed, if it does not fit.

        Where tasks are tied by more than levels, as by slices, our greedy places them.
        """
        if choice.is_tied or choice.uses:
            puts = place_choice(self.placement, choice)
            self._touch(puts or ())
            return puts
        puts = []
        for index, group in enumerate(choice.groups):
            found = self._place_group(choice, index, group)
            if found is None:
                lift_all(self.placement, choice, puts)
                self._touch(puts)
                return None
            puts += found
        return puts

    def _touch(self, puts: list[TaskPlacement] | tuple[()]) -> None:
        if self.fragmentation is not None:
            changed = {put.host for put in puts}
            self.fragmentation.changed = changed.union(self.fragmentation.changed)

    def _place_group(self, choice: Choice, index: int, group: Group) -> list[TaskPlacement] | None:
        room = self.placement.fits(group.shape)
        if room.sum() < group.count:
            return None
        inside: Bools = np.ones(len(room), dtype=np.bool_)
        if group.required != NO_LEVEL:
            domain = self.placement.problem.cluster.domain[group.required]
            holds = np.bincount(domain, weights=np.maximum(room, 0))
            costs = np.where(
                (room > 0) & (holds[domain] >= group.count), self._costs(group), np.inf
            )
            if not np.isfinite(costs).any():
                return None
            inside = domain == domain[int(costs.argmin())]
        puts: list[TaskPlacement] = []
        for _ in range(group.count):
            fits = (self.placement.fits(group.shape) > 0) & inside
            if not fits.any():
                lift_all(self.placement, choice, puts)
                self._touch(puts)
                return None
            host = int(np.where(fits, self._costs(group), np.inf).argmin())
            if not fits[host]:  # the rule sees no room there, as FGD where memory is short
                host = int(fits.argmax())
            gpus = self.placement.put(group.shape, host)
            puts.append(TaskPlacement(index, host, 1, gpus))
            self._touch(puts[-1:])
        return puts

    def _costs(self, group: Group) -> Floats:
        return self.cost(self.view.refresh(), group.shape)


def by_rule(cost: Cost | None, round_: Round, seconds: float) -> Attempt:
    """Decide by a packing rule; None is FGD. What has no turn within the limit waits."""
    end = time.monotonic() + seconds
    problem = compile_round(round_)
    placement = Placement(problem)
    view = _View(placement)
    fragmentation = Fragmentation(view.pods) if cost is None and view.pods.counts.any() else None
    costs = cost or (fragmentation.costs if fragmentation else first_fit)
    placer = _Placer(placement, view, costs, fragmentation)
    order = sorted(
        (-round_.jobs[job].priority, job, c)
        for c, job_class in enumerate(problem.classes)
        if not job_class.running
        for job in job_class.jobs
    )
    quota = placement.quota_left()
    note = ""
    for _, _, c in order:
        if time.monotonic() > end:
            note = "the time limit left jobs without a turn"
            break
        job_class = problem.classes[c]
        for o, choice in enumerate(job_class.choices):
            if not problem.within_quota(quota, job_class.accounts, choice):
                continue
            puts = placer.place(choice)
            if puts is not None:
                placement.start(c, o, puts)
                problem.charge_quota(quota, job_class.accounts, choice)
                break
    return Attempt(plan_of(round_, problem, placement, "rule"), note=note)


RULES: Mapping[str, Callable[[Round, float], Attempt]] = MappingProxyType(
    {
        "first-fit": partial(by_rule, first_fit),
        "best-fit": partial(by_rule, best_fit),
        "dot-product": partial(by_rule, dot_product),
        "fgd": partial(by_rule, None),
    }
)
LITERAL = ("highs", "cp-sat")
