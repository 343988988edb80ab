"""Hypothesis strategies of tiny rounds whose options tie their tasks to each other."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from fuzz.small_units import as_document
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

Raw = dict[str, Any]
LEVELS = ("block", "rack", "host")


def chance(one_in: int) -> st.SearchStrategy[bool]:
    return st.integers(0, one_in - 1).map(lambda n: n == one_in - 1)


@st.composite
def clusters(draw: st.DrawFn, most: int) -> Raw:
    """Up to `most` hosts of 1 to 4 GPUs in up to four racks of up to two blocks."""
    racks = draw(st.integers(1, 4))
    domains: list[Raw] = [{"name": f"b{i}", "level": "block"} for i in range(2)]
    domains += [{"name": f"r{i}", "level": "rack", "parent": f"b{i % 2}"} for i in range(racks)]
    hosts = [
        {
            "name": f"h{i}",
            "parent": f"r{draw(st.integers(0, racks - 1))}",
            "gpus": draw(st.sampled_from([2, 4, 1, 3])),
            "gpu_model": "A",
            "healthy": not draw(chance(9)),
        }
        for i in range(draw(st.integers(2, most)))
    ]
    return {"levels": LEVELS[:2], "domains": domains, "hosts": hosts}


@st.composite
def host_counts(draw: st.DrawFn, tasks: int) -> Raw:
    """A number of hosts on which tasks can be, if nothing else is asked."""
    least = draw(st.integers(1, min(tasks, 3)))
    most = draw(st.sampled_from([least, least + 1, None]))
    return {"min": least} | ({} if most is None else {"max": most})


@st.composite
def groups(draw: st.DrawFn, cluster: Raw, most: int) -> Raw:
    group: Raw = {
        "gpu": draw(st.sampled_from([1000, 1000, 2000])),
        "count": draw(st.integers(1, most)),
    }
    if draw(chance(4)):
        group["required"] = draw(st.sampled_from(LEVELS))
    if draw(chance(5)):
        group["preferred"] = draw(st.lists(st.sampled_from(LEVELS), unique=True))
    if group["count"] % 2 == 0 and draw(st.booleans()):
        size = draw(st.sampled_from([2, 2, 1, group["count"]]))
        group["slices"] = {"size": size, "required": draw(st.sampled_from(LEVELS))}
    if draw(chance(3)):
        group["apart"] = {"level": draw(st.sampled_from(LEVELS)), "most": draw(st.integers(1, 2))}
    if draw(chance(3)):
        group["num_hosts"] = draw(host_counts(group["count"]))
    if draw(chance(6)):
        names = [host["name"] for host in cluster["hosts"]]
        group["hosts"] = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    return group


@st.composite
def jobs(draw: st.DrawFn, cluster: Raw, most: int, labels: dict[str, str]) -> Raw:
    options = []
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        number = draw(st.sampled_from([1, 2]))
        tasks = most if number == 1 else max(most // 2, 1)
        option: Raw = {"groups": [draw(groups(cluster, tasks)) for _ in range(number)]}
        if draw(chance(3)):
            option["required"] = draw(st.sampled_from(LEVELS[:2] if number > 1 else LEVELS))
        if draw(chance(3)):
            option["hosts"] = draw(host_counts(sum(g["count"] for g in option["groups"])))
        options.append(option)
    job: Raw = {
        "options": options,
        "priority": draw(st.sampled_from([1, 2, 0])),
        "weight": draw(st.sampled_from([1, 1, 2])),
    }
    if draw(chance(2)):
        label = draw(st.sampled_from(sorted(labels)))
        job["anti_affinity"] = {"label": label, "level": labels[label]}
    return job


@st.composite
def rounds(draw: st.DrawFn, *, moving: bool) -> Round:
    """One to three pending jobs; with `moving` up to two running ones as well, on fewer hosts."""
    cluster = draw(clusters(3 if moving else 5))
    labels = {"red": draw(st.sampled_from(LEVELS)), "blue": draw(st.sampled_from(LEVELS))}
    left = {host["name"]: list(range(host["gpus"])) for host in cluster["hosts"]}
    every: list[Raw] = []
    for i in range(draw(st.sampled_from([2, 1])) if moving else draw(st.sampled_from([0, 1]))):
        job = draw(jobs(cluster, 2 if moving else 1, labels))
        tasks = []
        for g, group in enumerate(job["options"][0]["groups"]):
            for index in range(group["count"]):
                asked = group["gpu"] // 1000
                places = [name for name, gpus in left.items() if len(gpus) >= asked]
                if not places:
                    break
                host = draw(st.sampled_from(places))
                gpus = [left[host].pop() for _ in range(asked)]
                tasks.append({"group": g, "index": index, "host": host, "gpus": gpus})
        if len(tasks) < sum(group["count"] for group in job["options"][0]["groups"]):
            continue
        running = {
            "tasks": tasks,
            "pinned": not moving or draw(chance(5)),
            "pin": "size",
            "migrate_cost": draw(st.sampled_from([0, 500])),
            "preempt_cost": draw(st.sampled_from([0, 3000])),
        }
        every.append({**job, "name": f"running-{i}", "priority": 0, "running": running})
    number = draw(st.sampled_from([1, 2] if moving else [2, 1, 3]))
    most = {1: 4, 2: 3, 3: 2}[number] if not moving else 2
    every += [{**draw(jobs(cluster, most, labels)), "name": f"job-{i}"} for i in range(number)]
    terms = ["value", *draw(st.permutations(["disruption", "spread", "opened"]))]
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": cluster,
                "jobs": every,
                "policy": {
                    "terms": terms[: draw(st.integers(1, 4))],
                    "priority": "preemption",
                },
            }
        )
    )
    try:
        check_round(round_)
    except InvalidInputError as error:
        assume("hosts" not in str(error))  # what nothing else lets tasks be on
        raise
    return round_
