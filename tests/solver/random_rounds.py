"""Tiny random rounds, drawn fast: tens of thousands of them are tried in a test."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from fuzz.small_units import as_document
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round

Raw = dict[str, Any]
NOW = 10
WHOLE = [1000, 1000, 2000, 3000, 4000]
SHARES = [300, 400, 500, 700]
LATER = ["disruption", "spread", "proximity", "opened", "leftover"]


def random_round(rng: np.random.Generator, *, moving: bool) -> Round:
    """A round of up to 3 hosts in up to 2 racks; jobs offer up to two options.

    Up to 5 jobs are pending and none runs; or, if `moving`, up to 3 run, some of which are pinned,
    up to 3 are pending, and there are failed hosts, reservations, hosts to vacate and domains to
    free.
    """
    cluster = random_cluster(rng, moving=moving)
    sizes = WHOLE + (SHARES if rng.random() < 0.5 else [])
    most = 2 if moving else 3
    templates = [
        [random_option(rng, cluster, sizes, most) for _ in range(rng.choice([1, 1, 2]))]
        for _ in range(2)
    ]
    running = random_running(rng, cluster, sizes) if moving else []
    pending = [
        {
            "name": f"j{i}",
            "tenant": "t" if rng.random() < 0.3 else None,
            "options": templates[rng.integers(2)],
            "priority": int(rng.choice([0, 1, 2, 2])),
        }
        for i in range(rng.integers(4) if running else rng.integers(1, 6))
    ]
    round_ = Round.model_validate(
        as_document(
            {
                "now": NOW,
                "cluster": cluster,
                "tenants": [{"name": "t", "quota": {"gpu": int(rng.integers(1, 9)) * 1000}}],
                "jobs": [*running, *pending],
                "reservations": random_reservations(rng, cluster) if moving else [],
                "policy": random_policy(rng, cluster, moving=moving),
            }
        )
    )
    check_round(round_)
    return round_


def random_cluster(rng: np.random.Generator, *, moving: bool) -> Raw:
    levels = ["rack"] if rng.random() < 0.6 else []
    return {
        "levels": levels,
        "domains": [{"name": f"r{i}", "level": level} for level in levels for i in (0, 1)],
        "hosts": [
            {
                "name": f"h{i}",
                "parent": f"r{rng.integers(2)}" if levels else None,
                "gpus": int(rng.integers(1, 5)),
                "gpu_model": "AB"[min(i, rng.integers(2))],
                "cpu": int(rng.choice([4, 6, 8])),
                "memory": int(rng.choice([8, 16])),
                "healthy": not (moving and rng.random() < 0.1),
            }
            for i in range(rng.choice([1, 2, 2, 3, 3]) if moving else rng.integers(1, 4))
        ],
    }


def random_option(rng: np.random.Generator, cluster: Raw, sizes: list[int], most: int) -> Raw:
    """An option of one group of up to `most` tasks, or of two if `most` is 2."""
    number = rng.choice([1, 1, 1, 2]) if most == 2 else 1
    return {
        "groups": [random_group(rng, cluster, sizes, most) for _ in range(number)],
        "value": None if rng.random() < 0.7 else int(rng.integers(0, 6)) * 700,
    }


def random_group(rng: np.random.Generator, cluster: Raw, sizes: list[int], most: int) -> Raw:
    group: Raw = {
        "gpu": int(rng.choice(sizes)),
        "count": int(rng.choice([1, 1, *range(2, most + 1)])),
        "cpu": int(rng.choice([0, 1, 2, 3, 5])),
        "memory": int(rng.choice([0, 0, 2, 5, 9])),
    }
    if rng.random() < 0.2:
        group["gpu_models"] = ["A"]
    if rng.random() < 0.3:
        group["required"] = str(rng.choice([*cluster["levels"], "host"]))
    return group


def random_running(rng: np.random.Generator, cluster: Raw, sizes: list[int]) -> list[Raw]:
    """Up to 3 jobs on what is free when their turn comes, also on failed hosts."""
    resources = {host["name"]: [host["cpu"], host["memory"]] for host in cluster["hosts"]}
    free = {host["name"]: [1000] * host["gpus"] for host in cluster["hosts"]}
    jobs: list[Raw] = []
    for number in range(rng.choice([1, 2, 3, 3])):
        option = random_option(rng, cluster, sizes, 2)
        tasks = random_places(rng, cluster, option, resources, free)
        if not tasks:
            continue
        running: Raw = {
            "tasks": tasks,
            "pinned": bool(rng.random() < 0.15),
            "checkpoint": [None, NOW, NOW - 1, NOW - 3][rng.integers(4)],
            "restart_s": int(rng.integers(3)),
        }
        for cost in ("migrate_cost", "preempt_cost"):
            if rng.random() < 0.2:
                running[cost] = int(rng.choice([0, 500, 3000]))
        jobs.append(
            {
                "name": f"running-{number}",
                "tenant": "t" if rng.random() < 0.3 else None,
                "options": [option],
                "priority": int(rng.choice([0, 0, 0, 1, 2])),
                "weight": int(rng.integers(2)),
                "running": running,
            }
        )
    return jobs


def random_places(
    rng: np.random.Generator,
    cluster: Raw,
    option: Raw,
    resources: dict[str, list[int]],
    free: dict[str, list[int]],
) -> list[Raw]:
    """Take places for as many tasks of an option as find one; it has only those from now on."""
    tasks: list[Raw] = []
    placed: list[Raw] = []
    for group in option["groups"]:
        group.update(cpu=min(group["cpu"], 2), memory=min(group["memory"], 5))
        share, asked = min(group["gpu"], 1000), -(-group["gpu"] // 1000)
        mine: list[Raw] = []
        while len(mine) < group["count"]:
            places = [
                (host["name"], chosen)
                for host in cluster["hosts"]
                if host["gpu_model"] in group.get("gpu_models", "AB")
                and resources[host["name"]][0] >= group["cpu"]
                and resources[host["name"]][1] >= group["memory"]
                for chosen in combinations(
                    [i for i, left in enumerate(free[host["name"]]) if left >= share], asked
                )
            ]
            if not places:
                break
            name, chosen = places[rng.integers(len(places))]
            resources[name][0] -= group["cpu"]
            resources[name][1] -= group["memory"]
            for gpu in chosen:
                free[name][gpu] -= share
            mine.append({"group": len(placed), "index": len(mine), "host": name, "gpus": chosen})
        if mine:
            tasks += mine
            placed.append({**group, "count": len(mine)})
    option["groups"] = placed
    return tasks


def random_reservations(rng: np.random.Generator, cluster: Raw) -> list[Raw]:
    """Mostly none, or one of a host or of some of its GPUs."""
    if rng.random() < 0.75:
        return []
    host = cluster["hosts"][rng.integers(len(cluster["hosts"]))]
    some = [gpu for gpu in range(host["gpus"]) if rng.random() < 0.5]
    return [{"host": host["name"], "gpus": some or None}]


def random_policy(rng: np.random.Generator, cluster: Raw, *, moving: bool) -> Raw:
    """Terms that the cluster has in some order, those first that may be large in any round."""
    policy: Raw = {}
    goals = ["value"]
    if moving and rng.random() < 0.35:
        names = [host["name"] for host in cluster["hosts"]]
        policy["vacate"] = [str(name) for name in rng.permutation(names)[: rng.integers(1, 3)]]
        goals.append("remaining")
    if moving and rng.random() < 0.35:
        level = str(rng.choice([*cluster["levels"], "host"]))
        policy["freeing"] = {"level": level, "gpu_worth_s": int(rng.integers(1, 7))}
        goals.append("freed")
    later = LATER if moving else ["spread", "opened"]
    later = list(rng.permutation(later))[: rng.integers(1, 4)]
    terms = [*rng.permutation(goals), *later]
    if rng.random() < 0.2:
        terms = list(rng.permutation(terms))
    return {**policy, "terms": [str(term) for term in terms]}
