"""Bounds of the policy `replicas`: what no plan can do better, term by term.

All but the last kind are certified: multipliers of a linear relaxation (`program.py`), whatever
they are, prove a bound in whole numbers by weak duality. `docs/formulations/replicas.md` says what
the relaxations leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.replicas.pool import Pool, pool_of
from placewright.formulations.replicas.problem import HOMELESS, Problem
from placewright.formulations.replicas.program import TOGETHER, Program, program_of
from placewright.formulations.session import SHARPNESS, Bound, Session, near
from placewright.solver import certified_bound, multipliers

Floats: TypeAlias = NDArray[np.float64]

SEARCH = 0.5
"""Share of the time left that branching on replicas may take."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """What a relaxation says: a certified bound, a point that reaches about that much, and prices.

    Attributes
    ----------
    bound : int
        No plan is better, of those that hold what was held.
    replicas : Floats
        (datasets, regions): how much of a replica.
    homes : Floats
        (jobs, regions, models): how much of a job.
    load : Floats
        (regions, models): what one more milli-GPU there would save.
    room, ingress : Floats
        (regions,): what one more GiB of storage, and of copies that come, would save.
    """

    bound: int
    replicas: Floats
    homes: Floats
    load: Floats
    room: Floats
    ingress: Floats


@dataclass(slots=True)
class Bounds:
    """The relaxations of one round.

    `bounds` serves a formulation; benchmarks and searches ask `relax` themselves.
    """

    pool: Pool
    session: Session
    _whole: Program | None = field(default=None, init=False)

    @property
    def whole(self) -> Program:
        """The program of all classes and datasets."""
        if self._whole is None:
            self._whole = program_of(self.pool)
        return self._whole

    def certified(self, program: Program, term: str, held: Mapping[str, int]) -> int | None:
        """Return what a program proves of a term; None if no time or solver is left."""
        arrays = program.arrays(term, held)
        outcome = self.session.optimise(arrays, interior=True)
        if outcome is None or outcome.row_duals is None:
            return None
        bound = certified_bound(arrays, multipliers(arrays, outcome.row_duals))
        return None if bound is None else max(0, ceil(bound))

    def relax(self, term: str, held: Mapping[str, int]) -> Relaxed | None:
        """Return the relaxation of a term, or of `TOGETHER`, with others held; None as above."""
        program = self.whole
        arrays = program.arrays(term, held)
        outcome = self.session.optimise(arrays, interior=True)
        if outcome is None or outcome.row_duals is None or outcome.values is None:
            return None
        bound = certified_bound(arrays, multipliers(arrays, outcome.row_duals))
        if bound is None:
            return None
        values, prices = np.append(outcome.values, 0.0), np.append(-outcome.row_duals, 0.0)
        load = prices[program.load_rows] @ np.array([1.0, 5.0]) / program.unit
        return Relaxed(
            bound=max(0, ceil(bound)),
            replicas=values[program.replica],
            homes=values[program.share][self.pool.job_class],
            load=load,
            room=prices[program.room_rows],
            ingress=prices[program.ingress_rows],
        )

    def claimed(self, term: str, held: Mapping[str, int]) -> float | None:
        """Return what a solver claims where replicas are whole; None as above."""
        arrays = self.whole.arrays(term, held, relax=False)
        outcome = self.session.optimise(arrays, share=SEARCH)
        return None if outcome is None else outcome.bound

    def resting(self) -> dict[str, int]:
        """Return what jobs without any home cost, for each term that they are part of."""
        pool = self.pool
        never = np.logical_not(np.logical_or.reduce(pool.homes, axis=(1, 2)))
        steps = never[pool.read_class[pool.step_read]]
        return {
            "overload": HOMELESS * int(pool.demand[never].sum()),
            "remote_reads": int(pool.step_gib[steps].sum()),
        }


def bounds(problem: Problem, session: Session, held: Mapping[str, int]) -> Iterator[Bound]:
    """Yield bounds of every term, the quick ones first.

    Parameters
    ----------
    held
        Values of a plan by term. Each term is bounded among plans that are no worse in those
        before it.
    """
    terms = problem.terms
    asked = Bounds(pool_of(problem.wan), session)
    rest = asked.resting()
    proven = {term: rest.get(term, 0) for term in terms}
    for term in terms:
        yield Bound(term, float(proven[term]), certified=True)
    coarse = program_of(without_data(asked.pool))
    for term in ("overload", "hottest"):
        if term in terms and (value := asked.certified(coarse, term, {})) is not None:
            proven[term] = max(proven[term], value)
            yield Bound(term, float(value), certified=True)
    for earlier, term in enumerate(terms):
        known = {name: held[name] for name in terms[:earlier] if name in held}
        if term in held and near(proven[term], held[term], SHARPNESS):
            continue
        value = asked.certified(asked.whole, term, known)
        if value is not None:
            proven[term] = max(proven[term], value)
            yield Bound(term, float(value), tuple(known.items()), certified=True)
    for earlier, term in enumerate(terms):
        known = {name: held[name] for name in terms[:earlier] if name in held}
        if term in held and near(proven[term], held[term], session.gap):
            continue
        claim = asked.claimed(term, known)
        if claim is not None and claim > proven[term]:
            yield Bound(term, claim, tuple(known.items()))


def together(problem: Problem, session: Session, overload: int) -> int | None:
    """Return a certified bound of the GiB read remotely and copied, at this overload or less.

    None if no time or solver is left.
    """
    asked = Bounds(pool_of(problem.wan), session)
    return asked.certified(asked.whole, TOGETHER, {"overload": overload})


def without_data(pool: Pool) -> Pool:
    """Return a pool whose classes read nothing: a few, which differ in where they may run."""
    parts = [pool.homes.reshape(pool.classes, -1), pool.sure[:, None], (pool.demand > 0)[:, None]]
    key = np.column_stack(parts)
    _, first, kind = np.unique(key, axis=0, return_index=True, return_inverse=True)
    kind = kind.reshape(-1)
    demand, weight = np.zeros((2, len(first)), dtype=np.int64)
    np.add.at(demand, kind, pool.demand)
    np.add.at(weight, kind, pool.weight)
    nothing = np.zeros(0, dtype=np.int64)
    regions = len(pool.room)
    nowhere = np.zeros_like(pool.possible)
    return replace(
        pool,
        job_class=kind[pool.job_class],
        demand=demand,
        weight=weight,
        homes=pool.homes[first],
        sure=pool.sure[first],
        read_class=nothing,
        read_dataset=nothing,
        near=np.zeros((0, regions), dtype=np.bool_),
        served=np.zeros((0, regions, regions), dtype=np.bool_),
        step_read=nothing,
        step_weight=nothing,
        step_gib=nothing,
        possible=nowhere,
        fresh=nowhere,
        there=nowhere,
        kept=np.zeros_like(pool.kept),
    )
