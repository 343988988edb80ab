"""Drawing of pools: what racks, hosts or all of a tiny cluster share, and who takes of it."""

from __future__ import annotations

from random import Random

from fuzz.drawing import chance
from fuzz.policy import Raw

POWER, TREES = "power", "trees"
"""A resource that each task takes, and one that a job takes once in each domain."""


def draw_pools(rng: Random, round_: Raw, times: int = 1) -> None:
    """Give a cluster one to four pools, and let its jobs take of them.

    What runs may hold more than there is. Now and then a host lists the resource, too. Pools of
    more than one host have up to `times` as much as those of a tiny round.
    """
    cluster = round_["cluster"]
    levels = [None, *cluster["levels"], "host"]
    names = [name for name in (POWER, TREES) if chance(rng, 0.6)] or [rng.choice((POWER, TREES))]
    cluster["pools"] = [
        _pool(
            rng, cluster, name, level, 1 if level == "host" or times == 1 else rng.randint(1, times)
        )
        for name in names
        for level in rng.sample(levels, min(len(levels), rng.choice((1, 1, 2))))
    ]
    rng.shuffle(cluster["pools"])
    for job in round_["jobs"]:
        for option in job["options"]:
            if TREES in names and chance(rng, 0.6):
                option["uses"] = {TREES: rng.choice((1, 1, 2))}
            for group in option["groups"] if POWER in names else ():
                if chance(rng, 0.7):
                    group["resources"] = {
                        **group.get("resources", {}),
                        POWER: rng.choice((1, 2, 2, 3)),
                    }
    for host in cluster["hosts"] if POWER in names else ():
        if chance(rng, 0.15):
            running = _running_power(round_, host["name"])
            most = max(running, rng.choice((1, 3, 4)))
            host["resources"] = {**host.get("resources", {}), POWER: most}


def _pool(rng: Random, cluster: Raw, name: str, level: str | None, times: int) -> Raw:
    pool: Raw = {"resource": name}
    usual = (0, 1, 2, 2, 3, 4, 5, 6) if name == POWER else (0, 1, 1, 2, 2, 3)
    amounts = [times * amount for amount in usual]
    pool["capacity"] = rng.choice(amounts)
    if name == TREES:
        pool["per"] = "job"
    if level is not None:
        pool["level"] = level
        domains = [domain["name"] for domain in cluster["domains"] if domain["level"] == level]
        if level == "host":
            domains = [host["name"] for host in cluster["hosts"]]
        if domains and chance(rng, 0.3):
            pool["domains"] = {rng.choice(domains): rng.choice(amounts)}
    return pool


def _running_power(round_: Raw, host: str) -> int:
    """Return what tasks on a host take of its power."""
    total = 0
    for job in round_["jobs"]:
        running = job.get("running", {"tasks": ()})
        groups = job["options"][running.get("option", 0)]["groups"]
        for task in running["tasks"]:
            if task["host"] == host:
                total += groups[task.get("group", 0)].get("resources", {}).get(POWER, 0)
    return total
