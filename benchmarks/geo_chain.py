"""Both paths, one after the other: data goes where a plan says, then jobs find it beside GPUs.

The plan of policy `replicas` is carried out until the end of its window. One round of `geo` follows
in which no job runs yet, with the replicas that are there then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks import replica_plans, replica_rules
from benchmarks.baselines import Answer, of_certificate
from benchmarks.geo_figures import TITLES, at_least, cpu_seconds, figures_of, proven_of
from placewright import Plan, Round, solve_round
from placewright.instances.derived.arrived_copies import with_arrived_copies
from placewright.instances.documents.policy import Policy
from placewright.instances.generators.geo.rounds import facts_of
from placewright.rounds.state.changes import geo_after_plan

__all__ = ["after", "as_it_lies", "both_paths"]


def both_paths(data_seconds: float, seconds: float, round_: Round) -> Answer:
    """Decide where data lives, in so many seconds at most, and then where jobs run."""
    return _chained(partial(solve_round, time_limit=data_seconds), seconds, round_)


def as_it_lies(seconds: float, round_: Round) -> Answer:
    """Decide where jobs run with data where it is."""
    return _chained(partial(replica_plans.plan_of, replica_rules.stay), seconds, round_)


def after(round_: Round, plan: Plan) -> Round:
    """Return the round of `geo` that finds data as a plan of `replicas` leaves it."""
    later = round_.now + round_.geo.window_s
    geo = with_arrived_copies(geo_after_plan(round_, plan.sections), later)
    return round_.model_copy(update={"now": later, "geo": geo, "policy": Policy(formulation="geo")})


def _chained(relocate: Callable[[Round], Plan], seconds: float, round_: Round) -> Answer:
    """Answer with the second plan; the figures tell of both, each of which is verified."""
    began = cpu_seconds()
    data = relocate(round_)
    relocated = cpu_seconds()
    _, of_data = figures_of(round_, data)
    if data.certificate is not None:
        of_data.update(proven_of(data.certificate))
    terms = ("hottest", "copies")
    columns = [*(column for term in terms for column in (TITLES[term], at_least(term)))]
    following, decided = after(round_, data), cpu_seconds()
    plan = solve_round(following, time_limit=seconds)
    ended = cpu_seconds()
    _, of_jobs = figures_of(following, plan)
    assert plan.certificate is not None
    figures = {
        "hottest before": round(1000 * facts_of(round_).hottest),
        **{column: of_data[column] for column in columns if column in of_data},
        **of_jobs,
        "for data %": 100 * of_jobs["for data"] / len(round_.jobs),
        "data CPU s": relocated - began,
        "jobs CPU s": ended - decided,
    }
    return replace(of_certificate(plan.certificate), figures=figures)
