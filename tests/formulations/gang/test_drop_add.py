"""Drop/add: a gang is preempted for several jobs worth more together; quota repair."""

from __future__ import annotations

import time
from typing import Any

from placewright.formulations.gang.heuristics.displace import plan_without_solver
from placewright.formulations.gang.heuristics.ejection import drop_and_add
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


def gang_on_two_hosts(*, singles: int, weight: int = 1) -> Round:
    """A gang on two hosts of two GPUs, and jobs of one GPU and more priority that wait."""
    tasks = [{"index": i, "host": f"h{i}", "gpus": [0, 1]} for i in range(2)]
    groups = [{"count": 2, "gpu": 2, "required": "rack"}]
    gang: Raw = {"name": "gang", "options": [{"groups": groups}], "running": {"tasks": tasks}}
    one: Raw = {"priority": 1, "weight": weight, "options": [{"groups": [{"gpu": 1}]}]}
    hosts = [{"name": f"h{i}", "parent": "r", "gpus": 2, "gpu_model": "A"} for i in range(2)]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": "r", "level": "rack"}],
                "hosts": hosts,
            },
            "jobs": [gang, *({"name": f"one{i}", **one} for i in range(singles))],
            "policy": ONE_SUM,
        }
    )
    check_round(round_)
    return round_


def test_a_gang_is_preempted_for_many_jobs_that_are_worth_more_together() -> None:
    problem = compile_round(gang_on_two_hosts(singles=3, weight=2))
    for placement in (Placement(problem), plan_without_solver(problem, session())):
        drop_and_add(session(), placement)
        repair_preemptions(placement)
        assert placement.value == 3 * 2000 - 4000
        assert not placement.is_running(0)


def test_a_gang_stays_if_what_waits_is_worth_less() -> None:
    for singles, weight in ((4, 1), (1, 3)):
        problem = compile_round(gang_on_two_hosts(singles=singles, weight=weight))
        placement = Placement(problem)
        drop_and_add(session(), placement)
        assert placement.in_place(0)
        assert placement.value == 0


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


def test_one_that_may_have_other_gpus_moves_on_to_where_others_are_worth_less() -> None:
    hosts = [{"name": f"h{m}", "parent": "r", "gpus": 1, "gpu_model": m} for m in "AB"]
    flexible = runs("flexible", 1, "red", None, ("hA", 0)) | {"weight": 4}
    one: Raw = {"name": "one", "priority": 2, "weight": 2}
    one["options"] = [{"groups": [{"gpu": 1, "gpu_models": ["A"]}]}]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": "r", "level": "rack"}],
                "hosts": hosts,
            },
            "tenants": [{"name": "red"}],
            "jobs": [flexible, runs("low", 0, "red", "B", ("hB", 0)), one],
            "policy": ONE_SUM,
        }
    )
    check_round(round_)
    placement = Placement(compile_round(round_))
    insert_gangs(session(), placement)
    repair_preemptions(placement)
    assert placement.value == 2000 - 1000
    assert placement.is_running(0)


def test_one_task_jobs_move_beside_a_gang_that_stops() -> None:
    """The gang needs both hosts of a rack; one has a gang of less worth, the other who may move."""
    hosts = [
        {"name": f"h{i}", "parent": rack, "gpus": 2, "gpu_model": "A"}
        for i, rack in enumerate("rrs")
    ]
    groups = [{"count": 2, "gpu": 2, "required": "rack"}]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": rack, "level": "rack"} for rack in "rs"],
                "hosts": hosts,
            },
            "tenants": [{"name": "red"}],
            "jobs": [
                runs("low-gang", 0, "red", None, ("h0", 0), ("h0", 1)),
                runs("high-a", 2, "red", None, ("h1", 0)),
                runs("high-b", 2, "red", None, ("h1", 1)),
                runs("low-a", 0, "red", None, ("h2", 0)),
                runs("low-b", 0, "red", None, ("h2", 1)),
                {"name": "gang", "priority": 1, "weight": 8, "options": [{"groups": groups}]},
            ],
            "policy": ONE_SUM,
        }
    )
    check_round(round_)
    placement = Placement(compile_round(round_))
    insert_gangs(session(), placement)
    repair_preemptions(placement)
    assert [placement.is_running(job) for job in range(5)] == [False, True, True, False, False]
    assert placement.value == 8 * 4000 - 4 * 1000
