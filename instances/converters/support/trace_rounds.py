"""What converters of traces share: jobs and samples, hosts, speeds, rounds with deadlines."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from math import ceil, log2
from typing import Any, NamedTuple, ParamSpec

import numpy as np
import numpy.typing as npt

from placewright.array_types import Ints
from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.derived import ranges
from placewright.instances.derived.leases import (
    completion_time,
    leases_needed,
    min_hosts,
    work_per_lease,
)
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.base import MAX_COUNT, MAX_NOW
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.deadline import Deadline, Due, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import MAX_HORIZON, MAX_LENGTH, Leases
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.quantities import MAX_GPU
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values
from placewright.instances.speed_models import elasticflow
from placewright.topology.units import WHOLE_GPU


class Conversion(NamedTuple):
    """A round made from a trace, and one line that says what was taken and what was left out."""

    round: Round
    summary: str


_P = ParamSpec("_P")


def without_summary(read: Callable[_P, Conversion]) -> Callable[_P, Round]:
    """Return a function that reads only the round."""

    @wraps(read)
    def convert(*args: _P.args, **options: _P.kwargs) -> Round:
        return read(*args, **options).round

    return convert


# Jobs with deadlines, as traces record them: all times in seconds, in the order of submission.

OVERHEAD_S = 30
"""Seconds of a lease that checkpoint (0.1 min) and resume (0.4 min) of one GPU take."""


def overhead_s(gpus: int) -> int:
    """Return the seconds of a lease for checkpoint and resume of `gpus` GPUs, rounded up.

    References
    ----------
    The published artifact of Chronus (SoCC'21): 0.5 min * (1 + log2 of the GPUs).
    """
    return ceil(OVERHEAD_S * (1 + log2(gpus)))


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace: demand, submission, duration and deadlines.

    Parameters
    ----------
    name
        Model and id in the trace, `vgg16-50`.
    gpus
        GPUs that it asks, 1 or more.
    submit_s
        When it was submitted, on the clock of the trace.
    duration_s
        How long it runs on these GPUs, 1 or more.
    model
        Name of the model that it trains.
    due
        (time on the clock of the trace, value) of each deadline, times rising and values falling;
        empty for best effort.
    """

    name: str
    gpus: int
    submit_s: int
    duration_s: int
    model: str
    due: tuple[tuple[int, int], ...]

    def work_s(self, slack: int = 0) -> int:
        """Return the work in seconds, `slack` thousandths more than recorded, rounded up."""
        return -(-self.duration_s * (1000 + slack) // 1000)

    def alive(self, now: int) -> bool:
        """Whether `now` is between its submission and its end, had it started when submitted."""
        return self.submit_s <= now < self.submit_s + self.duration_s


# Sampling of a trace: which of its jobs a round takes.


def invalid_argument(name: str, value: object, expected: str) -> InvalidInputError:
    """Return the error of an argument."""
    return InvalidInputError(expected, path=(name,), value=value)


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Raise InvalidInputError unless an argument is in its range."""
    if not least <= value <= most:
        raise invalid_argument(name, value, f"expected {least} to {most}")


@dataclass(frozen=True, slots=True)
class TraceSample:
    """Which jobs of a trace a round takes; times in the trace's unit of `unit_s` seconds.

    Parameters
    ----------
    at, ahead
        The jobs alive at the time `at`, and those submitted up to `ahead` after it. None: all jobs.
    jobs, seed
        Number of these that are drawn, by the seed; None: all of them.
    unit_s, unit
        Seconds of the trace's unit, and its name.
    """

    at: int | None = None
    ahead: int = 0
    jobs: int | None = None
    seed: int = 0
    unit_s: int = 1
    unit: str = "second"

    def take(self, trace: Sequence[TraceJob]) -> tuple[list[TraceJob], int, str]:
        """Return the sampled jobs in order, the time of the round, and a description of the sample.

        Raises
        ------
        InvalidInputError
            For an argument out of its range, its path the name of the argument.
        """
        for name, value in (("at", self.at or 0), ("ahead", self.ahead), ("seed", self.seed)):
            check_range(name, value, 0, MAX_NOW // self.unit_s)
        if self.at is None:
            if self.ahead:
                raise invalid_argument("ahead", self.ahead, "expected it with `at` only")
            taken, which = list(trace), "all of the trace"
        else:
            now = self.at * self.unit_s
            end = now + self.ahead * self.unit_s
            taken = [job for job in trace if job.alive(now) or now < job.submit_s <= end]
            which = f"alive at {self.unit} {self.at:,}"
            if self.ahead:
                which += f" or submitted in the {self.ahead:,} after it"
            if not taken:
                raise invalid_argument(
                    "at", self.at, f"expected a {self.unit} at which some job is alive"
                )
        if self.jobs is not None:
            check_range("jobs", self.jobs, 1, len(taken))
            draw = np.random.Generator(np.random.PCG64(self.seed)).random(len(taken))
            drawn = np.sort(np.argsort(draw, kind="stable")[: self.jobs]).tolist()
            which = f"drawn from {len(taken):,} {which} with seed {self.seed}"
            taken = [taken[i] for i in drawn]
        now = min(job.submit_s for job in taken) if self.at is None else self.at * self.unit_s
        return taken, now, which


# Hosts of 8 GPUs for traces that do not say what they ran on, and jobs in tasks that fit them.

GPUS_PER_HOST = 8


def hosts_of_eight(name: str, gpus: int, model: str) -> ClusterDocument:
    """Return hosts of 8 GPUs and one with what is left, without levels."""
    full, rest = divmod(gpus, GPUS_PER_HOST)
    entries = []
    if full:
        entries.append(
            HostEntry(name=ranges.of_size("node-", full), gpus=GPUS_PER_HOST, gpu_model=model)
        )
    if rest:
        entries.append(HostEntry(name=f"node-{full}", gpus=rest, gpu_model=model))
    return ClusterDocument(name=name, hosts=tuple(entries))


def largest_task(gpus: int, most: int = GPUS_PER_HOST) -> int:
    """Return the GPUs of tasks of equal size, as large as hosts of `most` GPUs allow."""
    return next(size for size in range(min(gpus, most), 0, -1) if gpus % size == 0)


def whole_tasks(gpus: int, most: int = GPUS_PER_HOST) -> TaskGroup:
    """Return a group of tasks of equal size, as large as hosts of `most` GPUs allow."""
    per_task = largest_task(gpus, most)
    return TaskGroup(count=gpus // per_task, gpu=per_task)


# Best fit in file order, for running jobs of traces that record no hosts.


@dataclass(slots=True)
class Hosts:
    """Residual capacity of each host, which `place` reduces.

    `gpu_free` is (hosts, most GPUs of a host) in milli-GPU, 0 where a host has fewer GPUs;
    `cpu` is in millicores, `memory` in MiB; `rank` orders hosts that are equally good otherwise.
    """

    gpu_free: Ints
    cpu: Ints
    memory: Ints
    rank: Ints

    def place(
        self, gpus: int, milli: int, cpu: int, memory: int, allowed: npt.NDArray[np.bool_]
    ) -> tuple[int, tuple[int, ...]] | None:
        """Place one task on the fitting host with the least GPU left, then the least CPU left.

        A share (`milli` below 1000 of one GPU) goes to the fitting GPU with the least left, whole
        GPUs to the lowest free indices. Returns host and GPU indices, None if it fits nowhere.
        """
        fits = (
            allowed
            & (self.cpu >= cpu)
            & (self.memory >= memory)
            & ((self.gpu_free >= milli).sum(axis=1) >= gpus)
        )
        hosts = np.flatnonzero(fits)
        if not hosts.size:
            return None
        left = self.gpu_free[hosts].sum(axis=1)
        host = int(hosts[np.lexsort((self.rank[hosts], self.cpu[hosts], left))[0]])
        free = self.gpu_free[host]
        fitting = np.flatnonzero(free >= milli)
        chosen = fitting[np.argsort(free[fitting], kind="stable")[:gpus]]
        free[chosen] -= milli
        self.cpu[host] -= cpu
        self.memory[host] -= memory
        return host, tuple(sorted(chosen.tolist()))


def tie_rank(hosts: int, seed: int) -> Ints:
    """Return the order in which hosts that tie are taken: the file's for seed 0, else random."""
    if seed == 0:
        return np.arange(hosts)
    return np.argsort(np.random.Generator(np.random.PCG64(seed)).random(hosts), kind="stable")


def whole_gpus(count: Ints) -> Ints:
    """Return the free milli-GPUs (hosts, most GPUs of a host) of empty hosts."""
    return np.where(np.arange(count.max(initial=0)) < count[:, None], WHOLE_GPU, 0)


# Speed of models by number of hosts, from the JSON table of Chronus's artifact.
#
# Model, then GPUs, then hosts that the job lies on, to speed relative to one host:
# `{"vgg16": {"4": {"1": 1.0, "2": 0.576, "4": 0.318}}}`.

Locality = Mapping[tuple[str, int], tuple[tuple[int, int], ...]]
"""By model and GPUs: (hosts from 2 on, thousandths of the speed on one), hosts ascending."""

MAX_HOSTS = 10_000
MOST = 2000
"""Twice as fast on several hosts is the most that a table may say, in thousandths."""


def read_locality(path: str | os.PathLike[str]) -> Locality:
    """Read a table of speeds by model, GPUs and hosts; the speed on one host must be 1.

    Raises `InvalidInputError`: for a file that cannot be used, with the path in it.
    """
    file = os.fspath(path)
    try:
        found: dict[tuple[str, int], tuple[tuple[int, int], ...]] = {}
        for model, sizes in _mapping(load_values(file), ()).items():
            for gpus, speeds in _mapping(sizes, (model,)).items():
                by_hosts = {
                    _whole(hosts, (model, gpus, hosts)): _thousandths(speed, (model, gpus, hosts))
                    for hosts, speed in _mapping(speeds, (model, gpus)).items()
                }
                if by_hosts.pop(1, 1000) != 1000:
                    raise InvalidInputError(
                        "expected 1, the speed that the others are relative to",
                        path=(model, gpus, "1"),
                        value=speeds["1"],
                    )
                found[model, _whole(gpus, (model, gpus))] = tuple(sorted(by_hosts.items()))
    except InvalidInputError as error:
        raise error.inside(file) from None
    return found


def _mapping(value: Any, path: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError("expected a mapping", path=path, value=value)
    return value


def _whole(key: str, path: tuple[str, ...]) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 6 and 1 <= int(key) <= MAX_HOSTS):
        raise InvalidInputError(f"expected a number from 1 to {MAX_HOSTS}", path=path, value=key)
    return int(key)


def _thousandths(speed: Any, path: tuple[str, ...]) -> int:
    number = isinstance(speed, int | float) and not isinstance(speed, bool)
    if not number or not 1 <= speed * 1000 <= MOST:
        raise InvalidInputError("expected a speed from 0.001 to 2", path=path, value=speed)
    whole: int = round(speed * 1000)
    return whole


# Iteration times by model and number of GPUs, from a CSV in the format of Muri's profiles.

Iterations = Mapping[str, Mapping[int, int]]
"""By model, then GPUs: microseconds of an iteration, the batch of a GPU being the same for all."""

_US_PLACES = 3
_LONGEST_MS = 10**6


def read_iterations(profiles_csv: str | os.PathLike[str]) -> Iterations:
    """Read the columns model, num_gpu and iter_ms (milliseconds).

    Raises `InvalidInputError`: for a file that cannot be used, with line and column: also for GPUs
    or a time of zero, and for GPUs of a model that are given twice.
    """
    table = read_table(profiles_csv)
    table.require("model", "num_gpu", "iter_ms")
    gpus = table.integers("num_gpu", MAX_GPU // WHOLE_GPU).tolist()
    times = table.decimals("iter_ms", _US_PLACES, _LONGEST_MS).tolist()
    found: dict[str, dict[int, int]] = {}
    for row, model in enumerate(table.columns["model"]):
        table.check_name(row, "model", model)
        sizes = found.setdefault(model, {})
        if gpus[row] == 0 or gpus[row] in sizes:
            raise table.error(row, "num_gpu", "expected at least one GPU, each number once a model")
        if times[row] == 0:
            raise table.error(row, "iter_ms", "expected a time above 0")
        sizes[gpus[row]] = times[row]
    return found


# Rounds of policy `deadline` from the jobs of a trace: which are taken, and what they become.
#
# A trace says when a job came and how long it ran, not when it began. A job that is alive at the
# moment of the round is taken to have run since it was submitted, so that the rest of its duration
# is its work, and it waits. A job that comes later is ready when it is submitted.

LEASE_S = 1200
GPU_MODEL = "gpu"
"""The traces do not name one."""

MAX_SLACK = 10

Speeds = Callable[[TraceJob], Mapping[int, Fraction]]
"""The numbers of GPUs that a job may have, its own among them, and its speed with each."""


def jobs_of(
    table: Table,
    submitted: str,
    most: int,
    due: Callable[[int, int], tuple[tuple[int, int], ...]],
    *,
    names: Sequence[str] | None = None,
    unit_s: int = 1,
    unit: str = "second",
) -> tuple[TraceJob, ...]:
    """Return the jobs of a table, in the order of submission; rows that ask no GPU are left out.

    Times of the columns `submitted` and `duration` are up to `most` units of `unit_s` seconds;
    `due` returns the deadlines of a row that was submitted at a second. `names` stand for ids.
    """
    if not table.lines:
        raise InvalidInputError("expected at least one job", file=table.file, show_value=False)
    ids, models = table.names("job_id"), table.columns["model_name"]
    asked = table.integers("num_gpu", MAX_COUNT).tolist()
    times = (unit_s * table.integers(submitted, most)).tolist()
    durations = (unit_s * table.integers("duration", most)).tolist()
    jobs = []
    for row, gpus in enumerate(asked):
        table.check_name(row, "model_name", models[row])
        if durations[row] == 0:
            raise table.error(row, "duration", f"expected at least one {unit}")
        if gpus:
            name = f"{models[row]}-{(names or ids)[row]}"
            when, length = times[row], durations[row]
            jobs.append(TraceJob(name, gpus, when, length, models[row], due(row, when)))
    return tuple(sorted(jobs, key=lambda job: job.submit_s))


def fixed(job: TraceJob) -> Mapping[int, Fraction]:
    """Return the one number of GPUs that a job asks."""
    return {job.gpus: Fraction(1)}


def deadline_of(
    job: TraceJob, now: int, *, slack: int = 0, paces: tuple[Pace, ...] = ()
) -> Deadline:
    """Return what a job of a trace is at `now`: the work that is left, and when it is due.

    `slack`: thousandths by which its work is taken to be more than recorded.
    """
    done = max(0, now - job.submit_s)
    return Deadline(
        work_s=max(1, job.work_s(slack) - done),
        due=tuple(Due(at=at, value=value) for at, value in job.due),
        ready=job.submit_s if job.submit_s > now else None,
        paces=paces,
    )


def job_of(
    job: TraceJob,
    now: int,
    *,
    slack: int = 0,
    speeds: Speeds = fixed,
    locality: Locality | None = None,
) -> Job:
    """Return the job of a round: an option per number of GPUs, its pace, its deadlines.

    Tasks are as large as hosts of 8 allow. With a `locality` that tells how much slower the model
    is on several hosts, tasks have one GPU each, so that they can lie there.
    """
    table = {} if locality is None else locality

    def groups(gpus: int) -> tuple[TaskGroup, ...]:
        if (job.model, gpus) in table:
            return (TaskGroup(count=gpus, gpu=1),)
        return (whole_tasks(gpus),)

    sizes = speeds(job)
    options, paces = elasticflow.options(sizes, job.gpus, groups=groups, overhead_s=overhead_s)
    paces = tuple(
        pace.model_copy(update={"spanning": table.get((job.model, gpus), ())})
        for gpus, pace in zip(sorted(sizes), paces, strict=True)
    )
    return Job(
        name=job.name,
        options=options,
        deadline=deadline_of(job, now, slack=slack, paces=paces),
    )


def deadline_round(
    name: str,
    trace: Sequence[TraceJob],
    sample: TraceSample,
    *,
    gpus: int,
    lease_s: int = LEASE_S,
    slack: float = 0.0,
    speeds: Speeds = fixed,
    locality: Locality | None = None,
    rows: int | None = None,
) -> Conversion:
    """Return the round of the jobs that `sample` takes, on hosts of 8 GPUs.

    The horizon reaches to the last deadline, as far as rounds allow. `slack`: part by which work is
    taken to be more than recorded, to a thousandth. `rows`: rows of the file; those that are not in
    `trace` asked no GPU. Raises `InvalidInputError`: for an argument out of its range, its path the
    name of the argument.
    """
    check_range("gpus", gpus, 1, MAX_GPU // WHOLE_GPU)
    check_range("lease_s", lease_s, 1, MAX_LENGTH)
    if not 0 <= slack <= MAX_SLACK:
        raise invalid_argument("slack", slack, f"expected 0 to {MAX_SLACK}")
    taken, now, which = sample.take(trace)
    last = max((job.due[-1][0] for job in taken if job.due), default=now)
    made = Round(
        name=name,
        now=now,
        cluster=hosts_of_eight(name, gpus, GPU_MODEL),
        jobs=tuple(
            job_of(job, now, slack=round(1000 * slack), speeds=speeds, locality=locality)
            for job in taken
        ),
        leases=Leases(
            length_s=lease_s, horizon=min(max(1, -(-(last - now) // lease_s)), MAX_HORIZON)
        ),
        policy=Policy(formulation="deadline"),
    )
    left_out = 0 if rows is None else rows - len(trace)
    return Conversion(made, _summary(made, taken, which, left_out))


def _summary(round_: Round, taken: Sequence[TraceJob], which: str, left_out: int) -> str:
    dues = [len(job.due) for job in taken]
    hopeless = [job for job in round_.jobs if not _can_finish(round_, job)]
    hosts = [host.gpus or 0 for host in round_.cluster.hosts for _ in expand(host.name)]
    kinds = dues.count(1), sum(due > 1 for due in dues), dues.count(0)
    later = sum(job.submit_s > round_.now for job in taken)
    parts = [
        f"{len(taken):,} jobs ({which})",
        "{:,} with a hard deadline, {:,} with soft ones, {:,} best effort".format(*kinds),
        f"{later:,} come later",
        f"{len(hopeless):,} cannot meet a deadline even alone",
        f"{len(hosts):,} hosts, {sum(hosts):,} GPUs",
        f"{round_.leases.horizon:,} leases of {round_.leases.length_s:,} s",
    ]
    if left_out:
        parts.insert(1, f"{left_out:,} more left out, asking no GPU")
    return f"{round_.name}: " + "; ".join(parts)


def _can_finish(round_: Round, job: Job) -> bool:
    """Say whether a job alone could meet its last deadline; one of best effort has none to meet."""
    asked, length = job.deadline, round_.leases.length_s
    if asked is None or not asked.due:
        return True
    largest = {"": max(host.gpus or 0 for host in round_.cluster.hosts)}
    first = round_.leases.first_usable(asked.ready, round_.now)
    for index, option in enumerate(job.options):
        pace, hosts = asked.pace(index), min_hosts(option, largest)
        leases = leases_needed(asked.work, pace, length, hosts)
        if leases is None:
            continue
        rest = asked.work - (leases - 1) * work_per_lease(pace, length, hosts)
        start = round_.leases.start(round_.now, first + leases - 1)
        if completion_time(start, rest, pace, hosts) <= asked.due[-1].at:
            return True
    return False
