"""Rounds of promises, decided whole: who runs now, who waits, and what happens when hosts go."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import Changes, Engine, Plan, Round, solve_round, verify
from placewright.instances.checks.round import check_round
from placewright.instances.documents.leases import Outage

HOUR = 3600


def round_of(jobs: list[dict[str, Any]], hosts: int = 1, **fields: Any) -> Round:
    leases = {"length_s": HOUR, "horizon": 8, **fields.pop("leases", {})}
    cluster = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Cluster",
        "hosts": [{"name": f"h[0-{hosts - 1}]", "gpus": 4, "gpu_model": "A100"}],
    }
    round_ = Round.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": cluster,
            "jobs": jobs,
            "policy": {"formulation": "deadline"},
            "leases": leases,
            **fields,
        }
    )
    check_round(round_)
    return round_


def job(
    name: str,
    gpus: int,
    hours: float,
    due: dict[int, int] | None = None,
    at: list[tuple[str, list[int]]] | None = None,
    **deadline: Any,
) -> dict[str, Any]:
    """Return a job of one task, or of one task per place `at` which it runs."""
    tasks = len(at or ()) or 1
    asked: dict[str, Any] = {
        "name": name,
        "options": [{"groups": [{"count": tasks, "gpu": f"{1000 * gpus // tasks}m"}]}],
        "deadline": {
            "work_s": int(hours * HOUR),
            "due": [{"at": t * HOUR, "value": value} for t, value in (due or {}).items()],
            **deadline,
        },
    }
    if at is not None:
        places = [{"index": i, "host": host, "gpus": g} for i, (host, g) in enumerate(at)]
        asked["running"] = {"tasks": places}
    return asked


def solved(round_: Round) -> Plan:
    plan = solve_round(round_, isolation="none", time_limit=10)
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    return plan


def decided(plan: Plan) -> dict[str, str]:
    return {one.job: str(one.decision) for one in plan.decisions}


def section(plan: Plan) -> dict[str, Any]:
    return next(one for one in plan.sections if one["kind"] == "leases")


def values(plan: Plan) -> dict[str, int]:
    assert plan.certificate is not None
    return {term.name: term.value for term in plan.certificate.terms}


def test_a_job_that_cannot_wait_takes_the_place_of_one_that_asks_for_nothing() -> None:
    running = job("rest", 4, 9, at=[("h0", [0, 1, 2, 3])])
    plan = solved(round_of([running, job("urgent", 4, 2, {2: 5})]))
    assert decided(plan) == {"rest": "preempt", "urgent": "start"}
    assert plan.decisions[0].displaced_by == ("urgent",)


def test_a_job_that_can_wait_lets_others_run_on() -> None:
    running = job("rest", 4, 2, at=[("h0", [0, 1, 2, 3])])
    plan = solved(round_of([running, job("patient", 4, 2, {4: 5})]))
    assert decided(plan) == {"rest": "keep", "patient": "wait"}
    assert plan.decisions[1].reason == "promised_later"
    assert section(plan)["jobs"][0]["leases"] == [[1, 3]]


def test_who_runs_goes_on_rather_than_an_equal_that_waits() -> None:
    jobs = [
        job("runs", 4, 2, {4: 5}, at=[("h0", [0, 1, 2, 3])]),
        job("waits", 4, 2, {4: 5}),
    ]
    plan = solved(round_of(jobs))
    assert decided(plan) == {"runs": "keep", "waits": "wait"}
    assert [one["leases"] for one in section(plan)["jobs"]] == [[[0, 2]], [[2, 4]]]


def test_idle_gpus_go_to_promises_before_they_must_run() -> None:
    plan = solved(round_of([job("early", 4, 1, {8: 5})]))
    assert decided(plan) == {"early": "start"}
    assert section(plan)["jobs"][0]["finish"] == HOUR


@pytest.mark.parametrize(("first", "started"), [("best_effort", "rest"), ("early", "patient")])
def test_the_order_of_terms_says_who_gets_what_is_left(first: str, started: str) -> None:
    second = "early" if first == "best_effort" else "best_effort"
    policy = {"formulation": "deadline", "terms": ["broken", "admitted", first, second]}
    jobs = [job("rest", 4, 1), job("patient", 4, 1, {8: 5})]
    plan = solved(round_of(jobs, policy=policy))
    assert [name for name, what in decided(plan).items() if what == "start"] == [started]


def test_a_refused_job_may_run_as_best_effort_and_is_offered_a_later_time() -> None:
    plan = solved(round_of([job("late", 4, 3, {2: 5})]))
    assert decided(plan) == {"late": "start"}
    refused = section(plan)["refused"]
    assert [one["job"] for one in refused] == ["late"]
    assert refused[0]["offer"]["at"] == 3 * HOUR


def test_a_job_leaves_a_host_that_goes_away_and_moves_where_it_fits() -> None:
    runs = job("runs", 4, 3, {4: 5}, at=[("h0", [0, 1, 2, 3])])
    outages = [{"host": "h0", "end": 2 * HOUR}]
    plan = solved(round_of([runs], hosts=2, leases={"outages": outages}))
    assert decided(plan) == {"runs": "migrate"}
    assert {task.host for task in plan.decisions[0].tasks} == {"h1"}


def test_a_job_stops_for_nobody_if_its_host_goes_away_and_none_is_free() -> None:
    promise = {"at": 4 * HOUR, "value": 5}
    runs = job("runs", 4, 2, {4: 5}, at=[("h0", [0, 1, 2, 3])], promise=promise)
    plan = solved(round_of([runs], leases={"outages": [{"host": "h0", "end": 2 * HOUR}]}))
    assert decided(plan) == {"runs": "preempt"}
    assert plan.decisions[0].displaced_by == ()
    assert section(plan)["jobs"][0]["leases"] == [[2, 4]]
    assert values(plan)["broken"] == 0


def test_lost_capacity_breaks_the_promise_that_is_worth_least() -> None:
    jobs = [
        job(name, 4, 3, {3: value}, promise={"at": 3 * HOUR, "value": value})
        for name, value in (("a", 3), ("b", 7), ("c", 5))
    ]
    plan = solved(round_of(jobs, hosts=3, leases={"outages": [{"host": "h1"}]}))
    assert values(plan)["broken"] == 3
    assert [one["job"] for one in section(plan)["broken"]] == ["a"]
    assert plan.certificate is not None
    assert plan.certificate.gap == 0


def test_a_broken_promise_is_replaced_by_a_later_one_if_the_job_has_one() -> None:
    jobs = [
        job("a", 4, 3, {3: 3, 6: 2}, promise={"at": 3 * HOUR, "value": 3}),
        job("b", 4, 3, {3: 7}, promise={"at": 3 * HOUR, "value": 7}),
    ]
    plan = solved(round_of(jobs, hosts=2, leases={"outages": [{"host": "h1"}]}))
    assert values(plan)["broken"] == 1
    assert {one["job"]: one["promise"]["at"] for one in section(plan)["jobs"]} == {
        "a": 6 * HOUR,
        "b": 3 * HOUR,
    }


def test_a_job_that_spreading_slows_waits_for_one_host_unless_it_has_time() -> None:
    # Two GPUs are free on each of two hosts; on both the job would run at a third of its speed.
    held = [job(f"r{i}", 2, 9, at=[(f"h{i}", [0, 1])]) for i in range(2)]
    slow = {"paces": [{"spanning": [[2, 333]]}]}
    gang = job("gang", 4, 2, {8: 5}, **slow)
    gang["options"][0]["groups"][0] |= {"count": 4, "gpu": 1}
    plan = solved(round_of([*held, gang], hosts=2))
    kept = section(plan)["jobs"][0]
    assert kept["job"] == "gang"
    spread = len({task.host for task in plan.decisions[2].tasks}) > 1
    # On two hosts one hour does 20 minutes of the work, so two more hours are needed.
    assert kept["leases"] == ([[0, 3]] if spread else [[1, 3]])


def test_a_gang_that_counts_fit_and_hosts_do_not_runs_later() -> None:
    jobs = [job(name, 3, 1, {2: 5}) for name in "ab"] + [job("c", 2, 1, {2: 5})]
    plan = solved(round_of(jobs, hosts=2))
    assert values(plan)["admitted"] == 15
    assert sorted(decided(plan).values()) == ["start", "start", "wait"]


def test_promises_pass_from_round_to_round_and_work_gets_done() -> None:
    round_ = round_of([job("a", 4, 3, {4: 5}), job("b", 4, 1, {4: 5})])
    with Engine(round_, isolation="none") as engine:
        engine.round()
        deadlines = {one.name: one.deadline for one in engine.state.jobs}
        assert all(d is not None and d.promise is not None for d in deadlines.values())
        engine.round(Changes(now=HOUR))
        left = [one.deadline.work_s for one in engine.round_solved.jobs if one.deadline]
        assert sorted(left) in ([1, 3 * HOUR], [HOUR, 2 * HOUR])


def test_hosts_that_are_to_go_are_reported_in_changes() -> None:
    with Engine(round_of([job("a", 4, 3, {3: 5})]), isolation="none") as engine:
        engine.round()
        away = [Outage(host="h0", start=2 * HOUR)]
        plan = engine.round(Changes(now=HOUR, outages=away))
        assert [one["job"] for one in section(plan)["broken"]] == ["a"]
