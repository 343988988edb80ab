"""Rules about running jobs at the edge of what they allow, on a few hosts."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import rule_ids, verify

Raw = dict[str, Any]
Place = tuple[str, list[int]]


def tasks_at(*places: Place) -> list[Raw]:
    return [{"index": i, "host": host, "gpus": gpus} for i, (host, gpus) in enumerate(places)]


def running(name: str, *places: Place, gpu: int = 1000, **group: Any) -> Raw:
    options = [{"groups": [{"count": len(places), "gpu": f"{gpu}m", **group}]}]
    return {"name": name, "options": options, "running": {"tasks": tasks_at(*places)}}


def pending(name: str, gpu: int = 1000, priority: int = 0, **group: Any) -> Raw:
    return {
        "name": name,
        "priority": priority,
        "options": [{"groups": [{"gpu": f"{gpu}m", **group}]}],
    }


def placed(kind: str, job: str, *places: Place) -> Raw:
    return {"job": job, "decision": kind, "option": 0, "tasks": tasks_at(*places)}


def preempted(job: str, by: str | None) -> Raw:
    return {"job": job, "decision": "preempt", "displaced_by": by}


def rules_of(
    jobs: list[Raw],
    decisions: list[Raw],
    *steps: str,
    spare: tuple[str, ...] = (),
    unhealthy: str = "h9",
    **fields: Any,
) -> list[str]:
    """The rules that a plan breaks, on hosts h0 to h3 with 4 GPUs and 8 cores, or one more."""
    names = dict.fromkeys(["h0", "h1", "h2", "h3", unhealthy])
    host = {"gpus": 4, "gpu_model": "T4", "cpu": 8}
    hosts = [{**host, "name": name, "healthy": name != unhealthy} for name in names]
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs, **fields})
    section = {"kind": "moves", "steps": list(steps), "needs_spare": list(spare)}
    plan = {"decisions": decisions, "sections": [section] if steps or spare else []}
    found = verify(round_, Plan.model_validate(plan))
    return list(dict.fromkeys(violation.rule for violation in found.violations))


def test_the_new_rules_have_ids() -> None:
    assert {
        "migrated",
        "holds_nothing",
        "reserved",
        "vacated",
        "displaced_by",
        "preemption",
        "moves",
        "move_order",
    } <= set(rule_ids())


def test_kept_jobs_are_exempt_from_where_arrivals_may_go() -> None:
    job = running("a", ("h0", [0]), ("h1", [0]), ("h2", [0]), required="host")
    keep = placed("keep", "a", ("h0", [0]), ("h1", [0]), ("h2", [0]))
    reservations = [{"host": "h1"}]
    policy = {"terms": ["remaining"], "vacate": ["h2"]}
    assert rules_of([job], [keep], unhealthy="h0", reservations=reservations, policy=policy) == []


def test_staying_tasks_are_exempt_from_reservations_and_hosts_to_vacate() -> None:
    job = running("a", ("h0", [0]), ("h1", [0]), ("h2", [0]))
    move = placed("migrate", "a", ("h0", [0]), ("h1", [0]), ("h3", [0]))
    reservations = [{"host": "h0", "gpus": [0]}]
    policy = {"terms": ["remaining"], "vacate": ["h1"]}
    assert rules_of([job], [move], "a", reservations=reservations, policy=policy) == []


@pytest.mark.parametrize(("unhealthy", "rules"), [("h0", ["healthy"]), ("h1", [])])
def test_a_migrated_job_leaves_unhealthy_hosts_with_all_its_tasks(
    unhealthy: str, rules: list[str]
) -> None:
    job = running("a", ("h0", [0]), ("h1", [0]))
    move = placed("migrate", "a", ("h0", [0]), ("h2", [0]))
    assert rules_of([job], [move], "a", unhealthy=unhealthy) == rules


@pytest.mark.parametrize(
    ("gpus", "rules"), [([2, 3], []), ([0, 2], ["reserved"]), ([1, 2], ["reserved"])]
)
def test_the_other_gpus_of_a_host_with_a_reservation_may_be_used(
    gpus: list[int], rules: list[str]
) -> None:
    start = placed("start", "a", ("h0", gpus))
    reservations = [{"host": "h[0-1]", "gpus": [0]}, {"host": "h0", "gpus": [1]}]
    assert rules_of([pending("a", 2000)], [start], reservations=reservations) == rules


@pytest.mark.parametrize(("gpus", "rules"), [([0], []), (None, ["reserved"])])
def test_a_task_without_gpus_avoids_only_hosts_reserved_as_a_whole(
    gpus: list[int] | None, rules: list[str]
) -> None:
    start = placed("start", "a", ("h0", []))
    assert (
        rules_of([pending("a", 0)], [start], reservations=[{"host": "h0", "gpus": gpus}]) == rules
    )


def test_a_staying_task_names_each_gpu_once() -> None:
    job = running("a", ("h0", [0]), ("h1", [0]), gpu=400)
    move = placed("migrate", "a", ("h0", [0, 0]), ("h2", [0]))
    assert rules_of([job], [move], "a") == ["gpus"]


def test_only_arrivals_on_a_victims_hosts_need_higher_priority() -> None:
    jobs = [
        running("low", ("h0", [0])),
        running("stays", ("h0", [1]), ("h1", [1])),
        running("kept", ("h0", [2])),
        pending("high", priority=1),
        pending("elsewhere"),
    ]
    decisions = [
        preempted("low", "high"),
        placed("migrate", "stays", ("h0", [1]), ("h2", [1])),
        placed("keep", "kept", ("h0", [2])),
        placed("start", "high", ("h0", [0])),
        placed("start", "elsewhere", ("h1", [0])),
    ]
    assert rules_of(jobs, decisions, "low", "stays") == []


def test_a_migrated_job_of_higher_priority_may_displace() -> None:
    jobs = [running("low", ("h0", [0])), {**running("high", ("h1", [0])), "priority": 1}]
    decisions = [preempted("low", "high"), placed("migrate", "high", ("h0", [0]))]
    assert rules_of(jobs, decisions, "low", "high") == []
    stays = placed("keep", "high", ("h1", [0]))
    assert rules_of(jobs, [decisions[0], stays], "low") == ["displaced_by", "preemption"]


@pytest.mark.parametrize(("priority", "rules"), [(1, []), (0, ["displaced_by", "preemption"])])
def test_the_displacing_job_has_strictly_higher_priority(priority: int, rules: list[str]) -> None:
    jobs = [running("low", ("h0", [0])), pending("new", priority=priority)]
    decisions = [preempted("low", "new"), placed("start", "new", ("h0", [0]))]
    assert rules_of(jobs, decisions, "low") == rules


def test_who_could_stay_is_not_preempted() -> None:
    jobs = [running("low", ("h0", [0])), pending("new", priority=1)]
    decisions = [preempted("low", "new"), placed("start", "new", ("h0", [3]))]
    assert rules_of(jobs, decisions, "low") == ["displaced_by", "preemption"]


@pytest.mark.parametrize(("gpu", "rules"), [(3, []), (0, ["displaced_by", "preemption"])])
def test_every_host_of_a_gang_that_is_preempted_is_looked_at(gpu: int, rules: list[str]) -> None:
    jobs = [running("low", ("h0", [0]), ("h1", [0])), pending("high", priority=1), pending("new")]
    decisions = [
        preempted("low", "high"),
        placed("start", "high", ("h0", [0])),
        placed("start", "new", ("h1", [gpu])),
    ]
    assert rules_of(jobs, decisions, "low") == rules


@pytest.mark.parametrize(
    ("limit", "gpu", "rules"),
    [
        (3000, 2000, []),  # 1000 kept and 2000 started
        (2999, 2000, []),  # no more than the 3000 held before
        (2999, 3000, ["quota"]),
        (4000, 3000, []),
    ],
)
def test_a_preemption_gives_back_quota(limit: int, gpu: int, rules: list[str]) -> None:
    jobs = [
        {**running("low", ("h0", [0, 1]), gpu=2000), "tenant": "red"},
        {**running("kept", ("h1", [0])), "tenant": "red"},
        {**pending("high", gpu, priority=1), "tenant": "red"},
    ]
    decisions = [
        preempted("low", "high"),
        placed("keep", "kept", ("h1", [0])),
        placed("start", "high", ("h0", list(range(gpu // 1000)))),
    ]
    tenants = [{"name": "red", "quota": {"gpu": f"{limit}m"}}]
    assert rules_of(jobs, decisions, "low", tenants=tenants) == rules


def test_above_its_quota_a_tenant_may_migrate() -> None:
    jobs = [{**running("a", ("h0", [0])), "tenant": "red"}]
    tenants = [{"name": "red", "quota": {"gpu": 0.5}}]
    assert rules_of(jobs, [placed("migrate", "a", ("h1", [0]))], "a", tenants=tenants) == []


def test_a_plan_in_which_nothing_moves_needs_no_moves_and_may_say_so() -> None:
    jobs, decisions = [running("a", ("h0", [0]))], [placed("keep", "a", ("h0", [0]))]
    assert rules_of(jobs, decisions) == []
    assert rules_of(jobs, decisions, "a") == ["moves"]
    empty = {"kind": "moves", "steps": [], "needs_spare": []}
    round_ = Round.model_validate(
        {"cluster": {"hosts": [{"name": "h0", "gpus": 4, "gpu_model": "T4"}]}, "jobs": jobs}
    )
    for count, ok in ((1, True), (2, False)):
        plan = {"decisions": decisions, "sections": [empty] * count}
        assert verify(round_, Plan.model_validate(plan)).ok is ok


def test_what_a_job_holds_itself_is_free_for_it() -> None:
    jobs = [running("a", ("h0", [0, 1]), gpu=2000, cpu=5)]
    assert rules_of(jobs, [placed("migrate", "a", ("h0", [1, 2]))], "a") == []


CHAIN = [running("a", ("h0", [0])), running("b", ("h1", [0])), running("c", ("h2", [0]))]
SHIFT = [
    placed("migrate", "a", ("h1", [0])),
    placed("migrate", "b", ("h2", [0])),
    placed("migrate", "c", ("h3", [0])),
]


@pytest.mark.parametrize(
    ("steps", "rules"),
    [
        ("cba", []),
        ("abc", ["move_order"]),
        ("bca", ["move_order"]),
        ("cab", ["move_order"]),
    ],
)
def test_a_chain_moves_from_its_free_end(steps: str, rules: list[str]) -> None:
    assert rules_of(CHAIN, SHIFT, *steps) == rules


@pytest.mark.parametrize(
    ("steps", "spare", "rules"),
    [
        ("ba", "c", []),  # c leaves first and arrives last
        ("", "abc", []),
        ("cba", "", ["move_order"]),
        ("ab", "c", ["move_order"]),
        ("ac", "b", []),
        ("ca", "b", ["move_order"]),
        ("ac", "", ["moves", "move_order"]),
    ],
)
def test_a_cycle_needs_a_spare_place(steps: str, spare: str, rules: list[str]) -> None:
    cycle = [*SHIFT[:2], placed("migrate", "c", ("h0", [0]))]
    assert rules_of(CHAIN, cycle, *steps, spare=tuple(spare)) == rules


@pytest.mark.parametrize(("steps", "rules"), [("ab", ["move_order"]), ("ba", [])])
def test_moves_never_overcommit_the_cores_of_a_host(steps: str, rules: list[str]) -> None:
    jobs = [running("a", ("h0", [0]), cpu=5), running("b", ("h1", [0]), cpu=4)]
    decisions = [placed("migrate", "a", ("h1", [3])), placed("migrate", "b", ("h2", [0]))]
    assert rules_of(jobs, decisions, *steps) == rules


def test_a_move_into_a_place_that_a_preempted_job_leaves_finds_it_free() -> None:
    jobs = [running("low", ("h0", [0])), {**running("high", ("h1", [0])), "priority": 1}]
    decisions = [preempted("low", "high"), placed("migrate", "high", ("h0", [0]))]
    assert rules_of(jobs, decisions, "low", "high") == []


def test_starts_come_after_all_moves() -> None:
    jobs = [running("a", ("h0", [0])), pending("new")]
    decisions = [placed("migrate", "a", ("h1", [0])), placed("start", "new", ("h0", [0]))]
    assert rules_of(jobs, decisions, "a") == []


def test_a_kept_job_blocks_a_move_in_any_order() -> None:
    jobs = [running("a", ("h0", [0])), running("kept", ("h1", [0]))]
    decisions = [placed("migrate", "a", ("h1", [0])), placed("keep", "kept", ("h1", [0]))]
    assert rules_of(jobs, decisions, "a") == ["gpu_capacity", "move_order"]
    assert rules_of(jobs, decisions, spare=("a",)) == ["gpu_capacity"]
