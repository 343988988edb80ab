"""Jobs that come to and leave a small real Slurm, decided by its own backfill or by a watch."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_queue import GPUS_PER_HOST, Asked
from placewright.instances.derived.slurm_marks import HELD
from placewright.live.watch.loop import HEARTBEAT

__all__ = ["LOOK_S", "Arriving", "Ran", "Stream", "arrivals", "overtaken", "play", "starving"]

JOBS = 36
MEAN_GAP_S = 4.0
SPARE_S = 5
"""So much earlier than its limit a job ends, lest Slurm ends it."""

LOOK_S = 2.0
"""Between two looks of the watch."""

TOLERANCE_S = 10
"""What a scheduler may take to notice that a job has come, or can start."""

LATEST_S = 1800
CONFIGURATION = "MinJobAge=100000\n" + "\n".join(
    f"PartitionName=class{rank} Nodes=ALL PriorityTier={rank + 1} MaxTime=7-0 DefMemPerCPU=1024"
    for rank in range(3)
)
"""Ended jobs are kept, and classes are tiers, which a hold does not hide."""


class Arriving(NamedTuple):
    """A job, when it comes (seconds), its class (higher: more urgent), and how long it runs."""

    at: float
    job: Asked
    urgent: int
    seconds: int


class Stream(NamedTuple):
    """Jobs in the order in which they come, and the hosts that they come to."""

    hosts: int
    jobs: tuple[Arriving, ...]


class Ran(NamedTuple):
    """A job as it ran: class, number in the order of arrival, GPUs per host, times, hosts."""

    urgent: int
    place: int
    gpus: int
    hosts: frozenset[str]
    submitted: int
    started: int
    ended: int

    @property
    def order(self) -> tuple[int, int]:
        """The smaller, the earlier in the queue."""
        return -self.urgent, self.place


def arrivals(seed: int, urgent: Sequence[int]) -> Stream:
    """Draw the jobs: gangs of whole hosts and parts of one, of one or two minutes."""
    draw = random.Random(seed)
    stream = []
    at = 0.0
    for number in range(JOBS):
        whole = draw.random() < 0.5
        minutes = draw.choice((1, 1, 2))
        job = Asked(
            hosts=draw.choice((1, 2, 2, 3, 4, 6, 8)) if whole else 1,
            gpus=GPUS_PER_HOST if whole else draw.choice((1, 2, 4, 4)),
            minutes=minutes,
        )
        stream.append(Arriving(at, job, urgent[number], 60 * minutes - SPARE_S))
        at += draw.expovariate(1 / MEAN_GAP_S)
    return Stream(16, tuple(stream))


def starving(hosts: int = 8, first_s: int = 30, step_s: int = 6, later: int = 25) -> Stream:
    """Return a gang of all hosts, which all run a job, and jobs of a host that come after it."""
    minutes = 2
    one = Asked(1, GPUS_PER_HOST, minutes)
    running = [Arriving(0, one, 0, first_s + i * (step_s - 1)) for i in range(hosts)]
    gang = Arriving(2 * step_s, Asked(hosts, GPUS_PER_HOST, minutes), 0, 4 * step_s)
    behind = [Arriving(gang.at + i * step_s, one, 0, 8 * step_s) for i in range(later)]
    return Stream(hosts, (*running, gang, *behind))


def play(folder: Path, stream: Stream, *, watched: bool) -> dict[str, float]:
    """Let a watch decide, or Slurm's backfill; return the figures.

    A watch is the command `placewright watch slurm --apply`, and holds all jobs.
    """
    with Lab(folder, Size(stream.hosts, per_leaf=4, per_spine=2), CONFIGURATION) as lab:
        if not watched:
            return _figures(_ran(lab, stream, _run(lab, stream)), stream.hosts)
        with _watch(lab, folder):
            return _figures(_ran(lab, stream, _run(lab, stream, "--hold")), stream.hosts)


@contextmanager
def _watch(lab: Lab, folder: Path) -> Iterator[None]:
    words = (sys.executable, "-m", "placewright.cli.app", "watch", "slurm", "--apply")
    options = ("-o", str(folder / "plans"), "--every", f"{LOOK_S:g}", "--time-limit", "5")
    with (folder / "watch.log").open("wb") as log:
        process = subprocess.Popen((*words, *options), env=lab.environment, stderr=log)
    try:
        while process.poll() is None and not (folder / "plans" / HEARTBEAT).exists():
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(60)


def _run(lab: Lab, stream: Stream, *options: str) -> list[int]:
    """Submit the jobs at their times, wait until they have ended, and return their numbers."""
    numbers: list[int] = []
    began = time.monotonic()
    while time.monotonic() - began < LATEST_S:
        for one in stream.jobs[len(numbers) :]:
            if one.at > time.monotonic() - began:
                break
            words = (*one.job.options(), f"--partition=class{one.urgent}", *options)
            numbers.append(lab.submit(*words, command=f"sleep {one.seconds}"))
            if options:
                lab.run("scontrol", "update", f"jobid={numbers[-1]}", f"AdminComment={HELD}")
        if len(numbers) == len(stream.jobs) and not lab.jobs():
            return numbers
        time.sleep(0.3)
    raise TimeoutError(f"jobs do not end within {LATEST_S} s")


def _ran(lab: Lab, stream: Stream, numbers: Sequence[int]) -> list[Ran]:
    """Read from Slurm when and where the jobs ran."""
    listed = json.loads(lab.run("squeue", "--json", "--states=all"))["jobs"]
    by_number = {job["job_id"]: job for job in listed}
    return [
        Ran(
            urgent=stream.jobs[place].urgent,
            place=place,
            gpus=stream.jobs[place].job.gpus,
            hosts=frozenset(lab.expand(by_number[number]["nodes"])),
            submitted=by_number[number]["submit_time"],
            started=by_number[number]["start_time"],
            ended=by_number[number]["end_time"],
        )
        for place, number in enumerate(numbers)
    ]


def _figures(ran: Sequence[Ran], hosts: int) -> dict[str, float]:
    waits = {job.place: job.started - job.submitted for job in ran}
    gangs = [waits[job.place] for job in ran if len(job.hosts) > 1]
    span = max(job.ended for job in ran) - min(job.submitted for job in ran)
    used = sum(job.gpus * len(job.hosts) * (job.ended - job.started) for job in ran)
    late = [delay for job in ran if (delay := overtaken(job, ran, hosts)) > TOLERANCE_S]
    figures = {"jobs": len(ran), "mean wait, s": fmean(waits.values())}
    for rank in sorted({job.urgent for job in ran}, reverse=True):
        of = [waits[job.place] for job in ran if job.urgent == rank]
        figures[f"mean wait, class {rank}"] = fmean(of)
    figures["mean wait of gangs, s"] = fmean(gangs)
    figures["longest wait of gangs, s"] = max(gangs)
    figures["longest wait, s"] = max(waits.values())
    figures["allocation %"] = 100 * used / (hosts * GPUS_PER_HOST * span)
    figures["last end, s"] = span
    figures["overtaken"] = len(late)
    figures["longest delay by it, s"] = max(late, default=0)
    return figures


def overtaken(job: Ran, ran: Sequence[Ran], hosts: int) -> int:
    """Return the seconds by which later jobs of lower order delayed a job, 0 if they did not.

    The first moment counts at which it headed the queue, had no room, and would have had room
    without the jobs behind it in the queue that had started while it waited; they may do so until
    the scheduler has noticed that it has come.
    """
    known = job.submitted + TOLERANCE_S
    behind = [o for o in ran if o.order > job.order and known < o.started < job.started]
    for moment in sorted({o.ended for o in ran if job.submitted <= o.ended < job.started}):
        waits = [o for o in ran if o.submitted <= moment < o.started]
        if any(o.order < job.order for o in waits):
            continue
        holding = [o for o in ran if o.started <= moment < o.ended]
        before = [o for o in holding if o not in behind]
        if not _fits(job, holding, hosts) and _fits(job, before, hosts):
            return job.started - moment
    return 0


def _fits(job: Ran, holding: Sequence[Ran], hosts: int) -> bool:
    held: defaultdict[str, int] = defaultdict(int)
    for other in holding:
        for host in other.hosts:
            held[host] += other.gpus
    busy = sum(GPUS_PER_HOST - gpus < job.gpus for gpus in held.values())
    return hosts - busy >= len(job.hosts)
