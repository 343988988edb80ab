"""How well the GPUs of tasks are joined, beside trying all orders of them."""

from __future__ import annotations

from itertools import combinations, permutations
from pathlib import Path
from random import Random

import pytest

from placewright.instances import verify as verification
from placewright.instances.derived.joined_tasks import joined_tasks, links_of_jobs
from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import load_round
from placewright.topology import GpuLinks
from placewright.topology.catalogue import LINK_MATRICES
from placewright.topology.gpu_links import best_rings, ring_mbps

LIBRARY = Path(verification.__file__).parents[1] / "library"
PAIRS = LIBRARY / "gpu-pairs.yaml"


def by_orders(links: GpuLinks, gpus: tuple[int, ...]) -> int:
    """Return the largest least link over all rings through some GPUs."""
    return max(
        min(links.mbps[a][b] for a, b in zip(order, (*order[1:], order[0]), strict=True))
        for order in permutations(gpus)
    )


@pytest.mark.parametrize("seed", range(20))
def test_rings_of_random_links_are_those_of_all_orders(seed):
    rng, gpus = Random(seed), 6
    mbps = [[0] * gpus for _ in range(gpus)]
    for a, b in combinations(range(gpus), 2):
        mbps[a][b] = mbps[b][a] = rng.choice((0, 1, 2, 4))
    links = GpuLinks("m", tuple(tuple(map(bool, row)) for row in mbps), tuple(map(tuple, mbps)))
    best = best_rings(links)
    assert best[:2] == (0, 0)
    for size in range(2, gpus + 1):
        rings = {one: by_orders(links, one) for one in combinations(range(gpus), size)}
        assert {one: ring_mbps(links, one) for one in rings} == rings
        assert best[size] == max(rings.values())


def test_gpus_that_are_all_alike_need_no_table():
    links = LINK_MATRICES["dgx-h100"]
    assert links.is_uniform
    assert set(best_rings(links)[2:]) == {ring_mbps(links, (0, 7))} == {links.mbps[0][1]}
    assert ring_mbps(links, (3,)) == 0


def a_plan(**gpus: tuple[int, ...]) -> Plan:
    return Plan.model_validate(
        {
            "decisions": [
                {
                    "job": job.replace("_", "-"),
                    "decision": "start",
                    "option": 0,
                    "tasks": [{"host": "h0", "gpus": list(mine)}],
                }
                for job, mine in gpus.items()
            ]
        }
    )


def test_who_lies_across_numa_nodes_or_off_a_pair_is_seen():
    round_ = load_round(PAIRS)
    plan = a_plan(double_0=(0, 1), double_1=(2, 4), single_0=(3,))
    found = {one.job: one for one in joined_tasks(round_, plan)}
    assert {job: (one.mbps, one.most_mbps, one.is_across) for job, one in found.items()} == {
        "double-0": (448_000, 448_000, False),
        "double-1": (176_000, 448_000, True),
    }
    assert links_of_jobs(round_, plan) == {"double-0": 448_000, "double-1": 176_000}
