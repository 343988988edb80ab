"""Tiny rounds with promises, against all their plans: no bound is beaten, the best is found."""

from __future__ import annotations

from typing import Any

import pytest

from examples import by_day
from fuzz.small_units import as_document
from placewright import Plan, Round, solve_round, verify
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.report.facts.jobs import moves_of
from placewright.rounds import prove_bounds
from tests.formulations.deadline import every_plan, every_promise, small_rounds, written_plan

Raw = dict[str, Any]
TERMS = ("broken", "admitted", "disruption", "best_effort", "early", "opened")
LEAST = ("broken", "disruption", "opened")


def no_worse(term: str, value: float, other: float) -> bool:
    return value <= other if term in LEAST else value >= other


def plans_of(raw: Raw) -> tuple[Any, list[Any]]:
    """The enumeration of a round, and all plans that it has."""
    every = every_plan.Every(every_promise.Promises(raw), every_promise.Do)
    return every, list(every.plans())


def choose_alternatives(found: list[Any]) -> Any:
    return min(found, key=lambda plan: (plan.values["broken"], -plan.values["admitted"]))


def beaten(found: list[Any], plan: Plan) -> list[tuple[str, Any]]:
    """Plans that beat a bound of a term, the earlier ones being no worse."""
    assert plan.certificate is not None
    terms = {term.name: term for term in plan.certificate.terms}
    return [
        (term, other)
        for number, term in enumerate(TERMS)
        for other in found
        if (bound := terms[term].bound) is not None
        if other.values[term] != bound and no_worse(term, other.values[term], bound)
        if all(no_worse(t, other.values[t], terms[t].value) for t in TERMS[:number])
    ]


@pytest.mark.parametrize("seed", by_day(range(60), 30))
def test_the_best_plan_is_found_and_none_beats_a_bound(seed: int) -> None:
    raw = small_rounds.round_of(seed)
    try:
        round_ = parse_round(as_document(raw))
    except InvalidInputError:
        pytest.skip("it refers to itself wrongly")
    every, found = plans_of(raw)
    best = choose_alternatives(found)
    checked = verify(round_, written_plan.written(every, round_, best))
    assert checked.ok, checked.violations
    assert {term: checked.terms[term] for term in TERMS} == best.values
    plan = solve_round(round_, isolation="none", time_limit=5)
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    assert not beaten(found, plan)
    values = {term.name: term.value for term in plan.certificate.terms}
    assert {term: values[term] for term in TERMS[:2]} == {
        term: best.values[term] for term in TERMS[:2]
    }


def a_round(hosts: list[Raw], jobs: list[Raw], **leases: Any) -> Raw:
    return {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "now": 0,
        "cluster": {"hosts": [{"gpu_model": "A", **host} for host in hosts]},
        "jobs": jobs,
        "leases": {"length_s": 600, "horizon": 4, **leases},
        "policy": {"formulation": "deadline"},
    }


def solved(raw: Raw) -> tuple[dict[str, int], Round, Plan]:
    """What the solver has found, which is the best; and whose best plan is within its bounds."""
    round_ = parse_round(as_document(raw))
    every, found = plans_of(raw)
    plan = solve_round(round_, isolation="none", time_limit=5)
    assert plan.certificate is not None
    assert not beaten(found, plan)
    better = written_plan.written(every, round_, choose_alternatives(found))
    assert verify(round_, better).ok
    for term in prove_bounds(round_, better, time_limit=5):
        assert term.bound is None or no_worse(term.name, term.bound, term.value)
    values = {term.name: term.value for term in plan.certificate.terms}
    best = choose_alternatives(found).values
    assert (values["broken"], values["admitted"]) == (best["broken"], best["admitted"])
    return values, round_, plan


def test_a_running_job_is_preempted_and_goes_on_with_a_faster_option() -> None:
    one = {"groups": [{"gpu": 1000}]}
    old = {
        "name": "old",
        "options": [one, one],
        "deadline": {
            "work_s": 1200,
            "promise": {"at": 1800, "value": 12},
            "paces": [{"speed": 2000}, {"speed": 500}],
        },
        "running": {"option": 1, "tasks": [{"host": "h0", "gpus": [0]}]},
    }
    deadline = {"work_s": 600, "due": [{"at": 600, "value": 5}]}
    new = {"name": "new", "options": [one], "deadline": deadline}
    raw = a_round([{"name": "h0", "gpus": 1}], [old, new])
    values, _, plan = solved(raw)
    assert (values["broken"], values["admitted"]) == (0, 17)
    assert plan.decisions[0].displaced_by == ("new",)


def test_a_job_whose_host_is_away_goes_on_with_another_option() -> None:
    job = {
        "name": "j",
        "options": [{"groups": [{"gpu": 1000}]}, {"groups": [{"gpu": 2000, "count": 2}]}],
        "deadline": {"work_s": 1, "due": [{"at": 1700, "value": 21}]},
        "running": {
            "option": 1,
            "tasks": [
                {"host": "h0", "gpus": [0, 1]},
                {"index": 1, "host": "h1", "gpus": [0, 1]},
            ],
        },
    }
    hosts = [{"name": "h0", "gpus": 2}, {"name": "h1", "gpus": 2}]
    raw = a_round(hosts, [job], outages=[{"host": "h1", "start": 50}])
    values, round_, plan = solved(raw)
    assert values["admitted"] == 21
    (move,) = moves_of({job.name: job for job in round_.jobs}, plan)
    assert move.target == "a host is away"


def test_more_hosts_now_may_be_faster_than_the_fewest() -> None:
    # Two leases on one host, but one on two hosts: which it is on now.
    job = {
        "name": "j",
        "options": [{"groups": [{"gpu": 1000, "count": 2}]}],
        "deadline": {
            "work_s": 900,
            "due": [{"at": 600, "value": 3}],
            "paces": [{"spanning": [[2, 1500]]}],
        },
        "running": {
            "tasks": [{"host": "h0", "gpus": [0]}, {"index": 1, "host": "h1", "gpus": [0]}]
        },
    }
    raw = a_round([{"name": "h0", "gpus": 2}, {"name": "h1", "gpus": 1}], [job])
    values, _, _ = solved(raw)
    assert values["admitted"] == 3


def test_a_job_gathers_on_one_host_to_be_in_time() -> None:
    job = {
        "name": "j",
        "options": [{"groups": [{"gpu": 2000, "count": 2}]}],
        "deadline": {
            "work_s": 1190,
            "promise": {"at": 600, "value": 29},
            "paces": [{"speed": 2000, "spanning": [[2, 700]]}],
        },
        "running": {
            "tasks": [{"host": "h1", "gpus": [0, 1]}, {"index": 1, "host": "h0", "gpus": [0, 1]}]
        },
    }
    raw = a_round([{"name": "h0", "gpus": 2}, {"name": "h1", "gpus": 4}], [job])
    values, _, plan = solved(raw)
    assert values["broken"] == 0
    assert {task.host for task in plan.decisions[0].tasks} == {"h1"}


def test_no_promise_is_broken_for_a_new_one_that_only_counts_as_capacity() -> None:
    # By count `old` fits beside the new one: two GPUs of the host that has failed.
    failed = {"name": "h1", "gpus": 2, "healthy": False}
    hosts = [{"name": "h0", "gpus": 3}, failed, {"name": "h2", "gpus": 1}]
    old = {
        "name": "old",
        "options": [{"groups": [{"gpu": 3000}]}],
        "deadline": {"work_s": 300, "promise": {"at": 2400, "value": 24}},
    }
    there = {
        "name": "there",
        "options": [{"groups": [{"gpu": 2000, "count": 2}]}],
        "running": {
            "tasks": [{"host": "h0", "gpus": [0, 1]}, {"index": 1, "host": "h1", "gpus": [0, 1]}]
        },
    }
    new = {
        "name": "new",
        "options": [{"groups": [{"gpu": 1000, "count": 2}]}],
        "deadline": {
            "work_s": 1190,
            "paces": [{"speed": 500}],
            "due": [{"at": 2400, "value": 24}],
        },
        "running": {
            "tasks": [{"host": "h0", "gpus": [2]}, {"index": 1, "host": "h2", "gpus": [0]}]
        },
    }
    values, _, plan = solved(a_round(hosts, [old, there, new]))
    assert (values["broken"], values["admitted"]) == (0, 24)
    (section,) = [section for section in plan.sections if section["kind"] == "leases"]
    assert [entry["job"] for entry in section["jobs"]] == ["old"]
