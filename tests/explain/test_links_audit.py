"""The audit of links between GPUs, beside all ways to place what runs on one host."""

from __future__ import annotations

import json
from itertools import combinations, permutations
from random import Random
from typing import Any

import pytest

from placewright.cli.app import main
from placewright.cli.views.gang.audit_tables import links_text
from placewright.explain.audit import audit
from placewright.explain.current_placement import current_placement
from placewright.explain.gpu_links import Joined, LinkAudit, audit_links
from placewright.instances.documents.round import Round
from placewright.instances.io.files import write
from placewright.instances.verify import verify

WIDTH = {"NV": 400, "NODE": 200, "SYS": 100}
KIND = {"NV": "nvlink", "NODE": "numa", "SYS": "system"}
CLASSES = {word: {"kind": KIND[word], "bandwidth_mbps": mbps} for word, mbps in WIDTH.items()}
PAIRED = [
    [
        "X" if a == b else "NV" if a // 2 == b // 2 else "NODE" if a // 4 == b // 4 else "SYS"
        for b in range(8)
    ]
    for a in range(8)
]


def a_round(words: list[list[str]], runs: dict[str, list[int]], *hosts: str, **asked: Any) -> Round:
    """Jobs that run on the first host, each on some GPUs; those of `asked` ask for links."""
    gpus = len(words)
    matrix = {"name": "m", "classes": CLASSES, "gpus": [" ".join(row) for row in words]}
    if gpus == 8:
        matrix["numa"] = [0, 0, 0, 0, 1, 1, 1, 1]
    jobs = []
    for name, mine in runs.items():
        group: dict[str, Any] = {"gpu": len(mine)}
        if name in asked:
            group["gpu_links"] = asked[name]
        tasks = [{"host": hosts[0], "gpus": mine}]
        jobs.append({"name": name, "options": [{"groups": [group]}], "running": {"tasks": tasks}})
    entries = [{"name": host, "gpus": gpus, "gpu_model": "A", "gpu_links": "m"} for host in hosts]
    return Round.model_validate(
        {
            "cluster": {"gpu_links": [matrix], "hosts": entries},
            "policy": {"terms": ["value"]},
            "jobs": jobs,
        }
    )


CROSSED = {"a": [0, 4], "b": [1, 5], "c": [2, 3], "d": [6]}


def test_crossed_pairs_are_counted_and_repaired():
    round_ = a_round(PAIRED, CROSSED, "h", a={"required": "nvlink"}, c={})
    found = audit(*current_placement(round_), time_limit=5.0, isolation="none").links
    assert found is not None
    assert found.placed == Joined(tasks=3, asking=2, worse=2, worse_asking=1, across=2)
    assert found.repaired == Joined(tasks=3, asking=2, worse=0, worse_asking=0, across=0)
    assert links_text(found) == (
        "Links: 2 of 3 tasks of two or more GPUs on hosts whose links differ could be joined "
        f"better there (2 across NUMA nodes, 1 of the 2 that ask for links); "
        f"{len(found.moved)} moves repair 2."
    )
    assert set(found.moved) <= {"a", "b", "d"}


def test_who_may_not_move_is_counted_alone():
    round_ = a_round(PAIRED, CROSSED, "h")
    pinned = tuple(
        job.model_copy(update={"running": job.running.model_copy(update={"pinned": True})})
        for job in round_.jobs
        if job.running is not None
    )
    round_ = round_.model_copy(update={"jobs": pinned})
    found = audit(*current_placement(round_), time_limit=5.0, isolation="none").links
    assert found is not None
    assert (found.placed.worse, found.repaired, found.moved) == (2, None, [])
    assert links_text(found).endswith("better there (2 across NUMA nodes).")


def test_where_all_links_are_alike_nothing_is_said(capfd, tmp_path):
    alike = [["X" if a == b else "NV" for b in range(4)] for a in range(4)]
    write(a_round(alike, {"a": [0, 2]}, "h"), tmp_path / "r.json")
    write(a_round(PAIRED, {"a": [0, 1]}, "h"), tmp_path / "paired.json")
    assert main(["audit", str(tmp_path / "r.json"), "--format", "json"]) == 0
    assert "gpu_links" not in json.loads(capfd.readouterr().out)
    assert main(["audit", str(tmp_path / "r.json")]) == 0
    assert "Links:" not in capfd.readouterr().out
    assert main(["audit", str(tmp_path / "paired.json")]) == 0
    assert "Links: none of 1 task of two or more GPUs" in capfd.readouterr().out
    assert main(["audit", str(tmp_path / "paired.json"), "--format", "json"]) == 0
    placed = json.loads(capfd.readouterr().out)["gpu_links"]
    assert (placed["placed"]["worse"], placed["repaired"], placed["moves"]) == (0, None, [])


def ring(mbps: list[list[int]], gpus: tuple[int, ...]) -> int:
    return max(
        min(mbps[a][b] for a, b in zip(order, (*order[1:], order[0]), strict=True))
        for order in permutations(gpus)
    )


@pytest.mark.parametrize("seed", range(12))
def test_moves_join_what_runs_as_well_as_any_placement_does(seed):
    rng, gpus = Random(seed), 5
    words = [["X"] * gpus for _ in range(gpus)]
    for a, b in combinations(range(gpus), 2):
        words[a][b] = words[b][a] = rng.choice(list(WIDTH))
    mbps = [[WIDTH.get(word, 0) for word in row] for row in words]
    order = rng.sample(range(gpus), gpus)
    sizes = rng.choice(((2, 2, 1), (3, 2), (2, 2), (2, 1, 1), (3, 1)))
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    runs = {
        f"j{i}": sorted(order[at : at + size])
        for i, (at, size) in enumerate(zip(starts, sizes, strict=True))
    }
    round_ = a_round(words, runs, "h")
    best = max(
        sum(
            ring(mbps, chosen[at : at + size])
            for at, size in zip(starts, sizes, strict=True)
            if size > 1
        )
        for chosen in permutations(range(gpus), sum(sizes))
    )
    now, plan = current_placement(round_)
    found = audit_links(now, plan, round_, time_limit=5.0, isolation="none")
    if found is None:
        assert len({word for row in words for word in row} - {"X"}) == 1
        return
    has = sum(ring(mbps, tuple(mine)) for mine in runs.values() if len(mine) > 1)
    most = {size: max(ring(mbps, s) for s in combinations(range(gpus), size)) for size in (2, 3)}
    worse = [
        mine
        for mine in runs.values()
        if len(mine) > 1 and ring(mbps, tuple(mine)) < most[len(mine)]
    ]
    assert found.placed.worse == len(worse)
    if found.plan is None:
        return
    assert verify(round_, found.plan.model_copy(update={"certificate": None, "round": None})).ok
    sets = [t.gpus for one in found.plan.decisions for t in one.tasks if len(t.gpus) > 1]
    assert sum(ring(mbps, one) for one in sets) == best > has
    left = sum(ring(mbps, one) < most[len(one)] for one in sets)
    assert found.repairs == len(worse) - left > 0


def test_one_move_is_told_in_the_singular():
    placed = Joined(tasks=1, asking=0, worse=1, worse_asking=0, across=0)
    assert links_text(LinkAudit(placed)) == (
        "Links: 1 of 1 task of two or more GPUs on hosts whose links differ could be joined better "
        "there."
    )
