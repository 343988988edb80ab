"""Tiny rounds of policy `deadline` by seed, as raw documents that `every_plan` understands.

Jobs run or wait, with up to two options of unlike size and speed; some are pinned, some have a
promise; hosts are away, unhealthy or reserved, and tenants have quotas.
"""

from __future__ import annotations

import random
from typing import Any

Raw = dict[str, Any]
LENGTH = 600
SPANNING = ([], [], [[2, 700]], [[2, 1500]], [[2, 500], [3, 900]])


def round_of(seed: int) -> Raw:
    """Draw a round; one in thirty or so refers to itself wrongly, which the loaders refuse."""
    rng = random.Random(seed)
    models = "AB" if rng.random() < 0.2 else "A"
    hosts: list[Raw] = [
        {
            "name": f"h{i}",
            "gpus": rng.choice([1, 2, 2, 3, 4]),
            "gpu_model": models[i % len(models)],
            "healthy": rng.random() < 0.9,
        }
        for i in range(rng.choice([1, 2, 2, 2, 3]))
    ]
    horizon = rng.randint(2, 5)
    free = {host["name"]: list(range(host["gpus"])) for host in hosts}
    jobs = [_job(rng, i, hosts, free, horizon) for i in range(rng.randint(1, 4))]
    quota = {"gpu": 1000 * rng.randint(1, 4)}
    return {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "now": 0,
        "cluster": {"hosts": hosts},
        "jobs": jobs,
        "tenants": [{"name": "t", "quota": quota}],
        "reservations": [{"host": rng.choice(hosts)["name"]}] if rng.random() < 0.08 else [],
        "leases": {
            "length_s": LENGTH,
            "horizon": horizon,
            "outages": [_outage(rng, hosts, horizon) for _ in range(rng.choice([0, 0, 0, 1, 2]))],
        },
        "policy": {"formulation": "deadline", "priority": "preemption"},
    }


def _outage(rng: random.Random, hosts: list[Raw], horizon: int) -> Raw:
    start = rng.choice([None, rng.randint(0, horizon * LENGTH)])
    end = rng.choice([None, rng.randint(1, horizon * LENGTH)])
    if start is not None and end is not None and end <= start:
        start, end = end, start + 1
    return {"host": rng.choice(hosts)["name"], "start": start, "end": end}


def _job(
    rng: random.Random, number: int, hosts: list[Raw], free: dict[str, list[int]], horizon: int
) -> Raw:
    options: list[Raw] = [
        {"groups": [{"gpu": 1000 * rng.choice([1, 1, 2, 2, 3]), "count": rng.choice([1, 1, 1, 2])}]}
        for _ in range(rng.choice([1, 2, 2]))
    ]
    made: Raw = {"name": f"j{number}", "options": options, "priority": rng.choice([0, 0, 0, 1])}
    if rng.random() < 0.15:
        options[-1]["groups"][0]["gpu_models"] = [rng.choice(hosts)["gpu_model"]]
    if rng.random() < 0.2:
        made["tenant"] = "t"
    if rng.random() < 0.65:
        option = rng.randrange(len(options))
        tasks = _tasks(rng, options[option]["groups"][0], hosts, free)
        if tasks:
            pinned = rng.random() < 0.12
            made["running"] = {"option": option, "tasks": tasks, "pinned": pinned}
    if rng.random() < 0.9:
        made["deadline"] = _deadline(rng, len(options), horizon)
        if "running" not in made and rng.random() < 0.15:
            made["deadline"]["ready"] = rng.randint(1, 900)
    return made


def _tasks(
    rng: random.Random, group: Raw, hosts: list[Raw], free: dict[str, list[int]]
) -> list[Raw]:
    """Take free GPUs for all tasks of a group; none if they do not fit."""
    left, tasks = {name: list(gpus) for name, gpus in free.items()}, list[Raw]()
    for index in range(group["count"]):
        able = [
            host["name"]
            for host in hosts
            if 1000 * len(left[host["name"]]) >= group["gpu"]
            and host["gpu_model"] in group.get("gpu_models", host["gpu_model"])
        ]
        if not able:
            return []
        host = rng.choice(able)
        gpus = [left[host].pop(0) for _ in range(group["gpu"] // 1000)]
        tasks.append({"index": index, "host": host, "gpus": gpus})
    free.update(left)
    return tasks


def _deadline(rng: random.Random, options: int, horizon: int) -> Raw:
    times = sorted(rng.sample(range(1, 6 * horizon + 2), rng.choice([0, 1, 1, 2])))
    values = sorted(rng.sample(range(1, 30), len(times)), reverse=True)
    spanning = rng.choice(SPANNING)
    made: Raw = {
        "work_s": rng.choice([1, 300, 590, 600, 700, 1190, 1200, 1500, 1800]),
        "due": [{"at": 100 * at, "value": value} for at, value in zip(times, values, strict=True)],
        "paces": [
            {
                "speed": rng.choice([500, 1000, 1000, 2000]),
                "overhead_s": rng.choice([0, 0, 30]),
                "spanning": spanning,
            }
            for _ in range(options)
        ],
    }
    if rng.random() < 0.5:
        at = 100 * rng.randint(1, 6 * horizon)
        made["promise"] = {"at": at, "value": rng.randint(1, 30)}
    return made
