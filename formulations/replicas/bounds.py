"""Bounds of the policy `replicas`: what no plan can do better, term by term.

Multipliers of a linear relaxation (`program.py`), whatever they are, prove a bound in whole numbers
by weak duality, and so do those of each leaf where replicas are made whole (`branching.py`).
`docs/formulations/replicas.md` says what the relaxations leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.replicas.branching import Proven, Relaxed, improving, relaxed
from placewright.formulations.replicas.pool import Pool, pool_of
from placewright.formulations.replicas.problem import HOMELESS, Problem
from placewright.formulations.replicas.program import TOGETHER, Program, program_of
from placewright.formulations.session import SHARPNESS, Bound, Session, near

Floats: TypeAlias = NDArray[np.float64]

BRANCHED = ("remote_reads", "copies")
"""Terms for which it matters much that replicas are whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """What a relaxation says of where to look for plans.

    Attributes
    ----------
    replicas : Floats
        (datasets, regions): how much of a replica it has.
    homes : Floats
        (jobs, regions, models): how much of a job.
    load : Floats
        (regions, models): what one more milli-GPU there would save.
    room, ingress : Floats
        (regions,): what one more GiB of storage, and of copies that come, would save.
    """

    replicas: Floats
    homes: Floats
    load: Floats
    room: Floats
    ingress: Floats


def bounds(problem: Problem, session: Session, held: Mapping[str, int]) -> Iterator[Bound]:
    """Yield bounds of every term, the quick ones first, and better ones as long as time is left.

    It ends early where all terms of the round's best plan are proven.

    Parameters
    ----------
    held
        Values of a plan by term. Each term is bounded among plans that are no worse in those
        before it.
    """
    terms = problem.terms
    pool = pool_of(problem.wan)
    proven = {term: _resting(pool).get(term, 0) for term in terms}
    for term in terms:
        yield Bound(term, float(proven[term]), certified=True)
    coarse = program_of(without_data(pool))
    for term in ("overload", "hottest"):
        if term in terms and (found := _relaxed(coarse, term, {}, session)) is not None:
            proven[term] = max(proven[term], found.bound)
            yield Bound(term, float(proven[term]), certified=True)
    program = program_of(pool)
    trees: dict[str, Iterator[Proven]] = {}
    for number, term in enumerate(terms):
        if session.proven:
            return
        goal = held.get(term, np.inf)
        if near(proven[term], goal, SHARPNESS):
            continue
        known = {name: held[name] for name in terms[:number] if name in held}
        trees[term] = improving(program, term, known, session, goal)
        for step in trees[term]:
            yield Bound(term, float(step.bound), tuple(known.items()), step.certified)
            break
    open_trees = [term for term in BRANCHED if term in trees and term in held]
    for left, term in zip(range(len(open_trees), 0, -1), open_trees, strict=True):
        known = {name: held[name] for name in terms[: terms.index(term)] if name in held}
        until = session.remaining() * (1 - 1 / left)
        for step in trees[term]:
            yield Bound(term, float(step.bound), tuple(known.items()), step.certified)
            late = not session.deterministic and session.expired(until)
            if late or session.proven or near(step.bound, held[term], session.gap):
                break


def together(
    problem: Problem, session: Session, overload: int, goal: float = np.inf
) -> Iterator[Proven]:
    """Yield better and better bounds of the GiB read remotely and copied, at this overload or less.

    `goal`: what a plan reaches.
    """
    program = program_of(pool_of(problem.wan))
    yield from improving(program, TOGETHER, {"overload": overload}, session, goal)


def prices(problem: Problem, session: Session, overload: int) -> Prices | None:
    """Return the relaxation of GiB read remotely and copied; None if no time or solver is left."""
    program = program_of(pool_of(problem.wan))
    found = _relaxed(program, TOGETHER, {"overload": overload}, session)
    if found is None or found.point is None:
        return None
    point, saved = np.append(found.point, 0.0), np.append(found.prices, 0.0)
    return Prices(
        replicas=point[program.replica],
        homes=point[program.share][program.pool.job_class],
        load=saved[program.load_rows] @ np.array([1.0, 5.0]) / program.unit,
        room=saved[program.room_rows],
        ingress=saved[program.ingress_rows],
    )


def _relaxed(
    program: Program, term: str, held: Mapping[str, int], session: Session
) -> Relaxed | None:
    try:
        return relaxed(program.arrays(term, held), session)
    except ArithmeticError:
        return None


def _resting(pool: Pool) -> dict[str, int]:
    """Return what jobs that cannot have a home cost, for each term that they are part of."""
    never = np.logical_not(np.logical_or.reduce(pool.homes, axis=(1, 2)))
    steps = never[pool.read_class[pool.step_read]]
    return {
        "overload": HOMELESS * int(pool.demand[never].sum()),
        "remote_reads": int(pool.step_gib[steps].sum()),
    }


def without_data(pool: Pool) -> Pool:
    """Return a pool whose classes read nothing: a few, which differ in where they may run."""
    homes = pool.homes.reshape(pool.classes, int(np.prod(pool.homes.shape[1:])))
    parts = [homes, pool.sure[:, None], (pool.demand > 0)[:, None]]
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
