"""Who stops for what a pool has, and who may not gain from it: answers that a person works out."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import ANY_JOB, TaskPlacement
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.rounds.displacement.victims import lawful_in
from tests.formulations.gang import oracle, oracle_pools

Raw = dict[str, Any]
WATTS: Raw = {"resource": "watts", "level": "rack"}
TREES: Raw = {"resource": "trees", "level": "rack", "capacity": 1, "per": "job"}


def job(name: str, watts: int, value: int, priority: int, *at: str, **more: Any) -> Raw:
    """A job that runs with a task on each host `at`, or waits; it may arrive on `hosts`."""
    hosts = more.pop("hosts", at or None)
    group = {"count": len(at) or 1, "gpu": 1, "resources": {"watts": watts}, "hosts": hosts}
    tasks = [{"index": i, "host": host, "gpus": [0]} for i, host in enumerate(at)]
    running = {"tasks": tasks, "migrate_cost": 0, "preempt_cost": 0} if at else None
    option = {"groups": [group], "value": value, **more}
    return {"name": name, "priority": priority, "options": [option], "running": running}


def round_of(gpus: dict[str, int], pools: list[Raw], jobs: list[Raw]) -> Round:
    """Hosts a0, a1 ... of rack a, and b0, b1 ... of rack b, of so many GPUs."""
    hosts = [
        {"name": name, "parent": name[0], "gpus": n, "gpu_model": "A"} for name, n in gpus.items()
    ]
    domains = [{"name": rack, "level": "rack"} for rack in "ab"]
    cluster = {"levels": ["rack"], "domains": domains, "hosts": hosts, "pools": pools}
    policy = {"terms": ["value", "disruption"], "priority": "preemption"}
    return Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": policy})


TWO = {"a0": 2, "a1": 2, "b0": 2}
CASES: dict[str, tuple[dict[str, int], list[Raw], list[Raw], int]] = {
    "a higher job takes what it gives back": (
        TWO,
        [{**WATTS, "capacity": 1}],
        [job("v", 1, 1, 0, "a0"), job("n", 1, 5, 1, hosts=["a1"])],
        5 - 1,
    ),
    "one of its own priority does not": (
        TWO,
        [{**WATTS, "capacity": 1}],
        [job("v", 1, 1, 0, "a0"), job("n", 1, 5, 0, hosts=["a1"])],
        0,
    ),
    "it moves to another rack instead": (
        TWO,
        [{**WATTS, "capacity": 1}],
        [job("v", 1, 1, 0, "a0", hosts=["b0"]), job("n", 1, 5, 1, hosts=["a1"])],
        5,
    ),
    "nor what a higher job leaves of it": (
        TWO,
        [{**WATTS, "capacity": 2}],
        [
            job("v", 2, 1, 0, "a0"),
            job("n", 1, 5, 1, hosts=["a1"]),
            job("x", 1, 9, 0, hosts=["a1"]),
        ],
        5 - 1,
    ),
    "of the whole cluster as of a rack": (
        TWO,
        [{**WATTS, "level": None, "capacity": 2}, {**WATTS, "capacity": 2}],
        [job("v", 2, 1, 0, "a0"), job("n", 1, 5, 1, hosts=["b0"]), job("x", 1, 9, 0)],
        5 - 1,
    ),
    "nor the GPU that a higher job moves away from": (
        {"a0": 1, "a1": 1, "b0": 1},
        [{**WATTS, "capacity": 1}],
        [
            job("v", 1, 1, 0, "a0"),
            job("h", 1, 1, 1, "b0", hosts=["a1"]),
            job("x", 0, 9, 0, hosts=["b0"]),
        ],
        0,
    ),
    "nor the part of a pool that a higher job moves away from": (
        {"a0": 1, "b0": 1, "b1": 1},
        [{**WATTS, "capacity": 1}],
        [
            job("v", 1, 1, 0, "a0"),
            job("h", 1, 1, 1, "b0", hosts=["a0"]),
            job("x", 1, 9, 0, hosts=["b1"]),
        ],
        0,
    ),
    "nor the domain that a higher job uses no more": (
        {"a0": 1, "b0": 1, "b1": 1},
        [TREES],
        [
            job("v", 0, 1, 0, "a0"),
            job("h", 0, 1, 1, "b0", hosts=["a0"], uses={"trees": 1}),
            job("x", 0, 9, 0, hosts=["b1"], uses={"trees": 1}),
        ],
        0,
    ),
    "a job stops that uses one domain of two": (
        {"a0": 1, "a1": 2, "b0": 1, "b1": 1},
        [TREES],
        [
            job("v", 0, 1, 0, "a0", "b0", uses={"trees": 1}),
            job("n", 0, 5, 1, hosts=["a1"], uses={"trees": 1}),
            job("x", 0, 9, 0, hosts=["a1", "b1"], uses={"trees": 1}),
        ],
        5 - 1,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["highs", "cp-sat"])
def test_preemption_for_pools(backend: str, name: str) -> None:
    gpus, pools, jobs, value = CASES[name]
    round_ = round_of(gpus, pools, jobs)
    plans = oracle_pools.PoolOracle(round_).attainable()
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    assert oracle.optimum(round_, plans) == tuple(term.value for term in plan.certificate.terms)
    assert plan.certificate.terms[0].value == value


@pytest.mark.parametrize(
    ("name", "moves", "stop"),
    [
        ("nor what a higher job leaves of it", {"n": "a1", "x": "a1"}, ["x"]),
        ("of the whole cluster as of a rack", {"n": "b0", "x": "b0"}, ["x"]),
        ("nor the GPU that a higher job moves away from", {"h": "a1", "x": "b0"}, ["x"]),
        ("nor the part of a pool that a higher job moves away from", {"h": "a0", "x": "b1"}, ["x"]),
        ("one of its own priority does not", {"n": "a1"}, ["n"]),
        ("a higher job takes what it gives back", {"n": "a1"}, []),
    ],
)
def test_a_plan_in_which_someone_gains_from_a_pool_is_repaired(
    name: str, moves: dict[str, str], stop: list[str]
) -> None:
    gpus, pools, jobs, _ = CASES[name]
    round_ = round_of(gpus, pools, jobs)
    problem = compile_round(round_)
    placement, number = Placement(problem), {job.name: j for j, job in enumerate(round_.jobs)}
    for gone in {"v", "h"} & number.keys():
        placement.stop(placement.start_of(number[gone]))
    started = {}
    for one, host in moves.items():
        kind = problem.class_of[number[one]]
        shape = problem.classes[kind].choices[0].groups[0].shape
        at = problem.cluster.host_index[host]
        put = TaskPlacement(0, at, 1, placement.put(shape, at))
        running = number[one] if one in "vh" else ANY_JOB
        started[placement.start(kind, 0, [put], running)] = one
    assert (lawful_in(round_, assign(placement, "unrepaired")) is None) == bool(stop)
    repair_preemptions(placement)
    left = {number for number, _ in placement.changed()}
    assert [one for number, one in started.items() if number not in left] == stop


@pytest.mark.parametrize("backend", ["highs", "cp-sat"])
def test_a_pool_is_the_reason_of_one_of_two_that_had_better_stop(backend: str) -> None:
    """Both racks are to be emptied, and job u has to stop, for rack b has one watt; v stays."""
    jobs = [
        job("v", 1, 0, 0, "a0"),
        job("u", 1, 0, 0, "b0"),
        job("n", 1, 5, 1, hosts=["a1"]),
        job("m", 1, 5, 1, hosts=["b1"]),
    ]
    pools = [{**WATTS, "capacity": 1, "domains": {"a": 2}}]
    raw = round_of({"a0": 1, "a1": 1, "b0": 1, "b1": 1}, pools, jobs).model_dump()
    raw["policy"] |= {"terms": ["remaining", "value"], "vacate": ["a0", "b0"]}
    round_ = Round.model_validate(raw)
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    assert [term.value for term in plan.certificate.terms] == [1000, 10]
