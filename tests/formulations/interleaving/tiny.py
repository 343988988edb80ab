"""Random tiny rounds of interleaving that touch every rule of `sharing`, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from fuzz.small_units import as_document
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round

TERMS = ("throughput", "weighted_throughput", "efficiency")
RESOURCES = ("io", "cpu", "gpu", "network")
Raw = dict[str, Any]


def random_round(
    seed: int, *, jobs: int = 6, hosts: tuple[int, ...] = (1, 1, 1, 2, 3), running: bool = True
) -> Round:
    """A round with 3 to `jobs` jobs on one of so many hosts; with `running` some of them run."""
    rng = Random(seed)
    slots = rng.choice([3, 3, 4, 4, 2])
    spanning = slots == 3 and rng.random() < 0.6
    memory = rng.choice([None, 16, 24])
    cluster: Raw = {"hosts": [_host(rng, i, memory) for i in range(rng.choice(hosts))]}
    if rng.random() < 0.3:
        cluster |= {
            "levels": ["rack"],
            "domains": [{"name": f"r{i}", "level": "rack"} for i in (0, 1)],
        }
        for i, host in enumerate(cluster["hosts"]):
            host["parent"] = f"r{i % 2}"
    tenants = []
    if rng.random() < 0.3:
        tenants = [{"name": "tenant", "quota": {"gpu": rng.randint(1, 4) * 1000}}]
    classes = [_profile(rng, slots, memory) for _ in range(rng.randint(1, 5))]
    sizes = rng.choice([(1000,), (1000,), (1000, 1000, 1000, 2000), (1000, 2000), (2000,)])
    model = rng.choice(cluster["hosts"])["gpu_model"]
    entries = [
        _job(rng, i, classes, sizes, tenants, memory, model) for i in range(rng.randint(3, jobs))
    ]
    for entry in entries:
        if "levels" in cluster and rng.random() < 0.3:
            entry["options"][0]["groups"][0]["required"] = "rack"
    if running:
        _run(rng, cluster["hosts"], entries, memory)
    sharing: Raw = {"resources": RESOURCES[:slots], "spanning": spanning}
    if rng.random() < 0.5:
        sharing["contention"] = [rng.randint(10**6, 1_300_000) for _ in range(3)]
    if rng.random() < 0.2:
        sharing["most"] = rng.randint(2 if running else 1, 4)
    if rng.random() < 0.3:
        sharing["as_needed"] = True
    if rng.random() < 0.3:
        names = [entry["name"] for entry in entries if _shares(entry)]
        pairs = [(a, b) for a in names for b in names if a < b]
        sharing["conflicts"] = rng.sample(pairs, min(len(pairs), rng.randint(1, 3)))
    if rng.random() < 0.2:
        sharing["correlation"] = rng.choice([0, 300, 500, 1000])
    if rng.random() < 0.3:
        sharing["percentile"] = rng.choice([1, 50, 90])
    round_: Raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "cluster": cluster,
        "tenants": tenants,
        "jobs": entries,
        "sharing": sharing,
        "policy": {
            "formulation": "interleaving",
            "terms": [
                rng.choice(TERMS),
                *rng.choice([(), ("disruption",), ("disruption", "spread", "opened")]),
            ],
            "priority": "preemption",
        },
    }
    if rng.random() < 0.15:
        round_["reservations"] = [
            {"host": "h0"} if rng.random() < 0.4 else {"host": "h0", "gpus": [0]}
        ]
    return parse_round(as_document(round_))


def _host(rng: Random, number: int, memory: int | None) -> Raw:
    host: Raw = {
        "name": f"h{number}",
        "gpus": rng.choice([1, 1, 1, 2, 2, 4]),
        "gpu_model": rng.choice("AAB"),
        "cpu": rng.choice([4, 8, 16]),
        "memory": 64,
        "healthy": number == 0 or rng.random() > 0.2,
    }
    if memory is not None:
        host["gpu_memory"] = memory
    return host


def _profile(rng: Random, slots: int, memory: int | None) -> Raw:
    stages = [rng.choice([0, 0, rng.randint(1, 9), rng.randint(1, 30)]) for _ in range(slots)]
    stages[rng.randrange(slots)] += rng.randint(1, 20)
    profile: Raw = {"stages": stages}
    if rng.random() < 0.5:
        profile["iteration"] = max(1, round(sum(stages) * rng.uniform(0.7, 1.3)))
    if rng.random() < 0.2:
        profile["slowdown"] = rng.choice([1000, 1300, 1800, 2500])
    if rng.random() < 0.4:
        profile["load"] = [rng.randint(0, 3) * 100 for _ in range(rng.choice([1, 3, 3, 4]))]
    if memory is not None and rng.random() < 0.4:
        profile["memory"] = [rng.randint(0, memory * 2 // 3) for _ in range(rng.randint(1, 5))]
    return profile


def _job(
    rng: Random,
    number: int,
    classes: list[Raw],
    sizes: tuple[int, ...],
    tenants: list[Raw],
    memory: int | None,
    model: str,
) -> Raw:
    group: Raw = {
        "gpu": rng.choice(sizes),
        "cpu": rng.choice([0, 1, 2, 4]),
        "memory": rng.choice([0, 4, 20]),
    }
    job: Raw = {
        "name": f"j{number}",
        "priority": rng.choice([0, 0, 1, 2]),
        "weight": rng.choice([1, 1, 2, 5]),
        "tenant": rng.choice([None, *(tenant["name"] for tenant in tenants)]),
        "options": [{"groups": [group]}],
    }
    if rng.random() < 0.07:
        group["gpu_models"] = [model]
    if memory is not None and rng.random() < 0.5:
        group["gpu_memory"] = rng.randint(1, memory) // rng.choice([1, 2, 4])
    if rng.random() < 0.07:
        group["count"] = 2
    if rng.random() < 0.88:
        job["profile"] = dict(rng.choice(classes))
        if group.get("count", 1) == 1 and rng.random() < 0.2:
            cpu = group["cpu"] = 1 * group["gpu"] // 1000
            group["memory"] = 4 * group["gpu"] // 1000
            assert cpu
            job["profile"]["sensitivity"] = {
                "cores": [1, 2, 4],
                "memory": [4, 8],
                "speeds": _speeds(rng),
            }
        elif rng.random() < 0.15:
            job["options"].append({"groups": [{**group, "gpu": group["gpu"] * 2}]})
        if rng.random() < 0.05:
            job["anti_affinity"] = {"label": "apart", "level": "host"}
    elif rng.random() < 0.6:
        group.update(gpu=500)
    return job


def _speeds(rng: Random) -> list[list[int]]:
    top = 10**6
    rows = []
    for _ in range(3):
        rows.append([top, top + rng.choice([0, 200_000])])
        top = max(rows[-1]) + rng.choice([0, 500_000])
    return rows


def _shares(entry: Raw) -> bool:
    return "profile" in entry and "anti_affinity" not in entry


def _run(rng: Random, hosts: list[Raw], entries: list[Raw], memory: int | None) -> None:
    """Let some jobs run, alone or with others that ask the same."""
    free = {host["name"]: list(range(host["gpus"])) for host in hosts}
    left = {host["name"]: {"cpu": host["cpu"], "memory": host["memory"]} for host in hosts}
    places: list[tuple[Raw, list[Raw]]] = []
    for entry in entries:
        group = entry["options"][0]["groups"][0]
        if rng.random() < 0.5 or "sensitivity" in entry.get("profile", {}):
            continue
        host = rng.choice(hosts)
        name, needs = host["name"], max(group["gpu"] // 1000, 1)
        wants = {r: group[r] for r in ("cpu", "memory")}
        models = group.get("gpu_models")
        state = {"pinned": rng.random() < 0.2, "restart_s": rng.randint(0, 5)}
        same = [
            (one, members)
            for one, members in places
            if "profile" in one
            and "profile" in entry
            and "anti_affinity" not in one
            and "anti_affinity" not in entry
            and len(members) < 2
            and _alike(one["options"][0]["groups"][0], group)
        ]
        if same and rng.random() < 0.7:
            one, members = rng.choice(same)
            name = one["running"]["tasks"][0]["host"]
            size = sum(_size(e) for e in (one, *members, entry))
            more = max(0, group["cpu"] - one["options"][0]["groups"][0]["cpu"])
            if (
                more <= left[name]["cpu"]
                and wants["memory"] <= left[name]["memory"]
                and not members
                and size <= (memory or 0)
            ):
                left[name]["cpu"] -= more
                left[name]["memory"] -= wants["memory"]
                entry["running"] = {**state, "tasks": one["running"]["tasks"]}
                members.append(entry)
            continue
        count = group.get("count", 1)
        if len(free[name]) < needs * count or (models and host["gpu_model"] not in models):
            continue
        if any(wants[r] * count > left[name][r] for r in wants):
            continue
        for r, amount in wants.items():
            left[name][r] -= amount * count
        tasks = []
        for index in range(count):
            gpus = [free[name].pop(0) for _ in range(needs)]
            tasks.append({"index": index, "host": name, "gpus": gpus})
        entry["running"] = {**state, "tasks": tasks}
        places.append((entry, []))


def _alike(one: Raw, other: Raw) -> bool:
    return all(one.get(k) == other.get(k) for k in ("gpu", "count", "gpu_models", "required"))


def _size(entry: Raw) -> int:
    series = entry["profile"].get("memory")
    return max(series) if series else entry["options"][0]["groups"][0].get("gpu_memory", 0)
