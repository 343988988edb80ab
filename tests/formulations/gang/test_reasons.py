"""A reason for waiting is given only where it is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from examples import by_night, examples
from placewright.formulations.gang import parameters
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind, Detail, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.rounds.sections.reasons import TESTS
from tests.formulations.gang import oracle, tiny

Raw = dict[str, Any]


def job(name: str, **more: Any) -> Raw:
    keys = ("gpu", "count", "cpu", "required", "hosts")
    group = {key: more.pop(key) for key in keys if key in more}
    return {"name": name, "options": [{"groups": [group]}], **more}


def reasons(hosts: list[Raw], jobs: list[Raw], **more: Any) -> dict[str, Reason | None]:
    racks = [{"name": rack, "level": "rack"} for rack in ("a", "b")]
    round_ = Round.model_validate(
        {"cluster": {"levels": ["rack"], "domains": racks, "hosts": hosts}, "jobs": jobs, **more}
    )
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    return {d.job: d.reason for d in plan.decisions if d.decision is DecisionKind.WAIT}


def host(name: str, gpus: int = 4, parent: str = "a", **more: Any) -> Raw:
    return {"name": name, "gpus": gpus, "gpu_model": "A", "cpu": 8, "parent": parent, **more}


RUNNING = {"running": {"tasks": [{"host": "h0", "gpus": [0, 1]}]}}


@pytest.mark.parametrize(
    "asked",
    [
        {"gpu": 5},
        {"gpu": 1, "cpu": 9},
        {"gpu": 4, "count": 3},
        {"gpu": 4, "count": 2, "required": "rack"},
        {"gpu": 1, "count": 5, "required": "host"},
    ],
    ids=str,
)
def test_what_no_empty_cluster_holds_never_fits(asked: Raw) -> None:
    hosts = [host("h0"), host("h1", parent="b", healthy=False)]
    assert reasons(hosts, [job("big", **asked)]) == {"big": Reason.NEVER_FITS}


def test_what_only_a_failed_host_could_hold_waits_until_hosts_are_back() -> None:
    hosts = [host("h0", 2), host("h1", healthy=False)]
    assert reasons(hosts, [job("big", gpu=4)]) == {"big": Reason.HOSTS_AWAY}


def test_what_running_jobs_leave_no_capacity_for_waits_for_capacity() -> None:
    jobs = [job("runs", gpu=2, **RUNNING), job("big", gpu=3)]
    assert reasons([host("h0")], jobs) == {"big": Reason.CAPACITY}


def test_what_exceeds_the_rest_of_a_quota_waits_for_quota() -> None:
    jobs = [
        job("runs", gpu=2, tenant="red", **RUNNING),
        job("more", gpu=2, tenant="red"),
        job("less", gpu=1, tenant="red"),
    ]
    tenants = [{"name": "red", "quota": {"gpu": 3}}]
    assert reasons([host("h0")], jobs, tenants=tenants) == {"more": Reason.QUOTA}


def test_what_jobs_of_higher_priority_leave_no_capacity_for_is_displaced_by_them() -> None:
    jobs = [job("high", gpu=3, priority=1), job("low", gpu=2)]
    assert reasons([host("h0")], jobs) == {"low": Reason.DISPLACED_BY_PRIORITY}


def test_the_reason_is_that_of_the_option_which_comes_furthest() -> None:
    # Option 0 exceeds the quota, option 1 finds no place, and never_fits is option 2.
    groups = [[{"gpu": 4}], [{"gpu": 1, "cpu": 8}], [{"gpu": 5}]]
    menu = {"name": "menu", "tenant": "red", "options": [{"groups": g} for g in groups]}
    jobs = [job("runs", gpu=2, cpu=4, **RUNNING), menu]
    tenants = [{"name": "red", "quota": {"gpu": 3}}]
    assert reasons([host("h0")], jobs, tenants=tenants) == {"menu": Reason.CAPACITY}


def test_what_no_step_is_left_to_decide_is_said_to_be_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each group fits alone, and together they ask no more than there is: 8 GPUs on two hosts of 4.
    pair = {"name": "pair", "options": [{"groups": [{"gpu": 3, "count": 2}, {"gpu": 2}]}]}
    hosts = [host("h0"), host("h1")]
    assert reasons(hosts, [pair]) == {"pair": Reason.NEVER_FITS}
    usual = parameters.PARAMETERS
    short = replace(usual.placement, max_feasibility_steps=0)
    monkeypatch.setattr(parameters, "PARAMETERS", replace(usual, placement=short))
    round_ = Round.model_validate({"cluster": {"hosts": hosts_alone(hosts)}, "jobs": [pair]})
    plan = solve_round(round_, isolation="none")
    (decision,) = plan.decisions
    assert (decision.reason, decision.detail) == (Reason.NOT_CHOSEN, Detail(unproven=True))
    assert verify(round_, plan).ok


def hosts_alone(hosts: list[Raw]) -> list[Raw]:
    """The hosts without their racks."""
    return [{name: value for name, value in one.items() if name != "parent"} for one in hosts]


def test_a_place_that_a_job_of_equal_priority_lost_is_not_free() -> None:
    running = {"running": {"tasks": [{"host": "h0", "gpus": [0, 1, 2, 3]}]}}
    jobs = [
        job("old", gpu=4, priority=1, **running),
        job("new", gpu=3, priority=2, weight=9),
        job("equal", gpu=1, priority=1),
    ]
    assert reasons([host("h0")], jobs) == {"equal": Reason.CAPACITY}


def test_a_gpu_that_a_preempted_slice_lost_to_a_whole_job_has_no_slice_free() -> None:
    # The slice of `runs` counts for `slice`, which may not take its place, beside `whole`.
    cut = {"gpu_model": "A100-SXM4-80GB", "cpu": 0}
    here = {"running": {"tasks": [{"host": "h0", "gpus": [0], "slot": 0}]}}
    jobs = [
        {"name": "slice", "options": [{"groups": [{"mig": "1g.10gb"}]}], "priority": -1},
        job("whole", gpu=1),
        {"name": "runs", "options": [{"groups": [{"mig": "2g.20gb"}]}], "priority": -1, **here},
    ]
    assert reasons([host("h0", 1, **cut)], jobs) == {"slice": Reason.DISPLACED_BY_PRIORITY}


def test_quota_that_a_job_of_equal_priority_lost_is_not_free() -> None:
    running = {"running": {"tasks": [{"host": "h0", "gpus": [0, 1]}]}}
    jobs = [
        job("old", gpu=2, priority=1, tenant="red", hosts=["h0"], **running),
        job("high", gpu=4, priority=2, hosts=["h0"]),
        job("equal", gpu=4, priority=1, tenant="red"),
    ]
    raw = {
        "cluster": {"hosts": hosts_alone([host("h0"), host("h1")])},
        "tenants": [{"name": "red", "quota": {"gpu": 4}}],
        "jobs": jobs,
    }
    round_ = Round.model_validate(raw)
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    found = {d.job: (d.reason, d.detail) for d in plan.decisions if d.detail is not None}
    facts = {"tenant": "red", "resource": "gpu", "asked": 4000, "used": 2000, "limit": 4000}
    assert plan.decisions[0].decision is DecisionKind.PREEMPT
    assert found == {
        "equal": (Reason.QUOTA, Detail.model_construct(**facts, excess=2000, job="old"))
    }


def test_what_jobs_of_equal_priority_leave_no_capacity_for_was_not_chosen() -> None:
    jobs = [job("more", gpu=3), job("less", gpu=2)]
    assert reasons([host("h0")], jobs) == {"less": Reason.NOT_CHOSEN}


def test_a_job_of_higher_priority_that_is_worth_less_was_not_chosen() -> None:
    jobs = [job("low", gpu=3), job("high", gpu=2, priority=1)]
    policy = {"priority": "preemption"}
    assert reasons([host("h0")], jobs, policy=policy) == {"high": Reason.NOT_CHOSEN}
    assert reasons([host("h0")], jobs) == {"low": Reason.DISPLACED_BY_PRIORITY}


def quota_left(round_: Round, plan: Plan, job_: Any) -> Any:
    """What a plan that starts jobs only leaves of the quota of a job's tenant."""
    jobs = {each.name: each for each in round_.jobs}
    left = oracle.quotas_of(round_)[job_.tenant]
    for decision in plan.decisions:
        other = jobs[decision.job]
        if decision.decision is DecisionKind.START and other.tenant == job_.tenant:
            left = oracle.take(
                left, oracle.menu(round_, other, other.options[decision.option]).takes
            )
    return left


@pytest.mark.parametrize(
    ("counts", "reason"),
    [((2, 4), Reason.NEVER_FITS), ((1, 2), Reason.CAPACITY)],
)
def test_groups_that_ask_more_together_than_there_is_cannot_start(
    counts: tuple[int, int], reason: Reason
) -> None:
    pair = {"name": "pair", "options": [{"groups": [{"gpu": gpu} for gpu in counts]}]}
    assert reasons([host("h0")], [pair, job("runs", gpu=2, **RUNNING)]) == {"pair": reason}


def test_groups_of_a_joint_level_ask_no_more_than_a_domain_has() -> None:
    hosts = [host("h0"), host("h1", parent="b")]
    groups = [{"gpu": 2}, {"gpu": 4}]
    apart = {"name": "apart", "options": [{"groups": groups}]}
    joint = {"name": "joint", "options": [{"groups": groups, "required": "rack"}]}
    assert reasons(hosts, [apart]) == {}
    assert reasons(hosts, [joint]) == {"joint": Reason.NEVER_FITS}


def test_what_exceeds_a_quota_that_the_plan_uses_up_waits_for_quota() -> None:
    jobs = [job(f"job-{i}", gpu=2, tenant="red") for i in range(3)]
    tenants = [{"name": "red", "quota": {"gpu": 4}}]
    found = reasons([host("h0"), host("h1")], jobs, tenants=tenants)
    assert list(found.values()) == [Reason.QUOTA]


def started_above(round_: Round, plan: Plan, priority: int) -> Round:
    """The round in which the started jobs of higher priority run already."""
    raw = round_.model_dump()
    for job_, decision in zip(raw["jobs"], plan.decisions, strict=True):
        if decision.decision is DecisionKind.START and job_["priority"] > priority:
            tasks = [task.model_dump() for task in decision.tasks]
            job_["running"] = {"option": decision.option, "tasks": tasks}
    return Round.model_validate(raw)


def test_each_reason_given_is_true() -> None:
    seen = set()

    @settings(
        max_examples=examples(day=15, nightly=250),
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(tiny.rounds(terms=("value",)))
    def check(round_: Round) -> None:
        plan = solve_round(round_, isolation="none")
        jobs = {job_.name: job_ for job_ in round_.jobs}
        for decision in plan.decisions:
            job_, reason = jobs[decision.job], decision.reason
            seen.add(reason)
            if reason is Reason.NEVER_FITS:
                hosts = oracle.hosts_of(round_, empty=True)
            elif reason is Reason.CAPACITY:
                hosts = oracle.hosts_of(round_)
            elif reason is Reason.DISPLACED_BY_PRIORITY:
                hosts = oracle.hosts_of(started_above(round_, plan, job_.priority))
            else:
                if reason is Reason.QUOTA:
                    left = quota_left(round_, plan, job_)
                    empty = oracle.hosts_of(round_, empty=True)
                    for option in job_.options:
                        alone = job_.model_copy(update={"options": (option,)})
                        enough = oracle.take(left, oracle.menu(round_, job_, option).takes)
                        assert enough is None or not oracle.can_start(round_, alone, empty)
                continue
            assert not oracle.can_start(round_, job_, hosts)

    check()
    assert seen == {None, *TESTS} or not by_night()
