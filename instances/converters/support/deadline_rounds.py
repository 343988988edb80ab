"""Rounds of policy `deadline` from the jobs of a trace: which are taken, and what they become.

A trace says when a job came and how long it ran, not when it began. A job that is alive at the
moment of the round is taken to have run since it was submitted, so that the rest of its duration is
its work, and it waits. A job that comes later is ready when it is submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from placewright.instances.converters.support.conversion import Conversion
from placewright.instances.converters.support.hosts import hosts_of_eight, whole_tasks
from placewright.instances.converters.support.locality import Locality
from placewright.instances.converters.support.sampling import (
    TraceSample,
    check_range,
    invalid_argument,
)
from placewright.instances.converters.support.trace_jobs import TraceJob, overhead_s
from placewright.instances.derived.leases import (
    completion_time,
    leases_needed,
    min_hosts,
    work_per_lease,
)
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.deadline import Deadline, Due, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import MAX_HORIZON, MAX_LENGTH, Leases
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.quantities import MAX_GPU
from placewright.instances.documents.round import Round
from placewright.instances.speed_models import elasticflow
from placewright.topology.units import WHOLE_GPU

LEASE_S = 1200
GPU_MODEL = "gpu"
"""The traces do not name one."""

MAX_SLACK = 10

Speeds = Callable[[TraceJob], Mapping[int, Fraction]]
"""The numbers of GPUs that a job may have, its own among them, and its speed with each."""


def fixed(job: TraceJob) -> Mapping[int, Fraction]:
    """Return the one number of GPUs that a job asks."""
    return {job.gpus: Fraction(1)}


def deadline_of(
    job: TraceJob, now: int, *, slack: int = 0, paces: tuple[Pace, ...] = ()
) -> Deadline:
    """Return what a job of a trace is at `now`: the work that is left, and when it is due.

    Parameters
    ----------
    slack
        Thousandths by which its work is taken to be more than recorded.
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

    The horizon reaches to the last deadline, as far as rounds allow.

    Parameters
    ----------
    slack
        Part by which work is taken to be more than recorded, to a thousandth.
    rows
        Rows of the file; those that are not in `trace` asked no GPU.

    Raises
    ------
    InvalidInputError
        For an argument out of its range, its path the name of the argument.
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
