"""Rounds on graphs of switches: `proximity`, `bottleneck` and `contention` against enumeration."""

from __future__ import annotations

import random
from itertools import combinations, product
from typing import Any

import networkx as nx
import pytest
from gang_parameters import set_parameters

from examples import by_day, examples
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
BACKENDS = ("highs", "cp-sat", "cbc", "scip")


def ring(racks: int, *chords: tuple[int, int], gpus: int = 1, **policy: Any) -> Raw:
    """Return racks of one host each, each linked to the next, and some further links."""
    pairs = [(i, (i + 1) % racks) for i in range(racks)] + list(chords)
    return {
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": f"r{i}", "level": "rack"} for i in range(racks)],
            "hosts": [
                {"name": f"h{i}", "parent": f"r{i}", "gpus": gpus, "gpu_model": "g"}
                for i in range(racks)
            ],
            "fabric": [
                {"between": [f"r{a}", f"r{b}"], "bandwidth_mbps": 100, "latency_us": 1}
                for a, b in pairs
            ],
        },
        "policy": policy,
    }


def job(name: str, count: int, **communication: Any) -> Raw:
    asked = {"communication": communication} if communication else {}
    return {"name": name, "options": [{"groups": [{"gpu": 1, "count": count, **asked}]}]}


def values(raw: Raw, backend: str = "highs") -> tuple[dict[str, int], dict[str, int]]:
    """Return the values of the best plan, and their bounds."""
    round_ = Round.model_validate(raw)
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    found = verify(round_, plan)
    assert found.ok, found.findings
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    terms = plan.certificate.terms
    return {one.name: one.value for one in terms}, {one.name: one.bound for one in terms}


@pytest.mark.parametrize("backend", by_day(BACKENDS))
def test_tasks_go_to_neighbours_of_a_ring(backend: str) -> None:
    raw = ring(6, terms=["value", "proximity"])
    # Two and three tasks: r0-r1 and r2-r3-r4 with distances 1, and 1 + 1 + 2; each pair of hosts
    # adds one.
    raw["jobs"] = [job("a", 2), job("b", 3)]
    found, bounds = values(raw, backend)
    assert found == bounds == {"value": 5000, "proximity": 2 + 3 + 4}


@pytest.mark.parametrize("backend", by_day(BACKENDS))
def test_rings_of_tasks_take_the_racks_with_most_ways_between_them(backend: str) -> None:
    raw = ring(6, (0, 2), (0, 2 + 2), terms=["value", "bottleneck"])
    raw["jobs"] = [job("a", 2, data_mib=100)]
    found, bounds = values(raw, backend)
    # r0 and r2, or r0 and r4, have three ways: 300 Mbit/s each way for half of the data, twice.
    assert found["bottleneck"] == -(-100 * 8 * 2**20 // 300)
    assert bounds["bottleneck"] == pytest.approx(found["bottleneck"], rel=1e-5)


@pytest.mark.parametrize("backend", by_day(BACKENDS))
def test_jobs_share_all_ways_out_of_a_rack(backend: str) -> None:
    raw = ring(3, gpus=2, terms=["value", "contention"])
    raw["jobs"] = [job("a", 3, rate_mbps=150), job("b", 3, rate_mbps=60)]
    found, bounds = values(raw, backend)
    # Both lie in two racks or three, and one rack has both: 200 Mbit/s go out of it.
    assert found == bounds == {"value": 6000, "contention": 10}


def drawn(rng: random.Random) -> Raw:
    racks = rng.randint(3, 6)
    chords = {tuple(sorted(rng.sample(range(racks), 2))) for _ in range(rng.randint(0, 3))}
    chords -= {(i, (i + 1) % racks) for i in range(racks)} | {(0, racks - 1)}
    raw = ring(racks, *sorted(chords), gpus=2, terms=["value", "proximity"])
    for one in raw["cluster"]["fabric"]:
        one["bandwidth_mbps"] = rng.choice((100, 300))
    tasks = rng.randint(2, 3), rng.randint(1, 2)
    for host in raw["cluster"]["hosts"]:
        host["gpus"] = rng.choice((1, 1, 2)) if racks >= sum(tasks) else 2
    if racks > 3 and rng.random() < 0.5:
        del raw["cluster"]["fabric"][rng.randrange(racks)]
    raw["jobs"] = [job("a", tasks[0]), job("b", tasks[1])]
    return raw


def least(raw: Raw) -> int:
    """Return the least proximity of all plans that start both jobs, by the graph of NetworkX."""
    graph = nx.Graph(tuple(one["between"]) for one in raw["cluster"]["fabric"])
    away = dict(nx.all_pairs_shortest_path_length(graph))
    gpus = [host["gpus"] for host in raw["cluster"]["hosts"]]
    sizes = [one["options"][0]["groups"][0]["count"] for one in raw["jobs"]]
    found = []
    for places in product(range(len(gpus)), repeat=sum(sizes)):
        if all(places.count(h) <= n for h, n in enumerate(gpus)):
            parts = places[: sizes[0]], places[sizes[0] :]
            pairs = [pair for part in parts for pair in combinations(part, 2)]
            found.append(sum((a != b) + away[f"r{a}"][f"r{b}"] for a, b in pairs))
    return min(found)


@pytest.mark.parametrize("seed", range(examples(day=6, nightly=60, long=600)))
def test_the_least_proximity_is_that_of_enumeration(seed: int) -> None:
    raw = drawn(random.Random(seed))
    expected = least(raw)
    found, bounds = values(raw)
    assert found["proximity"] == bounds["proximity"] == expected


def test_uplinks_of_their_own_decide_which_racks_a_ring_takes() -> None:
    raw = ring(4, terms=["value", "bottleneck"])
    del raw["cluster"]["fabric"]
    raw["cluster"]["links"] = {"rack": {"bandwidth_mbps": 100, "latency_us": 1}}
    for i, mbps in ((1, 400), (3, 300)):
        raw["cluster"]["domains"][i]["uplink_mbps"] = mbps
    raw["jobs"] = [job("a", 2, data_mib=100)]
    found, bounds = values(raw)
    assert found["bottleneck"] == -(-100 * 8 * 2**20 // 300)
    assert bounds["bottleneck"] == pytest.approx(found["bottleneck"], rel=1e-5)


@pytest.mark.parametrize("seed", range(examples(day=4, nightly=40)))
def test_without_pairs_of_domains_the_bound_holds(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    set_parameters(monkeypatch, "models", max_pairs_apart=0)
    raw = drawn(random.Random(seed))
    found, bounds = values(raw)
    assert bounds["proximity"] <= least(raw) <= found["proximity"]
