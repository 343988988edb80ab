"""Contention by enumeration: every plan of a tiny round of tasks of whole GPUs, without preemption.

Nobody may be preempted (all jobs have one priority), so a running job is kept or goes elsewhere.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from typing import Any

from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round

Raw = dict[str, Any]
Sites = tuple[tuple[str, ...], ...]
"""The host of each task, sorted, per group."""

SENSE = {"value": 1, "contention": -1, "spread": -1, "disruption": -1}


def tiny_round(rng: random.Random) -> Round:
    """Up to three jobs on up to five hosts of two levels; some jobs run, some of them pinned."""
    racks = rng.randint(1, 4)
    names = [f"h{i}" for i in range(rng.randint(3, 5))]
    rack = {
        name: f"r{i % racks if i < racks else rng.randrange(racks)}" for i, name in enumerate(names)
    }
    gpus = {name: rng.choice([1, 2, 2]) for name in names}
    levels = rng.sample(["block", "rack", "host"], rng.randint(1, 3))
    cluster: Raw = {
        "levels": ["block", "rack"],
        "domains": [
            {"name": "b0", "level": "block"},
            {"name": "b1", "level": "block"},
            *({"name": f"r{i}", "level": "rack", "parent": f"b{i % 2}"} for i in range(racks)),
        ],
        "hosts": [
            {
                "name": n,
                "parent": rack[n],
                "gpus": gpus[n],
                "gpu_model": "G",
                "model": rng.choice([None, None, "dgx-a100"]),
            }
            for n in names
        ],
        "links": {
            level: {"bandwidth_mbps": rng.choice([30, 50, 100, 150]), "latency_us": 1.0}
            for level in levels
        },
    }
    free = {name: list(range(gpus[name])) for name in names}
    jobs: list[Raw] = []
    for i in range(rng.randint(1, 3)):
        groups = []
        for _ in range(rng.choice([1, 1, 1, 2]) if not i else 1):
            group: Raw = {"gpu": 1, "count": rng.choice([1, 2, 2, 3, 3, 4])}
            rate = rng.choice([None, 60, 60, 100, 170])
            if rate is not None:
                group["communication"] = {"rate_mbps": rate}
            if rng.random() < 0.15:
                group["required"] = rng.choice(["rack", "block"])
            groups.append(group)
        job: Raw = {"name": f"j{i}", "options": [{"groups": groups}]}
        if rng.random() < 0.5 and not any("required" in group for group in groups):
            tasks = _run(rng, free, groups)
            if tasks:
                job["running"] = {"option": 0, "tasks": tasks, "restart_s": rng.choice([0, 0, 5])}
                job["running"]["pinned"] = rng.random() < 0.3
        jobs.append(job)
    terms = rng.choice(
        [
            ["value", "contention"],
            ["contention", "value"],
            ["value", "spread", "contention"],
            ["value", "contention", "spread"],
            ["value", "disruption", "contention"],
            ["value", "contention", "disruption"],
        ]
    )
    round_ = Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": {"terms": terms}})
    check_round(round_)
    return round_


def _run(rng: random.Random, free: dict[str, list[int]], groups: list[Raw]) -> list[Raw]:
    """Put a job on free GPUs; nothing if it does not fit."""
    spots = [(name, gpu) for name, left in free.items() for gpu in left]
    if sum(group["count"] for group in groups) > len(spots):
        return []
    rng.shuffle(spots)
    tasks = []
    for g, group in enumerate(groups):
        for index in range(group["count"]):
            host, gpu = spots.pop()
            free[host].remove(gpu)
            tasks.append({"group": g, "index": index, "host": host, "gpus": [gpu]})
    return tasks


def attainable(round_: Round) -> set[tuple[int, ...]]:
    """The term values of every plan, in the policy's order."""
    cluster, jobs = round_.cluster, round_.jobs
    parent = {domain.name: domain.parent for domain in cluster.domains}
    path = {
        h.name: {"host": h.name, "rack": h.parent, "block": parent[str(h.parent)]}
        for h in cluster.hosts
    }
    nics = {h.name for h in cluster.hosts if h.model is not None}
    gpus = {h.name: h.gpus or 0 for h in cluster.hosts}
    found = set()
    for chosen in product(*(list(_ways(job, path)) for job in jobs)):
        held = Counter(h for _, sites in chosen for group in sites for h in group)
        if any(n > gpus[h] for h, n in held.items()):
            continue
        every = [(job, sites) for job, (_, sites) in zip(jobs, chosen, strict=True)]
        kept = [
            (job, sites) for job, (fate, sites) in zip(jobs, chosen, strict=True) if fate == "kept"
        ]
        values = {
            "value": sum(
                job.value_of(0)
                for job, (fate, _) in zip(jobs, chosen, strict=True)
                if fate == "started"
            ),
            "contention": _excess(round_, every, path, nics) - _excess(round_, kept, path, nics),
            "spread": sum(
                _spread(round_, job, sites, path)
                for job, (fate, sites) in zip(jobs, chosen, strict=True)
                if fate in ("started", "moved")
            ),
            "disruption": sum(
                _moved(job, sites)
                for job, (fate, sites) in zip(jobs, chosen, strict=True)
                if fate == "moved"
            ),
        }
        found.add(tuple(values[term] for term in round_.policy.terms))
    return found


def best_of(terms: tuple[str, ...], values: set[tuple[int, ...]]) -> tuple[int, ...]:
    """The lexicographic optimum."""
    return max(values, key=lambda v: [SENSE[t] * x for t, x in zip(terms, v, strict=True)])


def _ways(job: Any, path: dict[str, Any]) -> Iterator[tuple[str, Sites]]:
    groups = job.options[0].groups
    now = None
    if job.running is not None:
        now = tuple(
            tuple(sorted(t.host for t in job.running.tasks if t.group == g))
            for g in range(len(groups))
        )
        yield "kept", now
        if job.running.pinned:
            return
    else:
        yield "waits", ()
    places = [list(combinations_with_replacement(sorted(path), g.count)) for g in groups]
    for sites in product(*places):
        if sites != now and all(
            g.required is None or len({path[h][g.required] for h in hosts}) == 1
            for g, hosts in zip(groups, sites, strict=True)
        ):
            yield ("started" if now is None else "moved"), sites


def _excess(round_: Round, jobs: Any, path: dict[str, Any], nics: set[str]) -> int:
    load: defaultdict[tuple[str, str], int] = defaultdict(int)
    for job, sites in jobs:
        for group, hosts in zip(job.options[0].groups, sites, strict=False):
            rate = group.communication.rate_mbps if group.communication else None
            for level in round_.cluster.links if rate else ():
                for domain in {path[h][level] for h in hosts}:
                    outside = any(path[h][level] != domain for h in hosts)
                    if outside and not (level == "host" and domain in nics):
                        load[level, domain] += rate
    return sum(
        max(0, mbps - round_.cluster.links[level].bandwidth_mbps)
        for (level, _), mbps in load.items()
    )


def _spread(round_: Round, job: Any, sites: Sites, path: dict[str, Any]) -> int:
    return sum(
        group.milli_gpu * weight * (len({path[h][level] for h in hosts}) - 1)
        for group, hosts in zip(job.options[0].groups, sites, strict=True)
        for level, weight in round_.spread_weights().items()
    )


def _moved(job: Any, sites: Sites) -> int:
    """The disruption of a job that goes elsewhere: its stop, and the tasks that move."""
    groups, running = job.options[0].groups, job.running
    stay = sum(
        min(n, Counter(sites[g])[h])
        for g in range(len(groups))
        for h, n in Counter(t.host for t in running.tasks if t.group == g).items()
    )
    tasks = sum(group.count for group in groups)
    return 1000 * tasks * running.restart_s + 1000 * (tasks - stay)
