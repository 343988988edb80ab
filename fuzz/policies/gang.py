"""Policy `gang`: jobs start with all tasks or wait."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any

from fuzz.policy import Judged, Policy, Raw, TooManyPlansError

MAX_PLANS = 5_000
WHOLE = 1000


def draw(rng: Random) -> Raw:
    """One to three hosts, one to four pending jobs."""
    hosts = [
        {
            "name": f"h{i}",
            "gpus": rng.choice((1, 2, 2, 3)),
            "cpu": rng.choice((0, 3)),
            "gpu_model": "A",
        }
        for i in range(rng.randint(1, 3))
    ]
    jobs = [
        {
            "name": f"j{i}",
            "options": [
                {
                    "groups": [
                        {
                            "gpu": rng.choice((1000, 2000, 500, 300)),
                            "count": rng.choice((1, 1, 2)),
                            "cpu": rng.choice((0, 0, 1)),
                        }
                    ]
                }
                for _ in range(rng.choice((1, 1, 2)))
            ],
        }
        for i in range(rng.randint(1, 4))
    ]
    return {
        "cluster": {"hosts": hosts},
        "jobs": jobs,
        "policy": {"terms": ["value", *rng.sample(("opened", "leftover"), rng.randint(0, 2))]},
    }


def plans(round_: Raw, _rng: Random) -> Iterator[Judged]:
    """All plans."""
    hosts, jobs = round_["cluster"]["hosts"], round_["jobs"]

    def places(gpu: int, cpu: int, gpus: list[list[int]], cpus: list[int]) -> Iterator[Any]:
        for h, left in enumerate(gpus):
            if cpus[h] < cpu:
                continue
            able = [i for i, free in enumerate(left) if free >= min(gpu, WHOLE)]
            for chosen in combinations(able, -(-gpu // WHOLE)):
                yield h, chosen

    def ways(tasks: list[Any], gpus: list[list[int]], cpus: list[int]) -> Iterator[Any]:
        if not tasks:
            yield ()
            return
        g, index, gpu, cpu = tasks[0]
        for h, chosen in places(gpu, cpu, gpus, cpus):
            for i in chosen:
                gpus[h][i] -= min(gpu, WHOLE)
            cpus[h] -= cpu
            for rest in ways(tasks[1:], gpus, cpus):
                yield ((g, index, h, chosen), *rest)
            for i in chosen:
                gpus[h][i] += min(gpu, WHOLE)
            cpus[h] += cpu

    def complete(number: int, gpus: list[list[int]], cpus: list[int]) -> Iterator[Any]:
        if number == len(jobs):
            yield (), [list(left) for left in gpus]
            return
        for rest, left in complete(number + 1, gpus, cpus):
            yield (None, *rest), left
        for o, option in enumerate(jobs[number]["options"]):
            tasks = [
                (g, index, group["gpu"], group["cpu"])
                for g, group in enumerate(option["groups"])
                for index in range(group["count"])
            ]
            for placed in ways(tasks, gpus, cpus):
                for rest, left in complete(number + 1, gpus, cpus):
                    yield ((o, placed), *rest), left

    free = [[WHOLE] * host["gpus"] for host in hosts]
    all_choices = complete(0, free, [host["cpu"] for host in hosts])
    for number, (choices, left) in enumerate(all_choices):
        if number == MAX_PLANS:
            raise TooManyPlansError
        used = sorted({task[2] for choice in choices if choice for task in choice[1]})
        values = {
            "value": sum(
                sum(g["gpu"] * g["count"] for g in jobs[j]["options"][choice[0]]["groups"])
                for j, choice in enumerate(choices)
                if choice
            ),
            "opened": len(used),
            "leftover": sum(sum(left[h]) for h in used),
        }
        terms = {term: values[term] for term in round_["policy"]["terms"]}
        yield Judged(lambda choices=choices: written(round_, choices), terms)  # type: ignore[misc]


def written(round_: Raw, choices: Any) -> Raw:
    """Write a plan as a document."""
    hosts = round_["cluster"]["hosts"]
    decisions: list[Raw] = []
    for job, choice in zip(round_["jobs"], choices, strict=True):
        if choice is None:
            decisions.append({"job": job["name"], "decision": "wait"})
            continue
        tasks = [
            {"group": g, "index": i, "host": hosts[h]["name"], "gpus": list(gpus)}
            for g, i, h, gpus in choice[1]
        ]
        entry = {"job": job["name"], "decision": "start", "option": choice[0], "tasks": tasks}
        decisions.append(entry)
    return {"decisions": decisions}


POLICY = Policy("gang", draw, plans)
