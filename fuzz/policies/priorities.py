"""Policy `gang` in crowded rounds: three priorities, quotas, and jobs of low priority that run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple

from fuzz.book.gangs import plans
from fuzz.drawing import NOW, chance, costs, numbers_of_hosts, settle
from fuzz.drawing_caps import draw_caps, draw_leave
from fuzz.policies import gang
from fuzz.policy import Raw

PRIORITIES = (0, 1, 1, 2, 2)
LOW = (0, 0, 0, 0, 1, 1)
TERMS = ("disruption", "spread", "opened", "progress", "proximity", "leftover", "entitled", "share")
SIZES = (300, 500, 500, 700, 1000, 1000, 1000, 1000, 2000, 2000)
UNKNOWN = "unknown"
MAX_PLANS = 400
"""Fewer than elsewhere: many rounds are to be played, and the largest take most of the time."""


class Size(NamedTuple):
    """What numbers of hosts, jobs and running jobs are drawn from, and quotas in milli-GPU."""

    hosts: Sequence[int] = (1, 2, 2, 2, 3)
    jobs: Sequence[int] = (3, 3, 4, 4, 5, 5)
    running: Sequence[int] = (0, 1, 1, 2, 2, 3, 3)
    quotas: Sequence[int] = (1000, 2000, 2000, 3000, 4000)


TINY = Size()


def draw(rng: Random, size: Size = TINY) -> Raw:
    """Hosts that jobs crowd; some of these run. With a size of its own it is not tiny."""
    cluster, tenants = _cluster(rng, size.hosts), _tenants(rng, size.quotas)
    round_: Raw = {"now": NOW, "cluster": cluster, "tenants": tenants, "jobs": []}
    number = rng.choice(size.jobs)
    jobs = [_job(rng, round_, i) for i in range(number)]
    running = jobs[: rng.choice(size.running)]
    for job in running:
        job["priority"] = rng.choice(LOW)
    settle(rng, round_, running)
    for job in round_["jobs"]:
        costs(rng, job["running"])
    round_["jobs"] += [job for job in jobs if "running" not in job]
    rng.shuffle(round_["jobs"])
    round_["policy"] = _policy(rng, round_)
    if chance(rng, 0.1):
        host = rng.choice(round_["cluster"]["hosts"])
        entry = {"host": host["name"]}
        round_["reservations"] = [entry if chance(rng, 0.4) else {**entry, "gpus": [0]}]
    pending = [job for job in round_["jobs"] if "running" not in job]
    if pending and chance(rng, 0.1):
        _spoil(rng, rng.choice(pending))
    _queue(rng, round_, pending)
    if chance(rng, 0.3):
        draw_caps(rng, round_, size.quotas)
    if chance(rng, 0.15):
        draw_leave(rng, round_)
    return round_


def _queue(rng: Random, round_: Raw, pending: list[Raw]) -> None:
    """Let jobs have waited for a while, let few of them wait on, and values grow with age."""
    for job in pending:
        if chance(rng, 0.5):
            job["submitted"] = NOW - rng.choice((0, 3, 10, 30))
        if chance(rng, 0.06):
            job["not_before"] = NOW + rng.choice((-5, 0, 5))
        if chance(rng, 0.03):
            job["held"] = True
    if chance(rng, 0.12):
        aging = {"doubles_after_s": rng.choice((1, 10, 30)), "limit": rng.choice((2, 10))}
        round_["policy"]["aging"] = aging


def _cluster(rng: Random, numbers: Sequence[int]) -> Raw:
    racks = rng.choice((0, 0, 0, 2))
    kinds = [_host(rng) for _ in range(rng.choice((1, 1, 2)))]
    hosts = []
    for i in range(rng.choice(numbers)):
        host = {"name": f"h{i}", **rng.choice(kinds)}
        if racks:
            host["parent"] = f"r{rng.randrange(racks)}"
        if chance(rng, 0.05):
            host["healthy"] = False
        hosts.append(host)
    domains = [{"name": f"r{i}", "level": "rack"} for i in range(racks)]
    return {"levels": ["rack"] if racks else [], "domains": domains, "hosts": hosts}


def _host(rng: Random) -> Raw:
    return {
        "gpus": rng.choice((1, 2, 2, 2, 2, 3, 4)),
        "gpu_model": rng.choice("AAB"),
        "cpu": rng.choice((2, 4, 4, 6)),
        "memory": rng.choice((3, 4, 6)),
    }


def _tenants(rng: Random, quotas: Sequence[int]) -> list[Raw]:
    tenants: list[Raw] = []
    for name in ("t0", "t1"):
        tenant: Raw = {"name": name}
        if chance(rng, 0.5):
            tenant["quota"] = {"gpu": rng.choice(quotas)}
            if chance(rng, 0.3):
                tenant["quota"]["cpu"] = rng.choice((1, 2, 3))
        if chance(rng, 0.15):
            most = tenant.get("quota", {}).get("gpu", 2000)
            tenant["guarantee"] = {"gpu": rng.choice((500, most // 2, most))}
        if chance(rng, 0.15):
            tenant["weight"] = 2
        tenants.append(tenant)
    return tenants


def _job(rng: Random, round_: Raw, number: int) -> Raw:
    options = [_option(rng, round_["cluster"]) for _ in range(rng.choice((1, 1, 1, 1, 2)))]
    job: Raw = {"name": f"j{number}", "options": options, "priority": rng.choice(PRIORITIES)}
    if chance(rng, 0.9):
        job["tenant"] = rng.choice(round_["tenants"])["name"]
        if chance(rng, 0.08):
            job["opportunistic"] = True
    if chance(rng, 0.15):
        job["weight"] = rng.choice((0, 2, 3))
    if chance(rng, 0.06):
        level = (*round_["cluster"]["levels"], "host")[0]
        job["anti_affinity"] = {"label": "service", "level": level}
    return job


def _option(rng: Random, document: Raw) -> Raw:
    option: Raw = {"groups": [_group(rng, document) for _ in range(rng.choice((1,) * 7 + (2,)))]}
    if chance(rng, 0.2):
        option["value"] = rng.choice((0, 500, 1500, 2500, 4000))
    if chance(rng, 0.2):
        option["progress"] = rng.choice((1, 3))
    if chance(rng, 0.08):
        numbers_of_hosts(rng, option)
    return option


def _group(rng: Random, document: Raw) -> Raw:
    levels = (*document["levels"], "host")
    group: Raw = {
        "gpu": rng.choice(SIZES),
        "cpu": rng.choice((0, 0, 0, 1, 1, 2)),
        "memory": rng.choice((0, 0, 0, 1, 1, 2)),
    }
    count = rng.choice((1, 1, 1, 1, 2, 2, 3))
    if count > 1:
        group["count"] = count
        if chance(rng, 0.15):
            group["required"] = rng.choice(levels)
        if chance(rng, 0.08):
            group["apart"] = {"level": rng.choice(levels)}
    if chance(rng, 0.08):
        group["gpu_models"] = [rng.choice(document["hosts"])["gpu_model"]]
    if chance(rng, 0.08):
        group["hosts"] = [rng.choice(document["hosts"])["name"]]
    return group


def _policy(rng: Random, round_: Raw) -> Raw:
    terms = rng.sample(TERMS, rng.choice((0, 0, 1, 1, 2)))
    terms.insert(0 if chance(rng, 0.85) else rng.randint(0, len(terms)), "value")
    policy: Raw = {"terms": terms}
    if chance(rng, 0.15):
        policy["priority"] = "preemption"
    if chance(rng, 0.06):
        policy["vacate"] = [rng.choice(round_["cluster"]["hosts"])["name"]]
        terms.insert(rng.randint(0, len(terms)), "remaining")
    if chance(rng, 0.25):
        policy["limits"] = {"disruption": gang.disruption_limits(rng)}
    return policy


def _spoil(rng: Random, job: Raw) -> None:
    """Let a job name something that is not there."""
    group = rng.choice(rng.choice(job["options"])["groups"])
    match rng.randrange(4):
        case 0:
            job["tenant"] = UNKNOWN
        case 1:
            group["required"] = UNKNOWN
        case 2:
            group["gpu_models"] = [UNKNOWN]
        case _:
            group["hosts"] = [UNKNOWN]


POLICY = replace(gang.POLICY, name="priorities", draw=draw, plans=partial(plans, most=MAX_PLANS))
