"""Changes between two rounds: valid ones are made, others are refused."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.round import check_round, hosts_by_name
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Task
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.errors import InvalidInputError
from placewright.rounds import Changes, solve_round
from placewright.rounds.state.changes import apply_changes, apply_plan

ROUND = Round.model_validate(
    {
        "now": 100,
        "cluster": {"hosts": [{"name": "h[0-3]", "gpus": 4, "gpu_model": "A"}]},
        "tenants": [{"name": "t", "quota": {"gpu": 8}}],
        "jobs": [
            {
                "name": "runs",
                "options": [{"groups": [{"gpu": 4}]}],
                "running": {"tasks": [{"host": "h0", "gpus": [0, 1, 2, 3]}], "restart_s": 7},
            },
            {"name": "waits", "tenant": "t", "options": [{"groups": [{"gpu": 2}]}]},
        ],
    }
)


def job(name: str, **more: Any) -> Job:
    return Job.model_validate({"name": name, "options": [{"groups": [{"gpu": 2}]}], **more})


def after(changes: Changes, round_: Round = ROUND) -> Round:
    following = apply_changes(round_, changes, hosts_by_name(round_.cluster))
    check_round(following)
    return following


def names(round_: Round) -> list[str]:
    return [one.name for one in round_.jobs]


def test_jobs_leave_change_and_arrive_in_that_order() -> None:
    changes = Changes(removed=["runs"], updated=[job("waits", weight=3)], added=[job("new")])
    following = after(changes)
    assert names(following) == ["waits", "new"]
    assert following.jobs[0].weight == 3


def test_a_removed_name_may_come_back() -> None:
    assert names(after(Changes(removed=["runs"], added=[job("runs")]))) == ["waits", "runs"]


def test_a_failed_host_splits_its_range_and_may_come_back() -> None:
    failed = after(Changes(health={"h[1-2]": False}))
    assert [(e.name, e.healthy) for e in failed.cluster.hosts] == [
        ("h0", True),
        ("h[1-2]", False),
        ("h3", True),
    ]
    healed = after(Changes(health={"h1": True, "h2": True}), failed)
    assert all(entry.healthy for entry in healed.cluster.hosts)


def sharing(gpus: list[int]) -> dict[str, Any]:
    """What a job needs to take turns with others on these GPUs of h0."""
    running = {"tasks": [{"host": "h0", "gpus": gpus}]}
    return {"profile": {"stages": [1, 2, 3, 4]}, "running": running}


def test_a_job_may_arrive_that_runs_in_a_group_and_its_conflicts_end_with_it() -> None:
    policy = {"formulation": "interleaving"}
    jobs = [job("a", **sharing([0, 1])), job("b", **sharing([2, 3])), job("c")]
    conflicts = [["a", "b"], ["b", "c"]]
    raw = {"cluster": ROUND.cluster, "jobs": jobs, "policy": policy}
    round_ = Round.model_validate({**raw, "sharing": {"conflicts": conflicts}})
    following = after(Changes(removed=["a"], added=[job("new", **sharing([3, 2]))]), round_)
    assert following.sharing.conflicts == (("b", "c"),)
    assert running_groups(following) == [(0, 2)]
    with pytest.raises(InvalidInputError, match="hold 2 GPUs"):
        after(Changes(added=[job("new", **sharing([1, 2]))]), round_)


def test_quotas_reservations_and_the_time_are_replaced() -> None:
    reserved = Reservation(host="h3")
    changes = Changes(quotas={"t": {"gpu": 1.5}, "u": {}}, reservations=[reserved], now=200)
    following = after(changes)
    assert [(t.name, t.quota) for t in following.tenants] == [("t", {"gpu": 1500}), ("u", {})]
    assert following.reservations == (reserved,)
    assert following.now == 200
    assert after(Changes(), following).reservations == (reserved,)


def test_caps_are_replaced_and_added() -> None:
    following = after(Changes(caps={"c": {"jobs": 3}, "d": {}}))
    more = after(Changes(caps={"c": {"gpus": 2}}, added=[job("a", caps=["c"])]), following)
    assert {name: dict(cap.limits) for name, cap in more.caps.items()} == {
        "c": {Measure("gpus"): 2000},
        "d": {},
    }
    by_model = {"gpus_by_model": {"H100": 1}}
    with pytest.raises(InvalidInputError, match="cap c counts GPUs by model"):
        after(Changes(caps={"c": by_model}), more)


POOLS = (
    Pool(resource="power_w", level="host", capacity=9, domains={"h1": 5}),
    Pool(resource="power_w", capacity=20),
    Pool(resource="licence", capacity=2, per="job"),
)


def with_pools() -> Round:
    cluster = ROUND.cluster.model_copy(update={"pools": POOLS})
    return ROUND.model_copy(update={"cluster": cluster})


def test_a_pool_takes_the_place_of_that_of_its_level() -> None:
    changed = Pool(resource="power_w", level="host", capacity=8)
    following = after(Changes(pools=[changed]), with_pools())
    assert following.cluster.pools == (changed, *POOLS[1:])


@pytest.mark.parametrize(
    ("pool", "path", "says"),
    [
        (POOLS[2].model_copy(update={"per": "task"}), ("pools", 0), "with per: task; expected"),
        (Pool(resource="heat", capacity=1), ("pools", 0), "no pool of heat of this level"),
        (Pool(resource="licence", level="host", capacity=1), ("pools", 0), "no pool of licence"),
        (Pool(resource="power_w", level="row", capacity=1), ("pools", 0, "level"), "unknown level"),
        (
            Pool(resource="power_w", level="host", capacity=1, domains={"h9": 1}),
            ("pools", 0, "domains", "h9"),
            "unknown domain",
        ),
    ],
)
def test_pools_that_there_are_none_of_are_refused(
    pool: Pool, path: tuple[str | int, ...], says: str
) -> None:
    with pytest.raises(InvalidInputError, match=says) as caught:
        after(Changes(pools=[pool]), with_pools())
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (Changes(removed=["nobody"]), ("removed",)),
        (Changes(updated=[job("nobody")]), ("updated", 0, "name")),
        (Changes(updated=[job("waits"), job("waits")]), ("updated", 1, "name")),
        (Changes(removed=["waits"], updated=[job("waits")]), ("updated", 0, "name")),
        (Changes(added=[job("waits")]), ("added", 0, "name")),
        (Changes(added=[job("a"), job("a")]), ("added", 1, "name")),
        (Changes(added=[job("a", tenant="nobody")]), ("added", 0, "tenant")),
        (Changes(health={"h9": False}), ("health", "h9")),
        (Changes(quotas={"t": {"gpu": -1}}), ("quotas", "t", "quota", "gpu")),
        (Changes(quotas={"t": {"unheard": 1}}), ("tenants", 0, "quota", "unheard")),
        (Changes(caps={"c": {"gpus": -1}}), ("caps", "c", "gpus")),
        (Changes(caps={"c": {"resources": {"unheard": 1}}}), ("caps", "c", "resources", "unheard")),
        (Changes(added=[job("a", caps=["nobody"])]), ("added", 0, "caps", 0)),
        (Changes(reservations=[Reservation(host="h9")]), ("reservations", 0, "host")),
        (Changes(now=99), ("now",)),
    ],
    ids=str,
)
def test_changes_that_make_no_sense_are_refused(
    changes: Changes, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        after(changes)
    assert refused.value.path == path


def test_a_job_that_runs_where_another_one_does_is_refused() -> None:
    there = {"tasks": [{"host": "h0", "gpus": [0, 1]}]}
    with pytest.raises(InvalidInputError) as refused:
        after(Changes(updated=[job("waits")], added=[job("a"), job("b", running=there)]))
    assert refused.value.path[:2] == ("added", 1)
    assert names(after(Changes(removed=["runs"], added=[job("b", running=there)]))) == [
        "waits",
        "b",
    ]


def test_what_starts_has_just_saved_its_work_and_what_runs_goes_on() -> None:
    plan = solve_round(ROUND, isolation="none")
    following = apply_plan(ROUND, plan, {"waits": 5})
    check_round(following)
    runs, waits = following.jobs
    assert runs is ROUND.jobs[0]
    assert waits.running is not None
    assert (waits.running.checkpoint, waits.running.restart_s) == (100, 5)
    assert waits.running.tasks == plan.decisions[1].tasks


def test_what_is_preempted_is_pending_again() -> None:
    round_ = after(
        Changes(
            health={"h[1-3]": False},
            added=[job("urgent", priority=1, weight=9)],
        )
    )
    plan = solve_round(round_, isolation="none")
    following = apply_plan(round_, plan, {})
    check_round(following)
    assert [one.running is not None for one in following.jobs] == [False, False, True]
    assert following.jobs[2].running is not None
    assert isinstance(following.jobs[2].running.tasks[0], Task)
