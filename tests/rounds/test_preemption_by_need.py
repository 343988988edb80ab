"""Whom a plan may preempt: the bundled round `excuse`, and plans that no operator would sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placewright import load_round, solve_round, verify
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
EXCUSE = "excuse"
BACKENDS = ("highs", "cp-sat", "cbc", "scip")
Raw = dict[str, Any]


def at(host: str, *gpus: int) -> Raw:
    return {"host": host, "gpus": list(gpus)}


def job(name: str, priority: int, gpus: int, *running: Raw, **more: Any) -> Raw:
    """A job of one group; it runs with a task in each of these places."""
    group = {"gpu": gpus // max(len(running), 1), "count": max(len(running), 1)}
    raw: Raw = {"name": name, "priority": priority, "options": [{"groups": [group]}], **more}
    if running:
        raw["running"] = {"tasks": [{"index": i, **task} for i, task in enumerate(running)]}
    return raw


def round_of(hosts: int, gpus: int, *jobs: Raw, **more: Any) -> Round:
    cluster = {"hosts": [{"name": f"h[0-{hosts - 1}]", "gpus": gpus, "gpu_model": "A100"}]}
    round_ = Round.model_validate(
        {
            "cluster": cluster,
            "jobs": list(jobs),
            "policy": {"terms": ["value", "disruption"]},
            **more,
        }
    )
    check_round(round_)
    return round_


def rules(round_: Round, **decisions: Any) -> set[str]:
    """The rules that a plan breaks, given the tasks of jobs that change, or who displaces them."""
    written = []
    for one in round_.jobs:
        said = decisions.get(one.name, "keep" if one.running else "wait")
        entry: Raw = {"job": one.name, "decision": said}
        if said == "keep" and one.running:
            tasks = [task.model_dump() for task in one.running.tasks]
            entry |= {"option": 0, "tasks": tasks}
        elif isinstance(said, tuple):
            entry |= {"decision": "preempt", "displaced_by": list(said)}
        elif isinstance(said, list):
            tasks = [{"index": i, **task} for i, task in enumerate(said)]
            kind = "migrate" if one.running else "start"
            entry |= {"decision": kind, "option": 0, "tasks": tasks}
        written.append(entry)
    moved = [e["job"] for e in written if e["decision"] == "migrate"]
    stopped = [e["job"] for e in written if e["decision"] == "preempt"]
    section = {"kind": "moves", "steps": stopped, "needs_spare": moved}
    plan = {"decisions": written, "sections": [section] if moved or stopped else []}
    return {found.rule for found in verify(round_, Plan.model_validate(plan)).violations}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_of_higher_priority_is_no_excuse_to_free_a_quota(backend: str) -> None:
    round_ = load_round(LIBRARY / f"{EXCUSE}.yaml")
    plan = solve_round(round_, backend=backend, isolation="none")
    kinds = {decision.job: decision.decision for decision in plan.decisions}
    start, keep, wait = DecisionKind.START, DecisionKind.KEEP, DecisionKind.WAIT
    assert kinds == {"old": keep, "new": wait, "tiny": start}
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


def test_the_plan_that_was_once_optimal_is_refused() -> None:
    round_ = load_round(LIBRARY / f"{EXCUSE}.yaml")
    plan = {"old": ("tiny",), "new": [at("h1", *range(8))]}
    assert rules(round_, **plan, tiny=[at("h0", 0)]) == {"preemption", "displaced_by"}
    assert rules(round_, **plan, tiny=[at("h2", 0)]) == {"preemption", "displaced_by"}


def test_equals_get_nothing_of_what_two_victims_leave() -> None:
    """A host of 8, of which 4 stay: N needs one of two victims, and X may not have the other."""
    jobs = [
        job("kept", 1, 4, at("h0", 0, 1, 2, 3)),
        job("v1", 1, 2, at("h0", 4, 5)),
        job("v2", 1, 2, at("h0", 6, 7)),
        job("N", 2, 2),
        job("X", 1, 2),
    ]
    round_ = round_of(1, 8, *jobs)
    new, equal = [at("h0", 4, 5)], [at("h0", 6, 7)]
    assert rules(round_, v1=("N",), N=new) == set()
    assert "preemption" in rules(round_, v1=("N",), v2=("N",), N=new)
    assert "preemption" in rules(round_, v1=("N",), v2=("N",), N=new, X=equal)
    assert "preemption" in rules(round_, v1=("N",), v2=("X",), N=new, X=equal)


@pytest.mark.parametrize(("follower", "lawful"), [(1, False), (2, True)])
def test_equals_do_not_get_the_place_of_a_higher_job_that_moves(
    follower: int, *, lawful: bool
) -> None:
    jobs = [job("v", 1, 4, at("h0", *range(4))), job("H", 2, 4, at("h1", *range(4)))]
    round_ = round_of(2, 4, *jobs, job("X", follower, 4))
    assert rules(round_, v=("H",), H=[at("h0", *range(4))]) == set()
    broken = rules(round_, v=("H",), H=[at("h0", *range(4))], X=[at("h1", *range(4))])
    assert broken == (set() if lawful else {"preemption"})


def test_the_chain_of_moves_is_followed() -> None:
    """H moves to where v was, G to where H was, and X would have G's old place."""
    jobs = [
        job("v", 1, 2, at("h0", 0, 1)),
        job("H", 2, 2, at("h1", 0, 1)),
        job("G", 2, 2, at("h2", 0, 1)),
    ]
    round_ = round_of(3, 2, *jobs, job("X", 1, 2))
    moves = {"v": ("H",), "H": [at("h0", 0, 1)], "G": [at("h1", 0, 1)]}
    assert rules(round_, **moves) == set()
    assert rules(round_, **moves, X=[at("h2", 0, 1)]) == {"preemption"}


def test_two_jobs_may_be_needed_to_displace_one() -> None:
    more = {"weight": 3}
    jobs = [job("v", 1, 8, at("h0", *range(8))), job("A", 2, 4, **more), job("B", 2, 4, **more)]
    round_ = round_of(1, 8, *jobs)
    plan = {"A": [at("h0", *range(4))], "B": [at("h0", *range(4, 8))]}
    assert rules(round_, v=("A", "B"), **plan) == set()
    assert rules(round_, v=("A",), **plan) == {"displaced_by"}
    assert rules(round_, v=("A", "A"), **plan) == {"displaced_by"}
    solved = solve_round(round_, isolation="none")
    assert solved.decisions[0].displaced_by == ("A", "B")


def test_more_than_is_needed_is_not_named() -> None:
    jobs = [job("v", 1, 2, at("h0", 0, 1)), job("A", 2, 2), job("B", 2, 2)]
    round_ = round_of(2, 2, *jobs)
    plan = {"A": [at("h0", 0, 1)], "B": [at("h1", 0, 1)]}
    assert rules(round_, v=("A", "B"), **plan) == {"displaced_by"}


def test_a_higher_job_displaces_by_quota_on_a_host_that_it_does_not_come_to() -> None:
    tenants = [{"name": "a", "quota": {"gpu": 4}}]
    jobs = [job("v", 1, 4, at("h0", *range(4)), tenant="a"), job("N", 2, 4, tenant="a")]
    round_ = round_of(2, 4, *jobs, tenants=tenants)
    assert rules(round_, v=("N",), N=[at("h1", *range(4))]) == set()
    solved = solve_round(
        round_.model_copy(
            update={
                "jobs": (
                    round_.jobs[0],
                    round_.jobs[1].model_copy(update={"weight": 3}),
                )
            }
        ),
        isolation="none",
    )
    assert solved.decisions[0].displaced_by == ("N",)
    assert solved.certificate is not None
    assert solved.certificate.status == "optimal"


def test_a_tenant_above_its_quota_may_swap_what_it_held() -> None:
    """It holds 8 where 4 are allowed since; 8 are what it may go on holding."""
    tenants = [{"name": "a", "quota": {"gpu": 4}}]
    jobs = [
        job("v1", 1, 4, at("h0", *range(4)), tenant="a"),
        job("v2", 1, 4, at("h1", *range(4)), tenant="a"),
        job("N", 2, 8, tenant="a"),
    ]
    jobs[2]["options"] = [{"groups": [{"gpu": 4, "count": 2}]}]
    round_ = round_of(2, 4, *jobs, tenants=tenants)
    places = [at("h0", *range(4)), at("h1", *range(4))]
    assert rules(round_, v1=("N",), v2=("N",), N=places) == set()


def test_an_equal_may_come_to_a_victims_host_where_there_was_room() -> None:
    jobs = [job("v", 1, 4, at("h0", *range(4))), job("N", 2, 4), job("X", 1, 2)]
    round_ = round_of(1, 8, *jobs, job("kept", 0, 2, at("h0", 6, 7)))
    plan = {"v": ("N",), "N": [at("h0", *range(4))]}
    assert rules(round_, **plan, X=[at("h0", 4, 5)]) == set()
    # On a GPU that was v's it would keep v out, were N not there.
    plan["N"] = [at("h0", 2, 3, 4, 5)]
    assert rules(round_, **plan, X=[at("h0", 0, 1)]) == {"preemption", "displaced_by"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_room_beside_a_victim_is_used(backend: str) -> None:
    jobs = [job("v", 1, 4, at("h0", *range(4))), job("N", 2, 4, weight=3), job("X", 1, 2)]
    round_ = round_of(1, 6, *jobs)
    plan = solve_round(round_, backend=backend, isolation="none")
    kinds = {decision.job: decision.decision for decision in plan.decisions}
    assert kinds["X"] is DecisionKind.START
    assert kinds["N"] is DecisionKind.START
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


def test_a_label_displaces_and_equals_get_nothing_of_it() -> None:
    label = {"label": "service", "level": "host"}
    jobs = [
        job("v", 1, 1, at("h0", 0), anti_affinity=label),
        job("N", 2, 1, anti_affinity=label),
        job("X", 1, 1, anti_affinity=label),
    ]
    round_ = round_of(1, 4, *jobs)
    assert rules(round_, v=("N",), N=[at("h0", 1)]) == set()
    assert "preemption" in rules(round_, v=("X",), X=[at("h0", 1)])


def test_one_name_is_a_list_of_one() -> None:
    decision = {"job": "v", "decision": "preempt", "displaced_by": "N"}
    plan = Plan.model_validate({"decisions": [decision]})
    assert plan.decisions[0].displaced_by == ("N",)
