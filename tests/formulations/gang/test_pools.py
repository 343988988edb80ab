"""Pools with known answers, in small rounds and in rounds too large for the exact model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters

from placewright.formulations.gang.heuristics.vector_packing import (
    NOWHERE,
    HostAssignment,
    Units,
    drop_excess,
)
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.topology.units import UNLIMITED

BACKENDS = ("highs", "cp-sat", "cbc", "scip")
Raw = dict[str, Any]


def cluster(pools: list[Raw]) -> Raw:
    """Return 32 hosts of 8 GPUs, in four groups of 8, and halves of two groups."""
    halves = [{"name": f"half{i}", "level": "half"} for i in range(2)]
    groups = [{"name": f"g{i}", "level": "group", "parent": f"half{i // 2}"} for i in range(4)]
    hosts = [
        {"name": f"h{i}-[0-7]", "parent": f"g{i}", "gpus": 8, "gpu_model": "H100"} for i in range(4)
    ]
    return {
        "levels": ["half", "group"],
        "domains": halves + groups,
        "hosts": hosts,
        "pools": pools,
    }


def started(document: Raw, backend: str) -> int:
    """Solve to proven value, verify, and return how many jobs start."""
    round_ = Round.model_validate(document | {"policy": {"terms": ["value"]}})
    plan = solve_round(round_, time_limit=20, backend=backend, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    term = plan.certificate.terms[0]
    assert term.value == term.bound
    return num_started(plan)


def num_started(plan: Plan) -> int:
    return sum(decision.decision == "start" for decision in plan.decisions)


def power_of_groups(watts: int) -> Raw:
    pools = [
        {"resource": "power_w", "level": "group", "capacity": 40_000},
        {"resource": "power_w", "level": "half", "capacity": 60_000, "domains": {"half1": 80_000}},
        {"resource": "power_w", "capacity": 130_000},
    ]
    group = {"gpu": 8, "resources": {"power_w": watts}}
    jobs = [{"name": f"j{i}", "options": [{"groups": [group]}]} for i in range(32)]
    return {"cluster": cluster(pools), "jobs": jobs}


def trees(hosts: list[str] | None) -> Raw:
    """Return 64 jobs of one GPU, each of which uses a tree of its group, its half and all."""
    each = {"resource": "trees", "per": "job"}
    pools = [
        {**each, "level": "group", "capacity": 12},
        {**each, "level": "half", "capacity": 16},
        {**each, "capacity": 24},
    ]
    group = {"gpu": 1} if hosts is None else {"gpu": 1, "hosts": hosts}
    options = [{"groups": [group], "uses": {"trees": 1}}]
    jobs = [{"name": f"j{i}", "options": options} for i in range(64)]
    return {"cluster": cluster(pools), "jobs": jobs}


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let rounds be small, or too large for the exact model."""
    if request.param == "large":
        set_parameters(monkeypatch, "run", max_exact_variables=-1)
    return str(request.param)


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("watts", "jobs"), [(5_000, 26), (4_000, 31)])
def test_power_of_groups_halves_and_all(backend: str, watts: int, jobs: int) -> None:
    assert started(power_of_groups(watts), backend) == jobs


@pytest.mark.nightly(after=6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("hosts", "jobs"), [(None, 24), (["h0-[0-7]", "h1-[0-7]"], 16), (["h0-[0-7]"], 12)]
)
def test_trees_of_groups_halves_and_all(backend: str, hosts: list[str] | None, jobs: int) -> None:
    assert started(trees(hosts), backend) == jobs


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("backend", BACKENDS)
def test_large_and_small_jobs_share_the_power_of_two_racks(backend: str) -> None:
    document = {
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": f"r{i}", "level": "rack"} for i in range(2)],
            "hosts": [
                {"name": f"r{i}-[0-1]", "parent": f"r{i}", "gpus": 8, "gpu_model": "H100"}
                for i in range(2)
            ],
            "pools": [{"resource": "power_w", "level": "rack", "capacity": 12_000}],
        },
        "jobs": [
            {
                "name": f"j{i}",
                "options": [{"groups": [{"gpu": 8, "resources": {"power_w": watts}}]}],
            }
            for i, watts in enumerate((8_000, 8_000, 4_000, 4_000))
        ],
    }
    assert started(document, backend) == 4


@pytest.mark.nightly(after=3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("tasks", "gangs"), [(10, 4), (20, 2), (33, 1)])
def test_a_gang_uses_a_tree_of_each_group_that_it_is_in(
    backend: str, tasks: int, gangs: int
) -> None:
    # A group has places for 16 tasks, and one tree: two, three or four groups go to a wide gang.
    pools = [{"resource": "trees", "level": "group", "capacity": 1, "per": "job"}]
    options = [{"groups": [{"count": tasks, "gpu": 4}], "uses": {"trees": 1}}]
    jobs = [{"name": f"j{i}", "options": options} for i in range(gangs + 1)]
    assert started({"cluster": cluster(pools), "jobs": jobs}, backend) == gangs


def test_large_rounds_fill_racks_with_gpus_and_power_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A rack has 64 GPUs and 44,800 W: as much as hosts at 500 W a GPU and at 900 W, half of each.
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    racks, hosts = 12, 8
    document: Raw = {
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": f"r{i}", "level": "rack"} for i in range(racks)],
            "hosts": [
                {"name": f"r{i}-[0-{hosts - 1}]", "parent": f"r{i}", "gpus": 8, "gpu_model": "H100"}
                for i in range(racks)
            ],
            "pools": [{"resource": "power_w", "level": "rack", "capacity": 44_800}],
        },
        "jobs": [
            {
                "name": f"{watts}-{gpus}-{i}",
                "weight": 3,
                "options": [{"groups": [{"gpu": gpus, "resources": {"power_w": watts * gpus}}]}],
            }
            for watts in (500, 900)
            for gpus, number in ((8, 24), (4, 24), (2, 24), (1, 48))
            for i in range(number)
        ]
        # Worth less, and too much power for what the others leave.
        + [
            {
                "name": f"hot-{i}",
                "options": [{"groups": [{"gpu": 8, "resources": {"power_w": 8_000}}]}],
            }
            for i in range(48)
        ],
    }
    round_ = Round.model_validate(document | {"policy": {"terms": ["value"]}})
    plan = solve_round(round_, time_limit=30, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    term = plan.certificate.terms[0]
    # All others use up GPUs and power to the last.
    assert term.value == term.bound
    assert not any(d.decision == "start" for d in plan.decisions if d.job.startswith("hot"))


def test_a_rack_without_hosts_has_no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    document = cluster([{"resource": "power_w", "level": "group", "capacity": 3}])
    document["hosts"] = [host for host in document["hosts"] if host["parent"] != "g0"]
    group = {"gpu": 8, "resources": {"power_w": 1}}
    jobs = [{"name": f"j{i}", "options": [{"groups": [group]}]} for i in range(10)]
    assert started({"cluster": document, "jobs": jobs}, "highs") == 9


def test_hosts_without_a_limit_do_not_hide_what_others_lack() -> None:
    """Of two hosts one lists the resource, and has less of it than its two tasks would take."""
    units = Units(
        gpus=np.array([1, 1]),
        demand=np.array([[1], [1]]),
        home=np.array([NOWHERE, NOWHERE]),
        move_cost=np.zeros(2, dtype=np.int64),
        value=np.array([1, 1]),
        running_demand=np.zeros((2, 1), dtype=np.int64),
        has_running=np.zeros(2, dtype=np.bool_),
        allowed=np.array([[True, False]]),
        host_set=np.array([0, 0]),
    )
    capacity = np.array([[1], [UNLIMITED]])
    assignment = HostAssignment(units, capacity, np.array([2, 2]), np.zeros(2, dtype=np.bool_))
    drop_excess(assignment)
    assert assignment.dropped.sum() == 1


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("level", ["host", "rack"])
def test_gangs_packed_by_rack_keep_the_levels_that_they_ask(level: str) -> None:
    """The fuller host, which is filled first, takes one task of the gang of two."""
    gang = {"gpu": 2, "count": 2, "required": level}
    asks = [gang, {"gpu": 1}, {"gpu": 1}]
    options = [{"groups": [group], "uses": {"trees": 1}} for group in asks]
    document = {
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": "r", "level": "rack"}],
            "hosts": [
                {"name": f"h{n}", "parent": "r", "gpus": n, "gpu_model": "H100"} for n in (3, 8)
            ],
            "pools": [{"resource": "trees", "per": "job", "level": "rack", "capacity": 2}],
        },
        "jobs": [{"name": f"j{i}", "options": [option]} for i, option in enumerate(options)],
        "policy": {"terms": ["value"]},
    }
    plan = solve_round(Round.model_validate(document), gap=0.0, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    assert plan.certificate.terms[0].value == 5_000
