"""Jobs that come to and leave a small real Slurm, decided by its own backfill or by our rounds."""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_queue import GPUS_PER_HOST, Asked
from benchmarks.slurm_trip import Depth, read, with_order
from placewright import solve_round
from placewright.instances.derived.slurm_marks import HELD
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.source_keys import SLURM_OURS
from placewright.instances.exporters.slurm import slurm_script

__all__ = ["Arriving", "Ran", "arrivals", "follow", "overtaken", "run_alone", "slurm_priority"]

SIZE = Size(hosts=16, per_leaf=4, per_spine=2)
JOBS = 36
MEAN_GAP_S = 4.0
SPARE_S = 5
"""So much earlier than its limit a job ends, lest Slurm ends it."""

TOLERANCE_S = 10
"""What a scheduler may take to notice that a job has come, or can start."""

LATEST_S = 1800
SOLVING_S = 5.0
KEEP_ENDED = "MinJobAge=100000"


class Arriving(NamedTuple):
    """A job, when it comes (seconds), its class (higher: more urgent), and how long it runs."""

    at: float
    job: Asked
    urgent: int
    seconds: int


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


def arrivals(seed: int, urgent: Sequence[int]) -> list[Arriving]:
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
    return stream


def slurm_priority(urgent: int, place: int) -> int:
    """Return Slurm's number for a job of a class, first come, first served within it."""
    return (urgent + 1) * 1_000_000 - place


def run_alone(folder: Path, stream: Sequence[Arriving]) -> dict[str, float]:
    """Let Slurm's backfill decide; return the figures."""
    with Lab(folder, SIZE, KEEP_ENDED) as lab:

        def submit(place: int, one: Arriving) -> int:
            number = slurm_priority(one.urgent, place)
            return lab.submit(
                *one.job.options(), f"--priority={number}", command=f"sleep {one.seconds}"
            )

        numbers = _run(lab, stream, submit, lambda _: None)
        return _figures(_ran(lab, stream, numbers))


def follow(folder: Path, stream: Sequence[Arriving], *, depth: Depth) -> dict[str, float]:
    """Hold all jobs and decide a round whenever one has come or gone; return the figures.

    A decision is all from the dump to the last command. Jobs that wait are not told why, but those
    that were released before are held again.
    """
    with Lab(folder, SIZE, KEEP_ENDED) as lab:

        def submit(place: int, one: Arriving) -> int:
            del place
            command = f"sleep {one.seconds}"
            number = lab.submit(*one.job.options(), "--hold", command=command)
            lab.run("scontrol", "update", f"jobid={number}", f"AdminComment={HELD}")
            return number

        def decide(numbers: Sequence[int]) -> None:
            rank = {str(number): stream[i].urgent for i, number in enumerate(numbers)}
            began = time.monotonic()
            round_ = with_order(read(lab), rank, depth)
            plan = solve_round(round_, time_limit=SOLVING_S, isolation="none")
            sent = {job.name for job in round_.jobs if SLURM_OURS in job.annotations}
            waits = {d.job for d in plan.decisions if d.decision is DecisionKind.WAIT} - sent
            with suppress(RuntimeError):  # a job that Slurm started meanwhile is decided anew
                lab.run("sh", text=slurm_script(round_, plan.without_jobs(waits)).text)
            seconds.append(time.monotonic() - began)

        seconds: list[float] = []
        numbers = _run(lab, stream, submit, decide)
        figures = _figures(_ran(lab, stream, numbers))
        return {**figures, "a decision, s": fmean(seconds)}


def _run(
    lab: Lab,
    stream: Sequence[Arriving],
    submit: Callable[[int, Arriving], int],
    decide: Callable[[Sequence[int]], None],
) -> list[int]:
    """Submit the jobs at their times, decide on each change, and return their numbers."""
    numbers: list[int] = []
    began = time.monotonic()
    seen: frozenset[tuple[int, str]] = frozenset()
    while time.monotonic() - began < LATEST_S:
        while len(numbers) < len(stream) and stream[len(numbers)].at <= time.monotonic() - began:
            numbers.append(submit(len(numbers), stream[len(numbers)]))
        now = frozenset((job.job, job.state) for job in lab.jobs().values())
        if len(numbers) == len(stream) and not now:
            return numbers
        if now != seen:
            decide(numbers)
            seen = now
        time.sleep(0.3)
    raise TimeoutError(f"jobs do not end within {LATEST_S} s")


def _ran(lab: Lab, stream: Sequence[Arriving], numbers: Sequence[int]) -> list[Ran]:
    """Read from Slurm when and where the jobs ran."""
    listed = json.loads(lab.run("squeue", "--json", "--states=all"))["jobs"]
    by_number = {job["job_id"]: job for job in listed}
    return [
        Ran(
            urgent=stream[place].urgent,
            place=place,
            gpus=stream[place].job.gpus,
            hosts=frozenset(lab.expand(by_number[number]["nodes"])),
            submitted=by_number[number]["submit_time"],
            started=by_number[number]["start_time"],
            ended=by_number[number]["end_time"],
        )
        for place, number in enumerate(numbers)
    ]


def _figures(ran: Sequence[Ran]) -> dict[str, float]:
    waits = {job.place: job.started - job.submitted for job in ran}
    span = max(job.ended for job in ran) - min(job.submitted for job in ran)
    used = sum(job.gpus * len(job.hosts) * (job.ended - job.started) for job in ran)
    late = [delay for job in ran if (delay := overtaken(job, ran)) > TOLERANCE_S]
    figures = {"jobs": len(ran), "mean wait, s": fmean(waits.values())}
    figures["mean wait by GPUs, s"] = sum(
        waits[job.place] * job.gpus * len(job.hosts) for job in ran
    ) / sum(job.gpus * len(job.hosts) for job in ran)
    for rank in sorted({job.urgent for job in ran}, reverse=True):
        of = [waits[job.place] for job in ran if job.urgent == rank]
        figures[f"mean wait, class {rank}"] = fmean(of)
    figures["longest wait, s"] = max(waits.values())
    figures["allocation %"] = 100 * used / (SIZE.hosts * GPUS_PER_HOST * span)
    figures["last end, s"] = span
    figures["overtaken"] = len(late)
    figures["longest delay by it, s"] = max(late, default=0)
    return figures


def overtaken(job: Ran, ran: Sequence[Ran]) -> int:
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
        if not _fits(job, holding) and _fits(job, [o for o in holding if o not in behind]):
            return job.started - moment
    return 0


def _fits(job: Ran, holding: Sequence[Ran]) -> bool:
    held: defaultdict[str, int] = defaultdict(int)
    for other in holding:
        for host in other.hosts:
            held[host] += other.gpus
    busy = sum(GPUS_PER_HOST - gpus < job.gpus for gpus in held.values())
    return SIZE.hosts - busy >= len(job.hosts)
