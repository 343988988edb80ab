"""What a plan of a round with regions does, beside its first term."""

from __future__ import annotations

import os
import resource
import time

from benchmarks.baselines import InvalidPlanError
from placewright import Plan, Round, verify
from placewright.formulations.common.wan.arrays import compile_wan
from placewright.instances.documents.plan import Certificate, DecisionKind, Reason

__all__ = ["LATER", "TITLES", "at_least", "cpu_seconds", "figures_of", "proven_of"]

TITLES = {"remote_reads": "remote GiB", "copies": "copied GiB", "hottest": "hottest"}
"""Of the columns of later terms; `hottest` is in thousandths."""

LATER = ("remote_reads", "copies")
"""The terms that tell plans apart which are equal in the first one."""


def at_least(term: str) -> str:
    """Return the column of what is proven of a later term."""
    return f"{TITLES[term].split()[0]} >="


def figures_of(round_: Round, plan: Plan) -> tuple[int, dict[str, float]]:
    """Return the first term of a plan, once verified, the later ones, and what it does."""
    verification = verify(round_, plan)
    if not verification.ok:
        raise InvalidPlanError(f"the plan is invalid: {verification.violations[0]}")
    terms = {TITLES[t]: value for t, value in verification.terms.items() if t in TITLES}
    of_jobs = _used(round_, plan) if round_.policy.formulation == "geo" else _homes(round_, plan)
    return verification.terms[round_.policy.terms[0]], {**terms, **of_jobs}


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


def proven_of(certificate: Certificate) -> dict[str, float]:
    """Return what is proven of the later terms."""
    figures: dict[str, float] = {}
    for term in certificate.terms[1:]:
        if term.name in TITLES and term.bound is not None:
            figures[at_least(term.name)] = term.bound
        if term.name in LATER and term.gap is not None:
            figures[f"{TITLES[term.name].split()[0]} gap %"] = 100 * term.gap
    return figures


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                break
        except ChildProcessError:
            break
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
