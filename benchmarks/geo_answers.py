"""What methods answer to a round with regions: the terms of verified plans, and what they cost.

A row's value is of the first term. Whoever is better than ours without a bound, term by term, makes
an error of it, and so does whoever beats a bound of ours that holds for its plan.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf

from benchmarks import region_rules, replica_plans, replica_rules
from benchmarks.baselines import Answer, InvalidPlanError, of_certificate
from benchmarks.compare import Runs, compared
from benchmarks.report import ERROR, OURS, Row
from placewright import Plan, Round, solve_round, verify
from placewright.formulations.gang.terms import SENSE
from placewright.formulations.replicas.bounds import together
from placewright.formulations.replicas.compile import compile_replicas
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import compile_wan
from placewright.instances.plan import Certificate, DecisionKind, Reason
from placewright.rounds.certificate import gap_of
from placewright.solver import Worker

__all__ = ["answers", "placed", "placewright", "ruled"]

TITLES = {"remote_reads": "remote GiB", "copies": "copied GiB", "hottest": "hottest"}
"""Of the columns of later terms; `hottest` is in thousandths."""

LATER = ("remote_reads", "copies")
"""The terms that tell plans apart which are equal in the first one."""

DECIDED = "own CPU s"


def placewright(seconds: float, round_: Round) -> Answer:
    """Decide as `placewright solve` does; the plan is verified once more."""
    began = _cpu_seconds()
    plan = solve_round(round_, time_limit=seconds)
    decided = _cpu_seconds() - began
    _, figures = _figures(round_, plan)
    assert plan.certificate is not None
    figures.update(_proven(plan.certificate))
    if round_.policy.formulation == "replicas":
        values = {term.name: term.value for term in plan.certificate.terms}
        figures.update(_together(round_, values, seconds))
    return replace(of_certificate(plan.certificate), figures={**figures, DECIDED: decided})


def ruled(rule: region_rules.Rule, round_: Round) -> Answer:
    """Decide where jobs run with a rule."""
    return _unproven(round_, lambda: region_rules.plan_of(rule, round_))


def placed(planner: replica_rules.Planner, round_: Round) -> Answer:
    """Decide where data lives with a rule."""
    return _unproven(round_, lambda: replica_plans.plan_of(planner, round_))


def answers(
    case: str, seed: int | None, methods: Mapping[str, Callable[[], Runs]]
) -> Iterator[Row]:
    """Yield the rows of `compared`, and an error for each method that is better than it can be.

    No rule may be better than ours in the first of the terms in which they differ, nor beat a bound
    of a later term with a plan that is as good as ours in the terms before it.
    """
    rows = list(compared(case, seed, methods))
    yield from rows
    ours = next((row for row in rows if row.method == OURS and row.status != ERROR), None)
    if ours is None:
        return
    for row in rows:
        if row.method == OURS or row.status == ERROR:
            continue
        if _standing(row) < _standing(ours):
            note = f"{row.method} is better by its rule alone"
            yield Row(case, OURS, seed, ERROR, note=note)
        for term in _beaten(ours, row):
            note = f"{row.method} beats the bound of {term}"
            yield Row(case, OURS, seed, ERROR, note=note)


def _standing(row: Row) -> list[float]:
    """Return what is compared, the less the better."""
    if row.term is None or row.value is None:
        return [inf]
    later = (row.figures[TITLES[term]] for term in LATER if TITLES[term] in row.figures)
    return [-row.value if SENSE[row.term] == "max" else row.value, *later]


def _beaten(ours: Row, row: Row) -> Iterator[str]:
    """Yield the later terms whose bound a plan beats that is as good in the terms before."""
    mine, theirs = _standing(ours), _standing(row)
    for number, term in enumerate(LATER, 1):
        bound = ours.figures.get(_at_least(term))
        if bound is None or number >= len(theirs):
            continue
        as_good = all(a <= b for a, b in zip(theirs[:number], mine[:number], strict=True))
        if as_good and theirs[number] < bound:
            yield term


def _at_least(term: str) -> str:
    return f"{TITLES[term].split()[0]} >="


def _unproven(round_: Round, decide: Callable[[], Plan]) -> Answer:
    began = _cpu_seconds()
    plan = decide()
    decided = _cpu_seconds() - began
    value, figures = _figures(round_, plan)
    first = round_.policy.terms[0]
    return Answer("feasible", first, value, figures={**figures, DECIDED: decided})


def _figures(round_: Round, plan: Plan) -> tuple[int, dict[str, float]]:
    """Return the first term of a plan, once verified, the later ones, and what it does."""
    verification = verify(round_, plan)
    if not verification.ok:
        raise InvalidPlanError(f"the plan is invalid: {verification.violations[0]}")
    terms = {TITLES[t]: value for t, value in verification.terms.items() if t in TITLES}
    told = _used(round_, plan) if round_.policy.formulation == "geo" else _homes(round_, plan)
    return verification.terms[round_.policy.terms[0]], {**terms, **told}


def _used(round_: Round, plan: Plan) -> dict[str, float]:
    """Return the share of GPUs in use, and how many jobs wait, and wait for data."""
    jobs = {job.name: job for job in round_.jobs}
    held = sum(
        jobs[d.job].options[d.option].milli_gpu for d in plan.decisions if d.option is not None
    )
    supply = int(compile_wan(round_).supply.sum())
    waits = [d for d in plan.decisions if d.decision is DecisionKind.WAIT]
    return {
        "GPUs %": 100 * held / supply,
        "wait": len(waits),
        "for data": sum(d.reason is Reason.DATA for d in waits),
    }


def _homes(round_: Round, plan: Plan) -> dict[str, float]:
    """Return the share of GPUs that jobs at home can use, and the jobs without a home."""
    (section,) = (entry for entry in plan.sections if entry["kind"] == "replicas")
    asked = {job.name: job.options[0].milli_gpu for job in round_.jobs}
    demand: dict[tuple[str, str], int] = {}
    for home in section["homes"]:
        key = home["region"], home["gpu_model"]
        demand[key] = demand.get(key, 0) + asked[home["job"]]
    wan = compile_wan(round_)
    used = sum(
        min(int(wan.supply[r, m]), demand.get((region, model), 0))
        for r, region in enumerate(wan.regions)
        for m, model in enumerate(wan.models)
    )
    return {
        "GPUs %": 100 * used / int(wan.supply.sum()),
        "homeless": len(round_.jobs) - len(section["homes"]),
        "new": len(section["creates"]),
    }


def _proven(certificate: Certificate) -> dict[str, float]:
    """Return what is proven of the later terms."""
    figures: dict[str, float] = {}
    for term in certificate.terms[1:]:
        if term.name in TITLES and term.bound is not None:
            figures[_at_least(term.name)] = term.bound
        if term.name in LATER and term.gap is not None:
            figures[f"{TITLES[term.name].split()[0]} gap %"] = 100 * term.gap
    return figures


def _together(round_: Round, values: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Return the GiB read over links and copied together, and what is proven of that sum.

    The bound is of plans with no more overload, sought for so many seconds.
    """
    reached = values["remote_reads"] + values["copies"]
    began, bound = _cpu_seconds(), 0.0
    with Worker() as worker:
        session = Session(worker.solve, time.monotonic() + seconds)
        problem = compile_replicas(round_)
        for proven in together(problem, session, values["overload"], reached):
            bound = max(bound, proven.bound)
    figures = {
        "both GiB": reached,
        "both >=": bound,
        "both gap %": 100 * (gap_of(reached, bound) or 0),
    }
    return {**figures, "bound CPU s": _cpu_seconds() - began}


def _cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                break
        except ChildProcessError:
            break
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
