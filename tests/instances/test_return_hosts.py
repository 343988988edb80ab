"""Loaned hosts go back at the least cost of all choices of hosts."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from examples import by_day
from placewright.instances import parse_round, return_hosts
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
NEVER_MOVES = 10**6


def running(name: str, places: list[tuple[str, int]], preempt_cost: int, **more: Any) -> Raw:
    """A job of one GPU per place, which it would cost far too much to migrate."""
    tasks = [{"index": i, "host": h, "gpus": [g]} for i, (h, g) in enumerate(places)]
    return {
        "name": name,
        "options": [{"groups": [{"count": len(places), "gpu": 1}]}],
        "running": {"tasks": tasks, "preempt_cost": preempt_cost, "migrate_cost": NEVER_MOVES},
        **more,
    }


def round_of(jobs: list[Raw], hosts: list[Raw] | None = None, **more: Any) -> Round:
    hosts = hosts or [{"name": "inf[0-3]", "gpus": 2, "gpu_model": "T4", "cpu": 8}]
    round_ = parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {"hosts": hosts},
            "jobs": jobs,
            **more,
        }
    )
    check_round(round_)
    return round_


def drawn(seed: int) -> Round:
    """Five loaned hosts of one or two GPUs, three in four of them held by jobs on up to three."""
    rng = random.Random(seed)
    gpus = [rng.choice([1, 2]) for _ in range(5)]
    slots = [(f"inf{h}", g) for h, n in enumerate(gpus) for g in range(n) if rng.random() < 0.75]
    rng.shuffle(slots)
    jobs = []
    while slots:
        places = [slots.pop() for _ in range(min(len(slots), rng.choice([1, 1, 2, 3])))]
        flexible = rng.random() < 0.3
        cost = 0 if flexible else rng.randrange(1, 50) * 10**4
        jobs.append(running(f"job-{len(jobs)}", places, cost, priority=rng.randrange(3)))
    hosts = [{"name": f"inf{h}", "gpus": n, "gpu_model": "T4"} for h, n in enumerate(gpus)]
    return round_of(jobs, hosts)


def cheapest(round_: Round, hosts: list[str], count: int) -> int:
    """The least cost of stopping whoever is on some hosts, over all choices of these."""
    costs = []
    for chosen in combinations(hosts, count):
        there = [
            job.running.preempt_cost + job.options[0].milli_gpu
            for job in round_.jobs
            if job.running is not None and {task.host for task in job.running.tasks} & {*chosen}
        ]
        costs.append(sum(there))
    return min(costs)


def solved(made: Round, backend: str = "highs") -> Plan:
    plan = solve_round(made, backend=backend, gap=0.0, isolation="none")
    checked = verify(made, plan)
    assert checked.ok, checked.violations
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    assert plan.certificate.degraded == ()
    return plan


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "seeds"), [("highs", 60), ("cp-sat", 15), ("cbc", 15), ("scip", 15)]
)
def test_the_return_costs_what_the_cheapest_hitting_set_costs(backend: str, seeds: int) -> None:
    for seed in by_day(range(seeds), 15):
        round_ = drawn(seed)
        hosts = [f"inf{h}" for h in range(5)]
        count = 1 + seed % 4
        plan = solved(return_hosts(round_, hosts, count), backend)
        assert plan.certificate is not None
        values = {term.name: term.value for term in plan.certificate.terms}
        assert values == {"value": 1, "disruption": cheapest(round_, hosts, count)}
        (returned,) = [d for d in plan.decisions if d.job == "returned-hosts"]
        back = {task.host for task in returned.tasks}
        assert len(back) == count
        stopped = {d.job for d in plan.decisions if d.decision is DecisionKind.PREEMPT}
        assert stopped == {
            job.name
            for job in round_.jobs
            if job.running is not None and {task.host for task in job.running.tasks} & back
        }


def test_workers_beyond_the_base_go_first() -> None:
    base = running("base", [("inf0", 0), ("inf1", 0)], 9000)
    flexible = running("base-flexible", [("inf2", 0), ("inf3", 0)], 0)
    plan = solved(return_hosts(round_of([base, flexible]), ["inf[0-3]"], 2))
    kinds = {d.job: d.decision for d in plan.decisions}
    assert kinds["base"] is DecisionKind.KEEP
    assert kinds["base-flexible"] is DecisionKind.PREEMPT


def test_a_job_that_can_move_elsewhere_for_less_does() -> None:
    job = running("moves", [("inf0", 0)], 9000)
    job["running"]["migrate_cost"] = 10
    others = [running(f"stays-{h}", [(f"inf{h}", 0)], 9000) for h in (1, 2, 3)]
    plan = solved(return_hosts(round_of([job, *others]), ["inf[0-3]"], 1))
    assert plan.decisions[0].decision is DecisionKind.MIGRATE
    assert plan.certificate is not None
    assert plan.certificate.terms[1].value == 10 + 1000


def test_hosts_that_a_pinned_job_or_only_a_cpu_task_holds_are_not_free() -> None:
    pinned = running("pinned", [("inf0", 0)], 0)
    pinned["running"]["pinned"] = True
    group = {"gpu": 0, "cpu": 1}
    on_cpu = {
        "name": "on-cpu",
        "options": [{"groups": [group]}],
        "running": {"tasks": [{"host": "inf1"}], "preempt_cost": 5, "migrate_cost": NEVER_MOVES},
    }
    plan = solved(return_hosts(round_of([pinned, on_cpu]), ["inf[0-1]"], 1))
    kinds = {d.job: d.decision for d in plan.decisions}
    assert kinds["on-cpu"] is DecisionKind.PREEMPT
    (returned,) = [d for d in plan.decisions if d.job == "returned-hosts"]
    assert [task.host for task in returned.tasks] == ["inf1"]


def test_pending_jobs_are_left_out_and_running_ones_worth_nothing() -> None:
    pending = {"name": "waits", "options": [{"groups": [{"gpu": 1}]}]}
    top = running("top", [("inf0", 0)], 7, priority=10**9, weight=3)
    mine = running("returned-hosts", [("inf1", 0)], 7)
    made = return_hosts(round_of([top, mine, pending]), ["inf[0-3]"], 4)
    check_round(made)
    assert [job.name for job in made.jobs] == ["top", "returned-hosts", "returned-hosts-2"]
    assert made.jobs[0].priority < made.jobs[-1].priority
    assert made.jobs[0].value_of(0) == 0
    plan = solved(made)
    assert plan.certificate is not None
    assert [term.value for term in plan.certificate.terms] == [1, 2 * 1007]


@pytest.mark.parametrize(
    ("hosts", "count", "message"),
    [
        ([], 1, "count: 1: expected 1 to 0 hosts"),
        (["inf[0-3]"], 5, "count: 5: expected 1 to 4 hosts"),
        (["inf[0-3]"], 0, "count: 0: expected 1 to 4 hosts"),
        (["inf0", "gpu7"], 1, "hosts[1]: 'gpu7': unknown host"),
    ],
)
def test_a_wrong_host_or_number_is_refused(hosts: list[str], count: int, message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        return_hosts(round_of([]), hosts, count)
    assert str(error.value).startswith(message)


def test_too_many_kinds_of_hosts_are_refused() -> None:
    hosts = [{"name": f"inf{k}", "gpus": 1, "gpu_model": "T4", "cpu": f"{k}m"} for k in range(12)]
    with pytest.raises(InvalidInputError, match="12 kinds of hosts"):
        return_hosts(round_of([], hosts), ["inf[0-11]"], 6)
    check_round(return_hosts(round_of([], hosts), ["inf[0-11]"], 1))
