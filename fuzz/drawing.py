"""Parts of tiny rounds, from a source of random numbers: clusters, task groups, what runs."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from fuzz.book.choices import KEEP, Choice
from fuzz.book.facts import CUT, CUT_MEMORY, Facts, Place
from fuzz.book.room import Room, every_place
from fuzz.policy import Raw

SHARES = (100, 250, 300, 400, 500, 600, 700, 900)
WHOLES = (1000, 1000, 1000, 2000, 2000, 3000)
TREES: tuple[tuple[str, ...], ...] = ((), ("rack",), ("block", "rack"))
NOW = 100


def chance(rng: Random, probability: float) -> bool:
    """Return true with a probability."""
    return rng.random() < probability


def cluster(rng: Random, most: int = 4, *, parts: bool = False, fabric: bool = False) -> Raw:
    """One to `most` hosts of one to three kinds, in up to two levels above them.

    With `fabric` the racks may be joined by a graph. With `parts` some hosts can be cut into MIG
    slices, or have GPUs whose memory is known.
    """
    levels = rng.choice(TREES)
    racks = [f"r{i}" for i in range(rng.randint(1, 3))] if levels else []
    domains: list[Raw] = []
    if len(levels) == 2:
        domains += [{"name": f"b{i}", "level": levels[0]} for i in range(2)]
    for i, rack in enumerate(racks):
        above = {"parent": f"b{i % 2}"} if len(levels) == 2 else {}
        domains.append({"name": rack, "level": levels[-1], **above})
    bare = chance(rng, 0.4)
    kinds = [_host(rng, parts=parts, bare=bare) for _ in range(rng.choice((1, 1, 2, 3)))]
    hosts = []
    for i in range(rng.choice([n for n in (1, 2, 2, 2, 3, 3, 4) if n <= most])):
        host = {"name": f"h{i}", **rng.choice(kinds)}
        if racks:
            host["parent"] = rng.choice(racks)
        if chance(rng, 0.1):
            host["healthy"] = False
        hosts.append(host)
    document: Raw = {"levels": list(levels), "domains": domains, "hosts": hosts}
    if fabric and levels and chance(rng, 0.1):
        document["fabric"] = _fabric(rng, racks)
        if chance(rng, 0.3):
            document["links"] = {"host": {"bandwidth_mbps": 2000, "latency_us": 1.0}}
    elif chance(rng, 0.15):
        names = (*levels, "host")
        document["links"] = {
            level: {"bandwidth_mbps": rng.choice((1000, 2000, 7777)), "latency_us": 1.0}
            for level in rng.sample(names, rng.randint(1, len(names)))
        }
        wan = len(levels) == 2 and chance(rng, 0.3)
        for entry in (*domains, *hosts):
            level = entry.get("level", "host")
            only = len(racks if levels else hosts) < 2 and level == names[0]
            bare = level == names[0] and (wan or only)
            if level in document["links"] and not bare and chance(rng, 0.2):
                entry["uplink_mbps"] = rng.choice((500, 3000))
        if wan:
            document["wan"] = [{"between": ["b0", "b1"], "bandwidth_mbps": 500, "latency_us": 5.0}]
    return document


def _fabric(rng: Random, racks: list[str]) -> list[Raw]:
    """Join racks and up to two switches by a random tree and some links more."""
    ends = [*racks, *(f"s{i}" for i in range(rng.randint(len(racks) < 2, 2)))]
    rng.shuffle(ends)
    pairs = {tuple(sorted((ends[i], rng.choice(ends[:i])))) for i in range(1, len(ends))}
    pairs |= {tuple(sorted(rng.sample(ends, 2))) for _ in range(rng.randint(0, 2))}
    return [
        {"between": pair, "bandwidth_mbps": rng.choice((500, 1000, 3000)), "latency_us": 1.0}
        for pair in sorted(pairs)
    ]


def _host(rng: Random, *, parts: bool, bare: bool) -> Raw:
    gpus = rng.choice((1, 2, 2, 2, 3, 4))
    host: Raw = {"gpus": gpus, "gpu_model": rng.choice("AAB")}
    if not bare:
        host |= {"cpu": rng.choice((2, 4, 6)), "memory": rng.choice((3, 5, 8))}
        if chance(rng, 0.2):
            host["resources"] = {"nic": rng.choice((1, 2))}
    if parts:
        if chance(rng, 0.5):
            host |= {"gpu_model": CUT, "gpus": min(gpus, 2)}
            if chance(rng, 0.2):
                host["mig"] = False
        elif chance(rng, 0.7):
            host["gpu_memory"] = rng.choice((10, 16, 24))
    return host


def group(rng: Random, document: Raw, most: int, *, parts: bool = False) -> Raw:
    """Draw a task group of up to `most` tasks for a cluster, mostly with few wishes."""
    levels = (*document["levels"], "host")
    count = rng.randint(1, most)
    made: Raw = {"gpu": rng.choice(WHOLES if chance(rng, 0.6) else SHARES)}
    if chance(rng, 0.05):
        made["gpu"] = 0
    if count > 1:
        made["count"] = count
    if any("cpu" in host for host in document["hosts"]):
        made |= {"cpu": rng.choice((0, 0, 1, 2)), "memory": rng.choice((0, 0, 1, 3))}
        if chance(rng, 0.1):
            made["resources"] = {"nic": 1}
    if chance(rng, 0.2):
        models = sorted({host["gpu_model"] for host in document["hosts"]})
        made["gpu_models"] = rng.sample(models, rng.randint(1, len(models)))
    if chance(rng, 0.1):
        names = [host["name"] for host in document["hosts"]]
        made["hosts"] = rng.sample(names, rng.randint(1, len(names)))
    if chance(rng, 0.15):
        made["required"] = rng.choice(levels)
    if chance(rng, 0.15):
        made["preferred"] = rng.sample(levels, rng.randint(0, len(levels)))
    if count > 1 and chance(rng, 0.12):
        sizes = [n for n in range(1, count + 1) if count % n == 0]
        made["slices"] = {"size": rng.choice(sizes), "required": rng.choice(levels)}
    if count > 1 and chance(rng, 0.12):
        made["apart"] = {"level": rng.choice(levels), "most": rng.choice((1, 1, 2))}
    if parts:
        _part(rng, made)
    if (
        made.get("gpu", 0) >= 1000
        and (document.get("links") or document.get("fabric"))
        and chance(rng, 0.5)
    ):
        made["communication"] = {
            "pattern": rng.choice(("ring", "tree")),
            "data_mib": rng.choice((1, 10, 333)),
        }
    if (document.get("links") or document.get("fabric")) and chance(rng, 0.5):
        made.setdefault("communication", {})["rate_mbps"] = rng.choice((700, 1500, 4000))
    return made


def _part(rng: Random, made: Raw) -> None:
    """Make it a group of MIG slices, or one that uses memory of GPUs."""
    draw = rng.random()
    if draw < 0.4:
        del made["gpu"]
        made["mig"] = rng.choice(
            ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
        )
        made.pop("communication", None)
    elif draw < 0.8 and made["gpu"]:
        made["gpu_memory"] = rng.choice((4, 8, 12, 16, CUT_MEMORY // 2))


def numbers_of_hosts(rng: Random, option: Raw) -> None:
    """Now and then let an option, or its first group, be on so many hosts as its tasks can be."""
    groups = option["groups"] if chance(rng, 0.5) else option["groups"][:1]
    required = {option.get("required"), *(group.get("required") for group in groups)}
    apart = [group["apart"] for group in groups if "apart" in group]
    tasks = sum(group.get("count", 1) for group in groups)
    if "host" in required or any("slices" in group for group in groups):
        return
    least = rng.randint(1, min(tasks, 3))
    asked = {"min": least}
    if chance(rng, 0.7) and not any(one["level"] == "host" for one in apart):
        asked["max"] = least + rng.choice((0, 0, 1))
    if groups is option["groups"]:
        option["hosts"] = asked
    else:
        groups[0]["num_hosts"] = asked


def options(rng: Random, document: Raw, most: int, *, parts: bool = False) -> list[Raw]:
    """One to three options of one or two groups."""
    levels = (*document["levels"], "host")
    made = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        number = rng.choice((1, 1, 1, 2))
        few = most if number == 1 else max(1, most - 1)
        option: Raw = {"groups": [group(rng, document, few, parts=parts) for _ in range(number)]}
        if chance(rng, 0.3):
            option["value"] = rng.choice((0, 1, 500, 1000, 1500, 2500, 4000))
        if chance(rng, 0.3):
            option["progress"] = rng.choice((1, 2, 3, 7))
        if chance(rng, 0.1):
            option["required"] = rng.choice(levels)
        if chance(rng, 0.1):
            numbers_of_hosts(rng, option)
        made.append(option)
    return made


def settle(rng: Random, round_: Raw, jobs: list[Raw], hosts: Collection[str] | None = None) -> None:
    """Let jobs run where there is room, and add them to the round; others are left out.

    `hosts` are those where they may be; None: any.
    """
    for job in jobs:
        # It runs nowhere yet. A pending job may name nothing that these hosts do not have.
        soon = {**job, "running": {"tasks": []}}
        facts = Facts({**round_, "jobs": [*round_["jobs"], soon]})
        room = Room(facts)
        for other in facts.jobs[:-1]:
            if other.running is not None:
                _take(
                    room,
                    facts,
                    other.number,
                    Choice(KEEP, other.running.option, other.running.places),
                )
        number = rng.randrange(len(job["options"]))
        places: list[Place] = []
        mine = facts.jobs[-1].options[number]
        for g, index in mine.tasks():
            wanted = mine.groups[g]
            ways = [
                place
                for place in every_place(facts, wanted, g, index)
                if (hosts is None or facts.hosts[place[2]].name in hosts)
                and room.holds(wanted, place)
                and (wanted.models is None or facts.hosts[place[2]].model in wanted.models)
                and (wanted.profile is None or place[4] is not None)
            ]
            if not ways:
                break
            places.append(rng.choice(ways))
            room.take(wanted, places[-1])
        if len(places) < sum(wanted.count for wanted in mine.groups):
            continue
        job["running"] = {"option": number, "tasks": [_task(facts, place) for place in places]}
        round_["jobs"].append(job)


def _take(room: Room, facts: Facts, number: int, choice: Choice) -> None:
    for place in choice.places:
        room.take(facts.jobs[number].options[choice.option].groups[place[0]], place)


def _task(facts: Facts, place: Place) -> Raw:
    group_, index, host, gpus, slot = place
    task: Raw = {"host": facts.hosts[host].name, "gpus": list(gpus)}
    task |= {"group": group_} if group_ else {}
    task |= {"index": index} if index else {}
    return task | ({} if slot is None else {"slot": slot})


def costs(rng: Random, running: Raw) -> None:
    """Say what stopping a running job costs, or leave the defaults."""
    if chance(rng, 0.15):
        running["pinned"] = True
    if chance(rng, 0.5):
        running["checkpoint"] = NOW - rng.choice((0, 1, 3))
    if chance(rng, 0.3):
        running["restart_s"] = rng.choice((1, 2))
    if chance(rng, 0.2):
        running["started"] = NOW - rng.choice((1, 5))
    if chance(rng, 0.15):
        running["pin"] = rng.choice(("size", "size", "both"))
    if chance(rng, 0.2):
        running["resize_factor"] = rng.choice((0, 500, 999))
    for name in ("migrate_cost", "preempt_cost"):
        if chance(rng, 0.15):
            running[name] = rng.choice((0, 500, 3000))
