"""States and queues on a real Slurm: what runs, fragmented, and what waits, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.slurm_lab import Lab
from placewright.instances.derived.slurm_marks import HELD

__all__ = ["Asked", "asked", "fragment", "submit_held"]

GPUS_PER_HOST = 8
CANCELLED = 0.55
"""Part of a full cluster's jobs that end before the queue comes."""


class Asked(NamedTuple):
    """What a job asks for: hosts, GPUs on each, and minutes."""

    hosts: int
    gpus: int
    minutes: int

    @property
    def total(self) -> int:
        """GPUs on all hosts."""
        return self.hosts * self.gpus

    def options(self) -> tuple[str, ...]:
        """Return the options of `sbatch`."""
        return (
            f"--nodes={self.hosts}",
            "--ntasks-per-node=1",
            f"--gpus-per-node={self.gpus}",
            f"--time={self.minutes}",
        )


def asked(seed: int, gpus: int) -> Iterator[Asked]:
    """Yield jobs, gangs of whole hosts and parts of one, until they ask for so many GPUs."""
    draw = random.Random(seed)
    total = 0
    while total < gpus:
        whole = draw.random() < 0.5
        job = Asked(
            hosts=draw.choice((1, 2, 2, 3, 4, 4, 6, 8, 12)) if whole else 1,
            gpus=GPUS_PER_HOST if whole else draw.choice((1, 2, 4, 4)),
            minutes=60 * draw.choice((2, 6, 12, 24, 48)),
        )
        total += job.total
        yield job


def fragment(lab: Lab, seed: int) -> list[int]:
    """Fill a cluster, end a part of its jobs, and return the numbers of those that run on."""
    capacity = lab.size.hosts * GPUS_PER_HOST
    numbers = [lab.submit(*job.options()) for job in asked(10_000 + seed, capacity)]
    lab.settle(quiet_s=3)
    random.Random(seed).shuffle(numbers)
    running = {n for n, job in lab.jobs().items() if job.state == "RUNNING"}
    ended = [n for n in numbers if n not in running]
    going = [n for n in numbers if n in running]
    keep = going[round(len(going) * CANCELLED) :]
    lab.cancel(*ended, *(n for n in going if n not in keep))
    return sorted(keep)


def submit_held(lab: Lab, jobs: list[Asked]) -> dict[int, Asked]:
    """Submit jobs that Placewright holds; return what each number asks for."""
    numbers = {lab.submit(*job.options(), "--hold"): job for job in jobs}
    for number in numbers:
        lab.run("scontrol", "update", f"jobid={number}", f"AdminComment={HELD}")
    return numbers
