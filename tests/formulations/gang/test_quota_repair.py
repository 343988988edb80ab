"""Quota repair: which jobs of a tenant stop for a gang that it has no quota left for."""

from __future__ import annotations

import time
from typing import Any

from placewright.formulations.gang.heuristics.gang_insertion import insert_gangs
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.session import Session
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round
from placewright.solver import InProcess

Raw = dict[str, Any]
ONE_SUM = {"priority": "preemption"}


def session() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0)


def runs(name: str, priority: int, tenant: str, model: str | None, *places: tuple[str, int]) -> Raw:
    """A job that runs with one GPU per task."""
    group: Raw = {"count": len(places), "gpu": 1, "gpu_models": model and [model]}
    tasks = [{"index": i, "host": host, "gpus": [gpu]} for i, (host, gpu) in enumerate(places)]
    named = {"name": name, "priority": priority, "tenant": tenant}
    return {**named, "options": [{"groups": [group]}], "running": {"tasks": tasks}}


def beyond_its_quota(*running: Raw, priority: str = "preemption") -> Round:
    """A gang of four GPUs of model A, and who runs; its tenant may hold five."""
    hosts = [
        {"name": f"h{i}", "parent": "r", "gpus": 2, "gpu_model": model}
        for i, model in enumerate("AABB")
    ]
    gang: Raw = {
        "name": "gang",
        "tenant": "red",
        "priority": 2,
        "weight": 8,
        "options": [{"groups": [{"count": 2, "gpu": 2, "gpu_models": ["A"]}]}],
    }
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": "r", "level": "rack"}],
                "hosts": hosts,
            },
            "tenants": [{"name": "red", "quota": {"gpu": 5}}, {"name": "blue"}],
            "jobs": [*running, gang],
            "policy": {"priority": priority},
        }
    )
    check_round(round_)
    return round_


def test_another_tenants_job_moves_to_where_one_stops_for_its_tenants_quota() -> None:
    """The gang needs three GPUs of quota that jobs hold to whose hosts it does not come."""
    round_ = beyond_its_quota(
        runs("own-a", 0, "red", None, ("h0", 0)),
        runs("own-b", 0, "red", "B", ("h2", 0)),
        runs("own-c", 0, "red", "B", ("h2", 1)),
        runs("own-d", 0, "red", "B", ("h3", 0)),
        runs("high", 1, "blue", "B", ("h3", 1)),
    )
    placement = Placement(compile_round(round_))
    insert_gangs(session(), placement)
    repair_preemptions(placement)
    # own-a is in the way; for own-b or own-c the other tenant's job moves; own-d need not stop.
    assert placement.value == 4 * 8000 - 3 * 1000
    plan = solve_round(round_, time_limit=10, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.terms[0].value == placement.value


def test_a_whole_gang_stops_for_its_tenants_quota_where_one_job_moves_to_a_host_of_it() -> None:
    round_ = beyond_its_quota(
        runs("own", 0, "red", "B", ("h2", 0), ("h2", 1), ("h3", 0)),
        runs("high", 1, "blue", "B", ("h3", 1)),
    )
    placement = Placement(compile_round(round_))
    insert_gangs(session(), placement)
    repair_preemptions(placement)
    assert placement.value == 4 * 8000 - 3 * 1000
    plan = solve_round(round_, time_limit=10, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.terms[0].value == placement.value


def test_who_has_moved_stops_for_others_elsewhere_too() -> None:
    """The gang moves a job off its hosts; one of more worth may yet take the place it came to."""
    round_ = beyond_its_quota(runs("low", 0, "blue", None, ("h0", 0)), priority="strict")
    one: Raw = {"name": "one", "priority": 1, "weight": 2, "tenant": "blue"}
    one["options"] = [{"groups": [{"gpu": 1, "gpu_models": ["B"]}]}]
    full = [runs(f"b{i}", 3, "blue", "B", (f"h{2 + i // 2}", i % 2)) for i in range(3)]
    jobs = [*round_.jobs, *(Job.model_validate(raw) for raw in (one, *full))]
    placement = Placement(compile_round(round_.model_copy(update={"jobs": tuple(jobs)})))
    insert_gangs(session(), placement)
    repair_preemptions(placement)
    assert sum(placement.class_values.values()) == 4 * 8000 + 2 * 1000 - 1000
