"""Hypothesis strategies of tiny rounds whose hosts share pools, per task and per job."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from fuzz.small_units import as_document
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from tests.formulations.gang.tiny import chance

Raw = dict[str, Any]
PER = {"watts": "task", "trees": "job"}


@st.composite
def clusters(draw: st.DrawFn, levels: tuple[str, ...]) -> Raw:
    """2 to 4 hosts in two racks, in one or two blocks; some hosts list watts.

    Hosts have 1 to 4 GPUs, or all have 4, so that jobs compete for pools alone.
    """
    sizes = draw(st.sampled_from([[2, 4, 1, 3], [4]]))
    domains: list[Raw] = []
    for i in range(2):
        if "block" in levels:
            domains.append({"name": f"b{i}", "level": "block"})
        above = {"parent": f"b{draw(st.integers(0, i))}"} if "block" in levels else {}
        domains.append({"name": f"r{i}", "level": "rack", **above})
    hosts = []
    for i in range(draw(st.sampled_from([3, 2, 4, 3]))):
        host: Raw = {
            "name": f"h{i}",
            "parent": f"r{draw(st.integers(0, 1))}",
            "gpus": draw(st.sampled_from(sizes)),
            "gpu_model": "A",
            "healthy": not draw(chance(9)),
        }
        if draw(chance(5)):
            host["resources"] = {"watts": draw(st.integers(0, 3))}
        hosts.append(host)
    return {"levels": levels, "domains": domains, "hosts": hosts, "pools": draw(pools(levels))}


@st.composite
def pools(draw: st.DrawFn, levels: tuple[str, ...]) -> list[Raw]:
    """Pools of two resources, each on some levels, for the whole cluster, or on both."""
    found = []
    for resource, per in PER.items():
        least = 0 if draw(chance(4)) else 1
        some = st.sampled_from([*levels, "rack", None, "host"])
        where = draw(st.sets(some, min_size=least, max_size=2))
        for level in sorted(where, key=str):
            pool: Raw = {"resource": resource, "per": per, "level": level}
            pool["capacity"] = draw(st.sampled_from([2, 3, 4, 1, 0])) + 2 * (level is None)
            if level == "rack" and draw(chance(3)):
                pool["domains"] = {"r1": draw(st.integers(0, 4))}
            found.append(pool)
    return found


@st.composite
def options(draw: st.DrawFn, cluster: Raw) -> Raw:
    """One group of one or two tasks, or two groups of one."""
    most = draw(st.sampled_from([2, 2, 1]))
    levels, per_job = [*cluster["levels"], "host"], {p["resource"] for p in cluster["pools"]}
    ample = all(host["gpus"] == 4 for host in cluster["hosts"])
    groups = []
    for _ in range(3 - most):
        group: Raw = {
            "gpu": draw(st.sampled_from([1, 0] if ample else [1, 1, 2, 1, 2, 0])) * 1000,
            "count": draw(st.integers(1, most)),
        }
        if watts := draw(st.sampled_from([1, 2, 0, 1])):
            group["resources"] = {"watts": watts}
        if draw(chance(4)):
            group["required"] = draw(st.sampled_from(levels))
        groups.append(group)
    option: Raw = {"groups": groups}
    if "trees" in per_job and (trees := draw(st.sampled_from([1, 1, 2, 0]))):
        option["uses"] = {"trees": trees}
    if draw(chance(4)):
        option["value"] = draw(st.integers(0, 5)) * 700
    return option


class Room:
    """What hosts have left for the jobs that run, whatever the pools have."""

    def __init__(self, cluster: Raw) -> None:
        self.rack = {host["name"]: host["parent"] for host in cluster["hosts"]}
        self.gpus = {host["name"]: list(range(host["gpus"])) for host in cluster["hosts"]}
        unlisted = 99 if any(pool["resource"] == "watts" for pool in cluster["pools"]) else 0
        self.watts = {
            host["name"]: host.get("resources", {}).get("watts", unlisted)
            for host in cluster["hosts"]
        }

    def places(self, group: Raw, mine: list[str]) -> list[str]:
        """Return the hosts of a further task of a group, whose others are on some hosts."""
        apart = {"host": lambda h: h, "rack": self.rack.get, "block": self.rack.get}
        of = apart.get(group.get("required", ""), lambda _: None)
        return [
            host
            for host, gpus in self.gpus.items()
            if len(gpus) * 1000 >= group["gpu"]
            and self.watts[host] >= group.get("resources", {}).get("watts", 0)
            and all(of(host) == of(other) for other in mine)
        ]

    def take(self, group: Raw, host: str) -> list[int]:
        """Return the GPUs of a task on a host."""
        self.watts[host] -= group.get("resources", {}).get("watts", 0)
        return sorted(self.gpus[host].pop(0) for _ in range(group["gpu"] // 1000))


@st.composite
def running(draw: st.DrawFn, cluster: Raw, number: int, ranks: list[int]) -> list[Raw]:
    """Up to `number` jobs that run; where the first one that finds no room would, none follows."""
    room, jobs = Room(cluster), []
    for i in range(number):
        option, tasks = draw(options(cluster)), []
        for g, group in enumerate(option["groups"]):
            mine: list[str] = []
            for index in range(group["count"]):
                if not (places := room.places(group, mine)):
                    return jobs
                mine.append(draw(st.sampled_from(places)))
                gpus = room.take(group, mine[-1])
                tasks.append({"group": g, "index": index, "host": mine[-1], "gpus": gpus})
        runs: Raw = {"tasks": tasks, "pinned": draw(chance(6))}
        for cost in ("migrate_cost", "preempt_cost"):
            runs[cost] = draw(st.sampled_from([0, 500, 3000]))
        priority, tenant = draw(st.sampled_from(ranks)), draw(st.sampled_from([None, "tenant"]))
        jobs.append(
            {
                "name": f"running-{i}",
                "options": [option],
                "priority": priority,
                "tenant": tenant,
                "running": runs,
            }
        )
    return jobs


@st.composite
def pool_rounds(draw: st.DrawFn, *, moves: bool = True) -> Round:
    """A tiny round with pools; with `moves` mostly of jobs that run and rank below others."""
    cluster = draw(clusters(draw(st.sampled_from([("rack",), ("block", "rack")]))))
    tenant: Raw = {"name": "tenant"}
    if draw(chance(4)):
        tenant["quota"] = {"gpu": draw(st.integers(1, 5)) * 1000}
    ranks = draw(st.sampled_from([[0, 0, 1], [0, 1, 2], [0]]))
    number = draw(st.sampled_from([2, 3, 1, 2])) if moves else draw(st.sampled_from([0, 1, 2]))
    jobs = draw(running(cluster, number, ranks))
    if not moves:
        for job in jobs:
            job["running"]["pinned"] = True
    templates = [
        [draw(options(cluster)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
        for _ in range(draw(st.sampled_from([2, 1, 3])))
    ]
    for i in range(draw(st.sampled_from([2, 3, 1] if moves else [3, 4, 2, 5]))):
        jobs.append(
            {
                "name": f"job-{i}",
                "options": draw(st.sampled_from(templates)),
                "priority": draw(st.sampled_from([1, 2, 2, 0] if moves else [0, 1])),
                "tenant": draw(st.sampled_from([None, "tenant"])),
                "weight": draw(st.sampled_from([1, 1, 2])),
            }
        )
    terms = draw(st.permutations(["disruption", "spread", "opened"]))[: draw(st.integers(0, 3))]
    policy: Raw = {
        "terms": ["value", *terms],
        "priority": draw(st.sampled_from(["preemption", "preemption", "strict"])),
    }
    if moves and draw(chance(3)):
        policy["vacate"] = [draw(st.sampled_from([host["name"] for host in cluster["hosts"]]))]
        policy["terms"].insert(draw(st.integers(0, 1)), "remaining")
    raw = {"cluster": cluster, "tenants": [tenant], "jobs": jobs, "policy": policy}
    round_ = Round.model_validate(as_document(raw))
    check_round(round_)
    return round_


def full_racks(rng: Random) -> Round:
    """Draw a tiny round in which running jobs fill the pool of each rack, and move for nothing.

    Hosts have a GPU or two, so that a higher job that moves takes the place of a lower one, and
    leaves its part of a pool.
    """
    racks = [f"r{i}" for i in range(rng.choice([2, 3]))]
    parents = [*racks, *rng.choices(racks, k=rng.choice([1, 2]))]
    hosts: list[Raw] = [
        {"name": f"h{i}", "parent": rack, "gpus": rng.choice([1, 1, 1, 2]), "gpu_model": "A"}
        for i, rack in enumerate(parents)
    ]
    per = rng.choice(["task", "job"])
    resource = next(name for name, counted in PER.items() if counted == per)

    def job(name: str, amount: int, count: int, value: int, priority: int) -> Raw:
        group: Raw = {"gpu": 1000, "count": count}
        option: Raw = {"groups": [group], "value": value}
        if amount:
            where, key = (group, "resources") if per == "task" else (option, "uses")
            where[key] = {resource: amount}
        return {"name": name, "priority": priority, "options": [option]}

    free = [(h, gpu) for h, host in enumerate(hosts) for gpu in range(host["gpus"])]
    rng.shuffle(free)
    held, jobs = dict.fromkeys(racks, 0), []
    for i in range(min(rng.choice([2, 3]), len(free) - 1)):
        (h, gpu), amount = free.pop(), rng.choice([0, 1, 1, 2])
        held[parents[h]] += amount
        one = job(f"running-{i}", amount, 1, rng.choice([700, 1400]), rng.choice([0, 1, 2]))
        tasks = [{"group": 0, "index": 0, "host": f"h{h}", "gpus": [gpu]}]
        one["running"] = {"tasks": tasks, "migrate_cost": 0, "preempt_cost": rng.choice([0, 500])}
        jobs.append(one)
    for i in range(rng.choice([1, 2, 3])):
        amount, count = rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
        jobs.append(job(f"job-{i}", amount, count, rng.choice([700, 4200]), rng.choice([0, 0, 1])))
    limits = {rack: amount or rng.choice([1, 2]) for rack, amount in held.items()}
    pool = {"resource": resource, "per": per, "level": "rack", "capacity": 1, "domains": limits}
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": rack, "level": "rack"} for rack in racks],
        "hosts": hosts,
        "pools": [pool],
    }
    policy = {"terms": ["value", "disruption"], "priority": "preemption"}
    round_ = Round.model_validate(as_document({"cluster": cluster, "jobs": jobs, "policy": policy}))
    check_round(round_)
    return round_
