"""All active schedules of a tiny round with stages, by brute force; tiny rounds to try it on.

Every order of the tasks in which each is inserted at its earliest time: among these is a schedule
of least makespan, and one of least weighted completion (Sprecher, Kolisch and Drexl, "Semi-active,
active, and non-delay schedules for the resource-constrained project scheduling problem", EJOR 80,
1995). One host has everything, so that counts are places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

from placewright import Round

GPUS, CPUS = 3, 4


@dataclass
class Tiny:
    """A job: for each option GPUs, cores, tasks and seconds; and what comes before it."""

    options: list[tuple[int, int, int, int]]
    after: list[int] = field(default_factory=list)
    gang: bool = True
    weight: int = 1
    left: int | None = None  # Seconds that it still runs, with its first option, if it runs


def draw(rng: Random) -> list[Tiny]:
    """Return a few jobs, each after some of those before."""
    jobs: list[Tiny] = []
    gpus = GPUS
    for j in range(rng.randint(1, 4)):
        gang = rng.random() < 0.6
        options = []
        for _ in range(rng.choice([1, 1, 2])):
            tasks = rng.randint(1, 2)
            each = rng.randint(0, GPUS // tasks if gang else 2)
            options.append((each, rng.randint(0, 2), tasks, rng.randint(1, 4)))
        job = Tiny(options, gang=gang, weight=rng.randint(1, 3))
        if rng.random() < 0.2 and options[0][0] * options[0][2] <= gpus and j < 2:
            job.left, job.gang = rng.randint(1, options[0][3]), True
            gpus -= options[0][0] * options[0][2]
        else:
            job.after = [k for k in range(j) if rng.random() < 0.4]
        jobs.append(job)
    return jobs


def written(jobs: list[Tiny], **policy: Any) -> Round:
    """Return the jobs as a round."""
    free, entries = iter(range(GPUS)), []
    for j, job in enumerate(jobs):
        entry: dict[str, Any] = {
            "name": f"j{j}",
            "weight": job.weight,
            "options": [
                {"groups": [{"count": tasks, "gpu": gpu, "cpu": cpu}]}
                for gpu, cpu, tasks, _ in job.options
            ],
            "stage": {
                "task_s": [seconds for *_, seconds in job.options],
                "after": [f"j{k}" for k in job.after],
                "gang": job.gang,
            },
        }
        if job.left is not None:
            gpu, _, tasks, seconds = job.options[0]
            places = [
                {"index": i, "host": "h", "gpus": [next(free) for _ in range(gpu)]}
                for i in range(tasks)
            ]
            entry["running"] = {"tasks": places, "started": 100 - seconds + job.left}
        entries.append(entry)
    host = {"name": "h", "gpus": GPUS, "gpu_model": "A100", "cpu": CPUS}
    return Round.of({"hosts": [host]}, entries, policy={"formulation": "stages", **policy}, now=100)


def optima(jobs: list[Tiny]) -> Mapping[str, int]:
    """Return the least makespan and the least completion."""
    best: dict[str, int] = {}
    pending = [j for j, job in enumerate(jobs) if job.left is None]
    awaited = {k for job in jobs for k in job.after}
    for chosen in product(*(range(len(jobs[j].options)) for j in pending)):
        modes = dict(zip(pending, chosen, strict=True))
        for ends in _schedules(jobs, modes):
            values = {
                "makespan": max(ends.values()),
                "completion": sum(
                    jobs[j].weight * end for j, end in ends.items() if j not in awaited
                ),
            }
            for term, value in values.items():
                best[term] = min(value, best.get(term, value))
    return best


def _schedules(jobs: list[Tiny], modes: Mapping[int, int]) -> Iterator[dict[int, int]]:
    """Yield when each job ends, in all active schedules with these options."""
    used: dict[int, tuple[int, int]] = {}
    ends: dict[int, int] = {}
    for j, job in enumerate(jobs):
        if job.left is not None:
            gpu, cpu, tasks, _ = job.options[0]
            _take(used, 0, job.left, gpu * tasks, cpu * tasks, 1)
            ends[j] = job.left
    left = {j: 1 if jobs[j].gang else jobs[j].options[m][2] for j, m in modes.items()}
    yield from _insert(jobs, modes, used, ends, left)


def _insert(
    jobs: list[Tiny],
    modes: Mapping[int, int],
    used: dict[int, tuple[int, int]],
    ends: dict[int, int],
    left: dict[int, int],
) -> Iterator[dict[int, int]]:
    if not any(left.values()):
        yield dict(ends)
        return
    for j, units in left.items():
        if not units or any(left.get(k, 0) for k in jobs[j].after):
            continue
        gpu, cpu, tasks, seconds = jobs[j].options[modes[j]]
        times = tasks if jobs[j].gang else 1
        gpu, cpu = gpu * times, cpu * times
        at = max((ends[k] for k in jobs[j].after), default=0)
        while any(
            used.get(t, (0, 0))[0] + gpu > GPUS or used.get(t, (0, 0))[1] + cpu > CPUS
            for t in range(at, at + seconds)
        ):
            at += 1
        before = ends.get(j)
        _take(used, at, at + seconds, gpu, cpu, 1)
        ends[j] = max(at + seconds, before or 0)
        left[j] -= 1
        yield from _insert(jobs, modes, used, ends, left)
        left[j] += 1
        _take(used, at, at + seconds, gpu, cpu, -1)
        if before is None:
            del ends[j]
        else:
            ends[j] = before


def _take(
    used: dict[int, tuple[int, int]], begin: int, end: int, gpu: int, cpu: int, sign: int
) -> None:
    for t in range(begin, end):
        g, c = used.get(t, (0, 0))
        used[t] = g + sign * gpu, c + sign * cpu
