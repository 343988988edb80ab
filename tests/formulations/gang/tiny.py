"""Hypothesis strategies of tiny rounds that touch every rule of gang placement."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import strategies as st

from fuzz.small_units import as_document
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round

TERMS = ("value", "spread", "proximity", "opened", "leftover")
SHARES = (200, 300, 400, 500, 600, 700)
WHOLES = (1000, 1000, 2000, 1000, 2000, 3000, 4000, 1000, 2000, 0)
TREES: tuple[tuple[str, ...], ...] = ((), ("rack",), ("block", "rack"))
PRESETS = {
    "drain": ("remaining", "disruption", "value", "spread", "opened"),
    "hot_swap": ("remaining", "disruption", "value", "spread", "opened"),
    "defragment": ("freed", "spread"),
    "minimal_victims": ("value", "disruption", "spread"),
}
Raw = dict[str, Any]


def chance(one_in: int) -> st.SearchStrategy[bool]:
    """True in one of that many draws, and seldom when a failing round is made smaller."""
    return st.integers(0, one_in - 1).map(lambda n: n == one_in - 1)


@st.composite
def clusters(draw: st.DrawFn, *, scarce: bool) -> Raw:
    """2 to 4 hosts of 1 to 4 GPUs, of up to three kinds, in up to three racks and two blocks.

    With `scarce` 1 or 2 hosts of 1 or 2 GPUs.
    """
    levels = draw(st.sampled_from(TREES))
    racks = [f"r{i}" for i in range(draw(st.integers(1, 3)))] if levels else [None]
    domains = [{"name": f"b{i}", "level": "block"} for i in range(2)] if len(levels) == 2 else []
    for i, rack in enumerate(racks if levels else []):
        above = {"parent": f"b{i % 2}"} if len(levels) == 2 else {}
        domains.append({"name": rack, "level": "rack", **above})
    kinds = [
        {
            "gpus": draw(st.sampled_from([1, 2] if scarce else [4, 4, 3, 2, 1])),
            "gpu_model": draw(st.sampled_from("AB")),
            "cpu": draw(st.sampled_from([8, 6, 4])),
            "memory": draw(st.sampled_from([16, 8])),
            "resources": {"nic": draw(st.sampled_from([2, 1]))},
        }
        for _ in range(draw(st.integers(1, 3)))
    ]
    hosts = [
        {
            **draw(st.sampled_from(kinds)),
            "name": f"h{i}",
            "parent": draw(st.sampled_from(racks)),
            "healthy": not draw(chance(7)),
        }
        for i in range(draw(st.sampled_from([1, 2] if scarce else [3, 2, 4, 3])))
    ]
    return {"levels": levels, "domains": domains, "hosts": hosts}


@st.composite
def groups(draw: st.DrawFn, cluster: Raw, most: int, sizes: tuple[int, ...]) -> Raw:
    """Up to `most` tasks that want one of the sizes."""
    levels = [*cluster["levels"], "host"]
    models = sorted({host["gpu_model"] for host in cluster["hosts"]})
    group: Raw = {
        "gpu": draw(st.sampled_from(sizes)),
        "count": draw(st.integers(1, most)),
        "cpu": draw(st.sampled_from([0, 1, 2, 0, 3, 5])),
        "memory": draw(st.sampled_from([0, 0, 2, 0, 5, 9])),
    }
    if draw(chance(6)):
        group["resources"] = {"nic": 1}
    if draw(chance(3)):
        group["gpu_models"] = draw(st.lists(st.sampled_from(models), min_size=1, unique=True))
    if draw(chance(3)):
        group["required"] = draw(st.sampled_from(levels))
    if draw(chance(4)):
        group["preferred"] = draw(st.lists(st.sampled_from(levels), unique=True))
    return group


@st.composite
def options(draw: st.DrawFn, cluster: Raw, *, scarce: bool) -> Raw:
    """One or two task groups; mostly worth what they ask."""
    number = draw(st.sampled_from([1, 1, 1, 2]))
    most = 1 if scarce else 3 if number == 1 else 2
    sizes = SHARES if scarce else WHOLES + SHARES
    option: Raw = {"groups": [draw(groups(cluster, most, sizes)) for _ in range(number)]}
    if draw(chance(4)):
        option["value"] = draw(st.integers(0, 5)) * 700
    return option


@st.composite
def running(draw: st.DrawFn, cluster: Raw, tenants: list[Raw]) -> list[Raw]:
    """Up to two pinned jobs of one task, where the GPUs are still free, also on failed hosts."""
    free = {host["name"]: [1000] * host["gpus"] for host in cluster["hosts"]}
    jobs = []
    for i in range(draw(st.sampled_from([0, 0, 1, 2]))):
        host = draw(st.sampled_from(cluster["hosts"]))["name"]
        gpu = draw(st.sampled_from([1000, 400, 700, 2000]))
        open_gpus = [g for g, left in enumerate(free[host]) if left >= min(gpu, 1000)]
        chosen = open_gpus[: max(1, gpu // 1000)]
        if len(chosen) < max(1, gpu // 1000):
            continue
        for g in chosen:
            free[host][g] -= min(gpu, 1000)
        jobs.append(
            {
                "name": f"running-{i}",
                "tenant": draw(st.sampled_from([None, *(t["name"] for t in tenants)])),
                "options": [{"groups": [{"gpu": gpu, "cpu": 1, "memory": 1}]}],
                "running": {"tasks": [{"host": host, "gpus": chosen}], "pinned": True},
            }
        )
    return jobs


@st.composite
def rounds(draw: st.DrawFn, *, terms: tuple[str, ...] = TERMS, jobs: int = 5) -> Round:
    """A tiny round with 1 to `jobs` pending jobs and some of `terms`, `value` mostly first.

    One in three is scarce: few GPUs, and tasks that want shares of them.
    """
    scarce = draw(chance(3))
    cluster = draw(clusters(scarce=scarce))
    tenants = []
    if draw(chance(3)):
        quota = {"gpu": draw(st.integers(1, 5)) * 1000}
        if draw(st.booleans()):
            quota["cpu"] = draw(st.integers(2, 9))
        tenants = [{"name": "tenant", "quota": quota}]
    templates = [
        [draw(options(cluster, scarce=scarce)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
        for _ in range(draw(st.sampled_from([4, 3] if scarce else [2, 1, 3])))
    ]
    pending = [
        {
            "name": f"job-{i}",
            "tenant": draw(st.sampled_from([None, *(t["name"] for t in tenants)])),
            "priority": draw(st.integers(0, 2)),
            "weight": draw(st.sampled_from([1, 1, 2])),
            "options": draw(st.sampled_from(templates)),
        }
        for i in range(draw(st.sampled_from([*range(jobs, 0, -1), jobs])))
    ]
    order = draw(st.permutations(terms))[: draw(st.integers(1, len(terms)))]
    if not draw(chance(5)):
        order = ["value", *(term for term in order if term != "value")]
    policy: Raw = {"terms": order, "priority": "preemption"}
    if draw(chance(3)):
        levels = [*cluster["levels"], "host"]
        policy["spread_weights"] = {level: draw(st.integers(0, 3)) for level in levels}
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": cluster,
                "tenants": tenants,
                "jobs": [*draw(running(cluster, tenants)), *pending],
                "policy": policy,
            }
        )
    )
    check_round(round_)
    return round_


@st.composite
def gangs(
    draw: st.DrawFn,
    cluster: Raw,
    tenants: list[Raw],
    priorities: list[int],
    weights: list[int],
    kinds: list[tuple[int, ...]],
) -> Raw:
    """A job of one or two options, each of one or two tasks that mostly fit."""
    options = []
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        most = draw(st.sampled_from([2, 2, 1]))
        sizes = draw(st.sampled_from(kinds))
        option: Raw = {"groups": [draw(groups(cluster, most, sizes)) for _ in range(3 - most)]}
        for group in option["groups"] if draw(st.booleans()) else ():
            group.update(cpu=1, memory=min(group["memory"], 2))
        if draw(chance(4)):
            option["value"] = draw(st.integers(0, 5)) * 700
        options.append(option)
    return {
        "options": options,
        "tenant": draw(st.sampled_from([None, *(t["name"] for t in tenants)])),
        "priority": draw(st.sampled_from(priorities)),
        "weight": draw(st.sampled_from(weights)),
    }


@st.composite
def movable(
    draw: st.DrawFn, cluster: Raw, tenants: list[Raw], now: int, kinds: list[tuple[int, ...]]
) -> list[Raw]:
    """Up to three jobs that run where they fit, also on failed hosts; some are pinned."""
    left = [
        {"cpu": host["cpu"], "memory": host["memory"], **host["resources"]}
        for host in cluster["hosts"]
    ]
    gpus = [[1000] * host["gpus"] for host in cluster["hosts"]]
    jobs = []
    for number in range(draw(st.sampled_from([3, 2, 3, 1]))):
        job = draw(gangs(cluster, tenants, [0, 0, 1, 0, 2], [1, 1, 0], kinds))
        option = draw(st.integers(0, len(job["options"]) - 1))
        before = [dict(host) for host in left], [list(host) for host in gpus]
        tasks = []
        for g, group in enumerate(job["options"][option]["groups"]):
            wants = {"cpu": group["cpu"], "memory": group["memory"], **group.get("resources", {})}
            share, asked = min(group["gpu"], 1000), -(-group["gpu"] // 1000)
            for index in range(group["count"]):
                places = [
                    (h, chosen)
                    for h, host in enumerate(cluster["hosts"])
                    if host["gpu_model"] in group.get("gpu_models", "AB")
                    and all(left[h][name] >= amount for name, amount in wants.items())
                    for chosen in combinations(
                        [i for i, free in enumerate(gpus[h]) if free >= share], asked
                    )
                ]
                if not places:
                    break
                h, chosen = draw(st.sampled_from(places))
                for name, amount in wants.items():
                    left[h][name] -= amount
                for i in chosen:
                    gpus[h][i] -= share
                host = cluster["hosts"][h]["name"]
                tasks.append({"group": g, "index": index, "host": host, "gpus": chosen})
        if len(tasks) < sum(group["count"] for group in job["options"][option]["groups"]):
            left, gpus = before
            continue
        # The oracles of this folder know of no other size.
        running: Raw = {"option": option, "tasks": tasks, "pinned": draw(chance(5)), "pin": "size"}
        running["checkpoint"] = draw(st.sampled_from([None, now, now - 1, now - 3]))
        running["started"] = now - 2
        running["restart_s"] = draw(st.integers(0, 2))
        for cost in ("migrate_cost", "preempt_cost"):
            if draw(chance(5)):
                running[cost] = draw(st.sampled_from([0, 500, 3000]))
        jobs.append({**job, "name": f"running-{number}", "running": running})
    return jobs


@st.composite
def running_rounds(draw: st.DrawFn, *, preset: str | None = None, whole: bool = False) -> Round:
    """A tiny round of 2 or 3 hosts whose running jobs may move or stop for 1 to 3 pending ones.

    With `preset` it is what that preset makes of a round; with `whole` all tasks take whole GPUs.
    """
    kinds = [tuple(filter(None, WHOLES))] if whole else [WHOLES, WHOLES, SHARES]
    cluster = draw(clusters(scarce=False))
    cluster["hosts"] = cluster["hosts"][:3]
    if draw(st.booleans()):
        for host in cluster["hosts"]:
            host["gpu_model"] = "A"
    names = [host["name"] for host in cluster["hosts"]]
    tenants = []
    if draw(chance(3)):
        tenants = [{"name": "tenant", "quota": {"gpu": draw(st.integers(1, 6)) * 1000}}]
    now = 10
    running = draw(movable(cluster, tenants, now, kinds))
    number = {"defragment": 0, "minimal_victims": 1}.get(preset or "", 3)
    number = draw(st.sampled_from([*range(min(number, 2), number + 1), min(number, 1)]))
    pending = [
        {**draw(gangs(cluster, tenants, [1, 2, 2, 0], [2, 1, 3], kinds)), "name": f"job-{i}"}
        for i in range(number)
    ]
    if preset == "defragment":
        for job in running:
            job["priority"] = 0
    if preset == "minimal_victims":
        pending[0]["priority"] = 2
        for job in running:
            job["weight"] = 0
            job["options"] = [{"groups": option["groups"]} for option in job["options"]]
    reservations = []
    if draw(chance(4)):
        host = draw(st.sampled_from(cluster["hosts"]))
        some = st.lists(st.integers(0, host["gpus"] - 1), min_size=1, unique=True)
        reservations = [{"host": host["name"], "gpus": draw(st.none() | some)}]
    policy: Raw = {"priority": "preemption"}
    goals = [] if preset in ("defragment", "minimal_victims") else ["value"]
    if preset in ("drain", "hot_swap") or (preset is None and draw(chance(3))):
        policy["vacate"] = draw(
            st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
        )
        goals.append("remaining")
    if preset == "defragment" or (preset is None and draw(chance(3))):
        level = draw(st.sampled_from([*cluster["levels"], "host"]))
        policy["freeing"] = {"level": level, "gpu_worth_s": draw(st.integers(1, 6))}
        goals.append("freed")
    if preset == "hot_swap":
        for host in cluster["hosts"]:
            host["healthy"] &= host["name"] not in policy["vacate"]
    if preset is None:
        goals = draw(st.permutations(goals))
        others = draw(st.permutations(["disruption", *(t for t in TERMS if t != "value")]))
        policy["terms"] = [*goals, *others[: draw(st.integers(0, 5))]]
        if draw(chance(6)):
            policy["terms"] = draw(st.permutations(policy["terms"]))
    else:
        policy["terms"] = PRESETS[preset]
    round_ = Round.model_validate(
        as_document(
            {
                "now": now,
                "cluster": cluster,
                "tenants": tenants,
                "jobs": [*running, *pending],
                "reservations": reservations,
                "policy": policy,
            }
        )
    )
    check_round(round_)
    return round_
