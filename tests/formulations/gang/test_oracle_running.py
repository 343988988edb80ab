"""The oracle of rounds with running jobs that move knows the answers that a person can work out."""

from __future__ import annotations

from itertools import combinations, product
from math import prod
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from examples import examples
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from tests.formulations.gang import oracle, tiny
from tests.formulations.gang import oracle_running as moves

Raw = dict[str, Any]
MAX_NAMED_PLANS = 400
STABLE: Raw = {
    "suppress_health_check": list(HealthCheck),
}


def host(name: str, gpus: int, **more: Any) -> Raw:
    return {"name": name, "gpus": gpus, "gpu_model": "A", **more}


def job(name: str, gpu: int, *at: tuple[str, *tuple[int, ...]], **more: Any) -> Raw:
    """A job of one task group; it runs if there are places `at`, each a host and GPUs."""
    fields = {"count", "required", "gpu_models"} & set(more)
    group = {"gpu": f"{gpu}m", "count": len(at) or 1} | {key: more.pop(key) for key in fields}
    option = {"groups": [group]} | {key: more.pop(key) for key in {"value"} & set(more)}
    jobs = {"priority", "tenant", "weight"} & set(more)
    raw: Raw = {"name": name, "options": [option]} | {key: more.pop(key) for key in jobs}
    if at:
        tasks = [{"index": i, "host": h, "gpus": gpus} for i, (h, *gpus) in enumerate(at)]
        raw["running"] = {"tasks": tasks, **more}
    return raw


def plans(
    moves: ModuleType, hosts: list[Raw], jobs: list[Raw], *terms: str, **more: Any
) -> set[Any]:
    """The attainable values of `terms`; single numbers if it is one term only."""
    racks = sorted({host["parent"] for host in hosts if "parent" in host})
    cluster = {
        "levels": ["rack"] if racks else [],
        "domains": [{"name": rack, "level": "rack"} for rack in racks],
        "hosts": hosts,
    }
    needs = {key: more.pop(key) for key in {"vacate", "freeing"} & set(more)}
    policy = {"terms": terms, "priority": "preemption", **needs}
    round_ = Round.model_validate(
        {"cluster": cluster, "jobs": jobs, "policy": policy, "now": 10, **more}
    )
    check_round(round_)
    found: set[tuple[int, ...]] = moves.attainable_with_moves(round_)
    return {vector[0] for vector in found} if len(terms) == 1 else found


@pytest.mark.parametrize(("priority", "gain"), [(0, set()), (1, set()), (2, {(3000, 2000)})])
def test_only_a_strictly_higher_priority_preempts(
    priority: int, gain: set[tuple[int, int]]
) -> None:
    jobs = [
        job("runs", 2000, ("h", 0, 1), priority=1),
        job("wants", 2000, value=5000, priority=priority),
    ]
    assert plans(moves, [host("h", 2)], jobs, "value", "disruption") == {(0, 0)} | gain


def test_nothing_is_preempted_where_no_task_arrives() -> None:
    jobs = [
        job("runs", 1000, ("h", 0)),
        job("wants", 1000, value=5000, priority=1, gpu_models=["B"]),
    ]
    hosts = [host("h", 1), host("other", 1, gpu_model="B")]
    assert plans(moves, hosts, jobs, "value") == {0, 5000}


@pytest.mark.parametrize(
    ("hosts", "places"),
    [([host("h", 2)], [("h", 0, 1)]), ([host("h", 1), host("i", 1)], [("h", 0), ("i", 0)])],
    ids=["one host", "each host of a gang"],
)
def test_nothing_of_its_own_priority_profits_from_a_preemption(
    hosts: list[Raw], places: list[Any]
) -> None:
    jobs = [
        job("runs", 1000 * (3 - len(places)), *places),
        job("high", 1000, value=5000, priority=1),
        job("equal", 1000, value=70),
    ]
    assert plans(moves, hosts, jobs, "value") == {0, 3000}
    jobs[2]["priority"] = 1
    assert plans(moves, hosts, jobs, "value") == {0, 3000, 5070 - 2000, 70 - 2000}


def test_a_job_that_migrates_may_displace_one_of_lower_priority() -> None:
    jobs = [job("high", 1000, ("h", 0), priority=1), job("low", 1000, ("i", 0))]
    terms, hosts = ("remaining", "disruption", "value"), [host("h", 1), host("i", 1)]
    assert plans(moves, hosts, jobs, *terms, vacate=["h"]) == {(1000, 0, 0), (0, 2000, -1000)}
    jobs[1]["priority"] = 1
    assert plans(moves, hosts, jobs, *terms, vacate=["h"]) == {(1000, 0, 0)}


def test_tasks_that_shift_onto_the_gpus_of_a_lower_job_displace_it() -> None:
    high = job("high", 1000, ("h", 0), ("i", 0), priority=1)
    jobs, hosts = [high, job("low", 1000, ("h", 1))], [host("h", 2), host("i", 1)]
    assert plans(moves, hosts, jobs, "value") == {0, -1000}
    # What it leaves is for no equal of the lower job.
    jobs.append(job("equal", 1000, value=5000))
    assert plans(moves, hosts, jobs, "value") == {0, -1000}
    jobs[2]["priority"] = 1
    assert plans(moves, hosts, jobs, "value") == {0, -1000, 4000}


def test_a_group_displaces_where_only_another_group_of_its_job_was() -> None:
    high = job("high", 1000, ("h", 0), priority=1)
    high["options"][0]["groups"].append({"gpu": 0.5})
    high["running"]["tasks"].append({"group": 1, "host": "i", "gpus": [0]})
    jobs, hosts = [high, job("low", 500, ("h", 1))], [host("h", 2), host("i", 1)]
    assert plans(moves, hosts, jobs, "value") == {0, -500}


def test_two_jobs_may_swap_their_places() -> None:
    jobs = [
        job("a", 1000, ("h", 0), checkpoint=7, restart_s=2),
        job("b", 1000, ("i", 0), migrate_cost=300, checkpoint=0),
    ]
    swap = 1000 * (10 - 7 + 2) + 1000 + 300 + 1000
    assert plans(moves, [host("h", 1), host("i", 1)], jobs, "disruption") == {0, swap}
    jobs[0]["running"]["pinned"] = True
    assert plans(moves, [host("h", 1), host("i", 1)], jobs, "disruption") == {0}


def test_stopping_costs_the_work_lost_since_the_checkpoint_or_the_start_and_the_restart() -> None:
    def costs(**running: Any) -> set[int]:
        jobs = [
            job("runs", 2000, ("h", 0, 1), **running),
            job("wants", 2000, value=5000, priority=1),
        ]
        return {cost for _, cost in plans(moves, [host("h", 2)], jobs, "value", "disruption")}

    assert costs(checkpoint=None, restart_s=4) == {0, 2000 * 4 + 2000}
    assert costs(checkpoint=4, restart_s=4) == {0, 2000 * 10 + 2000}
    assert costs(checkpoint=4, started=1, restart_s=4) == {0, 2000 * 10 + 2000}
    assert costs(started=1, restart_s=4) == {0, 2000 * 13 + 2000}
    assert costs(checkpoint=4, preempt_cost=5, migrate_cost=7) == {0, 5 + 2000}


@pytest.mark.parametrize(
    ("gpus", "running", "costs"),
    [
        (1, job("runs", 1000, ("h", 0)), {0}),
        (2, job("runs", 1000, ("h", 0)), {0, 1000}),
        (2, job("runs", 2000, ("h", 0, 1)), {0}),
        (3, job("runs", 2000, ("h", 0, 1)), {0, 2000}),
        (2, job("runs", 400, ("h", 0), ("h", 0)), {0, 400, 800}),
        (2, job("runs", 0, ("h",), migrate_cost=5), {0}),
    ],
    ids=["no other GPU", "other GPU", "all GPUs", "one GPU in common", "shares", "no GPU"],
)
def test_a_task_may_move_to_other_gpus_of_its_host(
    gpus: int, running: Raw, costs: set[int]
) -> None:
    assert plans(moves, [host("h", gpus)], [running], "disruption") == costs


def test_a_drained_host_keeps_what_fits_nowhere_else() -> None:
    jobs = [job("big", 3000, ("h", 0, 1, 2)), job("small", 1000, ("h", 3))]
    found = plans(
        moves, [host("h", 4), host("i", 2)], jobs, "remaining", "disruption", vacate=["h"]
    )
    assert found == {(4000, 0), (3000, 1000)}


def test_only_the_tasks_that_move_cost_their_gpus() -> None:
    jobs = [job("gang", 1000, ("h", 0), ("i", 0), restart_s=3)]
    found = plans(
        moves, [host("h", 2), host("i", 2)], jobs, "remaining", "disruption", vacate=["h"]
    )
    one, both = 2000 * 3 + 1000, 2000 * 3 + 2000
    assert found == {(1000, 0), (0, one), (1000, one), (0, both)}


def test_no_task_of_a_migrated_job_stays_on_a_failed_host() -> None:
    jobs = [job("gang", 1000, ("h", 0), ("i", 0))]
    hosts = [host("h", 1, healthy=False), host("i", 1), host("j", 1)]
    found = plans(moves, hosts, jobs, "remaining", "disruption", vacate=["h"])
    assert found == {(1000, 0), (0, 1000), (0, 2000)}


def test_the_tasks_that_stay_and_those_that_move_share_the_required_domain() -> None:
    hosts = [host("h", 2, parent="a"), host("i", 2, parent="b")]
    together, apart = [("h", 0), ("h", 1)], [("h", 0), ("i", 0)]
    gang = job("gang", 1000, *together)
    assert plans(moves, hosts, [gang], "disruption") == {0, 1000, 2000}
    gang = job("gang", 1000, *together, required="rack")
    assert plans(moves, hosts, [gang], "disruption") == {0, 2000}
    gang = job("gang", 1000, *apart, required="rack", pinned=True)
    assert plans(moves, hosts, [gang], "disruption") == {0}


def test_spread_and_proximity_count_a_migrated_job_as_a_whole() -> None:
    hosts = [host("h", 2, parent="a"), host("i", 1, parent="b")]
    gang = job("gang", 1000, ("h", 0), ("i", 0))
    assert plans(moves, hosts, [gang], "disruption", "spread", "proximity") == {
        (0, 0, 0),
        (1000, 2000, 2),
        (1000, 0, 0),
        (2000, 2000, 2),
        (2000, 0, 0),
    }


def test_opened_and_leftover_look_at_hosts_where_a_moved_task_arrives() -> None:
    found = plans(
        moves,
        [host("h", 2), host("i", 4)],
        [job("runs", 1000, ("h", 0))],
        *("disruption", "opened", "leftover"),
    )
    assert found == {(0, 0, 0), (1000, 0, 1000), (1000, 1, 3000)}


@pytest.mark.parametrize(
    ("level", "racks", "values"),
    [
        ("host", "ab", {0, -1000, 2 * 5000 - 1 * 5000 - 1000}),
        ("rack", "ab", {0, -1000, 2 * 5000 - 1 * 5000 - 1000}),
        ("rack", "aa", {0, -1000}),
    ],
)
def test_freed_is_net_of_domains_opened_and_of_disruption(
    level: str, racks: str, values: set[int]
) -> None:
    hosts = [host("h", 2, parent=racks[0]), host("i", 1, parent=racks[1])]
    freeing = {"level": level, "gpu_worth_s": 5}
    jobs = [job("runs", 1000, ("h", 0))]
    assert plans(moves, hosts, jobs, "freed", freeing=freeing) == values


@pytest.mark.parametrize(
    ("quota", "asked", "values"),
    [
        (2000, 2000, {0, 3000}),
        (1000, 2000, {0, 3000}),
        (2000, 3000, {0}),
        (4000, 2000, {0, 3000, 5000}),
    ],
    ids=["all used", "lowered meanwhile", "more than was held", "room for both"],
)
def test_preemption_gives_back_its_quota(quota: int, asked: int, values: set[int]) -> None:
    jobs = [
        job("runs", 2000, ("h", 0, 1), tenant="red"),
        job("wants", asked, value=5000, priority=1, tenant="red"),
    ]
    tenants = [{"name": "red", "quota": {"gpu": f"{quota}m"}}]
    hosts = [host("h", 3), host("i", 3)]
    assert plans(moves, hosts, jobs, "value", tenants=tenants) == values


@pytest.mark.parametrize(
    ("healthy", "more"),
    [
        (True, {"reservations": [{"host": "h", "gpus": [1, 2]}]}),
        (True, {"reservations": [{"host": "h"}]}),
        (True, {"vacate": ["h"]}),
        (False, {}),
    ],
    ids=["reserved GPUs", "reserved host", "vacated host", "failed host"],
)
def test_nothing_arrives_on_what_is_kept_out_of_the_round(healthy: bool, more: Raw) -> None:
    terms = ("value", "disruption", *(["remaining"] if "vacate" in more else []))
    jobs = [job("runs", 1000, ("h", 0)), job("wants", 1000, value=5000)]
    found = plans(moves, [host("h", 3, healthy=healthy)], jobs, *terms, **more)
    assert {vector[:2] for vector in found} == {(0, 0)}


def test_pinned_jobs_make_it_the_oracle_of_jobs_that_stay() -> None:
    @settings(max_examples=examples(day=15, nightly=60), **STABLE)
    @given(tiny.rounds())
    def check(round_: Round) -> None:
        try:
            assert moves.attainable_with_moves(round_) == oracle.attainable(round_)
        except oracle.TooManyPlansError:
            assume(False)

    check()


def named_places(round_: Round, group: TaskGroup) -> list[tuple[str, tuple[int, ...]]]:
    asked = -(-group.gpu // 1000)
    return [
        (entry.name, gpus)
        for entry in round_.cluster.hosts
        for gpus in combinations(range(entry.gpus or 0), asked)
    ]


def named_decisions(round_: Round, job_: Job) -> list[Raw]:
    """Whatever can be written down for a job, legal or not."""
    names = [other.name for other in round_.jobs if other is not job_]
    running = job_.running
    if running is None:
        found: list[Raw] = [{"decision": "wait"}]
        moved, options = "start", range(len(job_.options))
    else:
        tasks = [task.model_dump() for task in running.tasks]
        found = [{"decision": "keep", "option": running.option, "tasks": tasks}]
        found += [
            {"decision": "preempt", "displaced_by": list(some)}
            for number in range(1, len(names) + 1)
            for some in combinations(names, number)
        ]
        moved, options = "migrate", range(running.option, running.option + 1)
    for option in options:
        groups = job_.options[option].groups
        slots = [(g, i) for g, group in enumerate(groups) for i in range(group.count)]
        for places in product(*(named_places(round_, groups[g]) for g, _ in slots)):
            tasks = [
                {"group": g, "index": i, "host": name, "gpus": gpus}
                for (g, i), (name, gpus) in zip(slots, places, strict=True)
            ]
            found.append({"decision": moved, "option": option, "tasks": tasks})
    return [{"job": job_.name, **decision} for decision in found]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("preset", [None, "drain", "defragment", "minimal_victims"])
def test_its_plans_are_those_that_verify_accepts(preset: str | None) -> None:
    """Among all that can be written down, but for the order of moves."""

    @settings(max_examples=examples(day=5, nightly=30), **STABLE)
    @given(tiny.running_rounds(preset=preset))
    def check(round_: Round) -> None:
        decisions = [named_decisions(round_, job_) for job_ in round_.jobs]
        assume(prod(map(len, decisions)) <= MAX_NAMED_PLANS)
        accepted = set()
        for chosen in product(*decisions):
            found = verify(round_, Plan.model_validate({"decisions": chosen}))
            if {violation.rule for violation in found.violations} <= {"moves"}:
                accepted.add(tuple(found.terms[term] for term in round_.policy.terms))
        assert moves.attainable_with_moves(round_) == accepted

    check()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("preset", [None, "drain", "hot_swap", "defragment", "minimal_victims"])
def test_in_many_of_the_rounds_some_job_has_to_move_or_stop(preset: str | None) -> None:
    better = []

    @settings(max_examples=examples(day=8, nightly=80), **STABLE)
    @given(tiny.running_rounds(preset=preset))
    def check(round_: Round) -> None:
        raw = round_.model_dump()
        for job_ in raw["jobs"]:
            if job_["running"] is not None:
                job_["running"]["pinned"] = True
        try:
            plans = moves.attainable_with_moves(round_)
            pinned = moves.attainable_with_moves(Round.model_validate(raw))
        except oracle.TooManyPlansError:
            assume(False)
        assert pinned <= plans
        better.append(oracle.optimum(round_, plans) != oracle.optimum(round_, pinned))

    check()
    assert sum(better) >= examples(day=0, nightly=5)
