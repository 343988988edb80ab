"""Checks of running jobs: their tasks fit the hosts and GPUs that they hold, and their profiles.

What is wrong is an `InvalidInputError` with its path in the Round document.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from placewright.instances.checks.policies import PolicyChecks
from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.names import check_known
from placewright.instances.derived.running_groups import (
    MarginalUsage,
    asks_whole_gpus,
    running_groups,
)
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.quantities import amount_text, memory_in_gi
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path
from placewright.topology.mig import NO_MIG, PRODUCTS, SLICES, Slice
from placewright.topology.units import WHOLE_GPU

# Checks of running tasks that share GPUs: MIG slices, and the memory of GPUs.


def check_parts(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse running tasks whose slices overlap or cannot be, or that overfill a GPU's memory.

    Parameters
    ----------
    round_
        Its running tasks are on GPUs of the cluster, which have the milli-GPU that they hold.
    hosts
        What each host of the cluster has, by name.
    """
    slices: defaultdict[tuple[str, int], list[tuple[Slice, int]]] = defaultdict(list)
    others: dict[tuple[str, int], Path] = {}
    memory: defaultdict[tuple[str, int], int] = defaultdict(int)
    for task, group, path in _tasks(round_):
        host = hosts[task.host]
        if group.mig is None:
            others |= {(task.host, gpu): path for gpu in task.gpus}
            if group.gpu_memory:
                _hold_memory(task, group, host, memory, path)
            continue
        kind = _kind(task, group.mig, host, path)
        gpu = (task.host, task.gpus[0])
        for other, start in slices[gpu]:
            first, last = (task.slot or 0) - other.size, (task.slot or 0) + kind.size
            if first < start < last or (kind.media and other.media):
                what = "both have media extensions" if kind.media and other.media else "overlap"
                raise InvalidInputError(
                    f"two slices of GPU {gpu[1]} of host {gpu[0]} {what}; "
                    "expected slices that can be on one GPU",
                    (*path, "slot"),
                    task.slot,
                )
        slices[gpu].append((kind, task.slot or 0))
    for gpu in slices:
        if gpu in others:
            raise InvalidInputError(
                f"GPU {gpu[1]} of host {gpu[0]} holds MIG slices; expected a GPU without any",
                (*others[gpu], "gpus"),
            )


def _tasks(round_: Round) -> Iterator[tuple[Task, TaskGroup, Path]]:
    """Yield all running tasks if any of them asks for a slice or for GPU memory."""
    grouped = {job for jobs in running_groups(round_) for job in jobs}
    running = [
        (i, job.running.tasks, _sized(round_, job) if i in grouped else _groups(job))
        for i, job in enumerate(round_.jobs)
        if job.running is not None
    ]
    if any(group.mig or group.gpu_memory for _, _, groups in running for group in groups):
        for i, tasks, groups in running:
            for j, task in enumerate(tasks):
                yield task, groups[task.group], ("jobs", i, "running", "tasks", j)


def _groups(job: Job) -> tuple[TaskGroup, ...]:
    return job.options[job.running.option if job.running else 0].groups


def _sized(round_: Round, job: Job) -> tuple[TaskGroup, ...]:
    """Return the task groups of a job in a group, with the GPU memory that it takes there."""
    size = job.profile.memory_at(round_.sharing.percentile) if job.profile else None
    if size is None:
        return _groups(job)
    return tuple(
        group.model_copy(update={"gpu_memory": size if group.gpu else 0}) for group in _groups(job)
    )


def _kind(task: Task, profile: str, host: Hardware, path: Path) -> Slice:
    profiles = PRODUCTS[host.product].profiles if host.product != NO_MIG else {}
    if profile not in profiles:
        known = f"one of {', '.join(profiles)}" if profiles else "a host whose GPUs can be cut"
        raise InvalidInputError(
            f"has no MIG profile {profile}; expected {known}", (*path, "host"), task.host
        )
    kind = SLICES[profiles[profile]]
    if task.slot not in kind.starts:
        missing = "missing; " if task.slot is None else ""
        raise InvalidInputError(
            f"{missing}expected a start of {profile}: {', '.join(map(str, kind.starts))}",
            path=(*path, "slot"),
            value=task.slot,
            show_value=task.slot is not None,
        )
    return kind


def _hold_memory(
    task: Task, group: TaskGroup, host: Hardware, held: dict[tuple[str, int], int], path: Path
) -> None:
    """Add a task's memory to what is held of each of its GPUs, or refuse it."""
    for k, gpu in enumerate(task.gpus):
        key = (task.host, gpu)
        held[key] = held.get(key, 0) + group.gpu_memory
        if held[key] > (host.gpu_memory or 0):
            has = "unknown memory" if host.gpu_memory is None else memory_in_gi(host.gpu_memory)
            raise InvalidInputError(
                f"running tasks hold {memory_in_gi(held[key])} of this GPU of host {task.host}, "
                f"which has {has}; expected no more than it has",
                (*path, "gpus", k),
                gpu,
            )


# Checks of running jobs: their tasks fit the hosts and GPUs that they hold.
#
# A running job on an unhealthy host is legal: the host failed under it. Jobs of one group hold
# their GPUs and CPU together.


def check_running(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse running jobs whose tasks are not all placed, not where they may be, or do not fit.

    Parameters
    ----------
    round_
        Its cluster must have passed `check_cluster`.
    hosts
        What each host of the cluster has, by name.
    """
    together = MarginalUsage(round_)
    held: defaultdict[str, dict[str, int]] = defaultdict(dict)
    held_gpus: defaultdict[str, dict[int, int]] = defaultdict(dict)
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        if job.running is None:
            continue
        path: Path = ("jobs", i, "running")
        with errors:
            if job.running.option >= len(job.options):
                raise InvalidInputError(
                    f"expected the index of an option, at most {len(job.options) - 1}",
                    (*path, "option"),
                    job.running.option,
                )
            costs = job.running.resize_costs
            if costs is not None and len(costs) != len(job.options):
                raise InvalidInputError(
                    f"{len(costs)} costs; expected one for each of {len(job.options)} options",
                    (*path, "resize_costs"),
                )
            if job.running.pin == "place" and not round_.lets_resize:
                raise InvalidInputError(
                    "no running job resizes under this policy, with backfill or with cells; "
                    "expected 'both'",
                    (*path, "pin"),
                    job.running.pin,
                )
            for field in ("checkpoint", "started"):
                moment = getattr(job.running, field)
                if moment is not None and moment > round_.now:
                    raise InvalidInputError(
                        f"is later than now; expected at most {round_.now}", (*path, field), moment
                    )
            option = job.options[job.running.option]
            _check_tasks(job.running, option, path)
            for j, task in enumerate(job.running.tasks):
                task_path: Path = (*path, "tasks", j)
                group = option.groups[task.group]
                host = hosts.get(task.host)
                if host is None:
                    raise InvalidInputError(
                        "unknown host; expected a host of the cluster",
                        (*task_path, "host"),
                        task.host,
                        unknown=(task.host, hosts),
                    )
                _check_gpus(task, group, host, task_path)
                beside = together.of(i, task, group)
                _hold(task, beside, host, held[task.host], task_path)
                _hold_gpus(task, beside, held_gpus[task.host], task_path)
    errors.refuse()
    _check_groups(round_)
    check_parts(round_, hosts)


def _check_tasks(running: Running, option: Option, path: Path) -> None:
    """Refuse tasks that are not each task of each group of the option, once."""
    seen: set[tuple[int, int]] = set()
    for j, task in enumerate(running.tasks):
        if task.group >= len(option.groups):
            raise InvalidInputError(
                f"expected the index of a task group, at most {len(option.groups) - 1}",
                (*path, "tasks", j, "group"),
                task.group,
            )
        count = option.groups[task.group].count
        if task.index >= count or (task.group, task.index) in seen:
            raise InvalidInputError(
                f"expected each of 0 to {count - 1} once in group {task.group}",
                (*path, "tasks", j, "index"),
                task.index,
            )
        seen.add((task.group, task.index))
    expected = sum(group.count for group in option.groups)
    if len(seen) < expected:
        raise InvalidInputError(
            f"{len(seen)} tasks; expected all {expected} of the option", (*path, "tasks")
        )


def _check_gpus(task: Task, group: TaskGroup, host: Hardware, path: Path) -> None:
    if group.gpu_models is not None and host.gpu_model not in group.gpu_models:
        raise InvalidInputError(
            f"has GPU model {host.gpu_model}; expected {' or '.join(group.gpu_models)}",
            (*path, "host"),
            task.host,
        )
    asked = -(-group.gpu // WHOLE_GPU)
    if len(task.gpus) != asked or len(set(task.gpus)) != asked:
        raise InvalidInputError(
            f"expected {asked} different GPU indices", (*path, "gpus"), task.gpus
        )
    if task.slot is not None and group.mig is None:
        raise InvalidInputError(
            "given for a task that asks for no MIG slice; expected none", (*path, "slot"), task.slot
        )
    for k, gpu in enumerate(task.gpus):
        if gpu >= host.gpus:
            raise InvalidInputError(
                f"expected a GPU of host {task.host}, which has {host.gpus} (from 0)",
                (*path, "gpus", k),
                gpu,
            )


def _hold(task: Task, group: TaskGroup, host: Hardware, held: dict[str, int], path: Path) -> None:
    """Add a task's resources to what its host holds, or refuse it for those it lacks."""
    for resource, amount in _demand(group):
        total = held.get(resource, 0) + amount
        capacity = host.capacity.get(resource, 0)
        if total > capacity:
            raise InvalidInputError(
                f"running tasks hold {amount_text(resource, total)} there; "
                f"expected at most {amount_text(resource, capacity)}",
                (*path, "host"),
                task.host,
            )
        held[resource] = total


def _hold_gpus(task: Task, group: TaskGroup, held: dict[int, int], path: Path) -> None:
    """Add a task's share of each of its GPUs to what is held of it, or refuse it."""
    share = min(group.gpu, WHOLE_GPU)
    for k, gpu in enumerate(task.gpus):
        total = held.get(gpu, 0) + share
        if total > WHOLE_GPU:
            raise InvalidInputError(
                f"running tasks hold {amount_text('gpu', total)} on this GPU of host {task.host}; "
                "expected at most 1",
                (*path, "gpus", k),
                gpu,
            )
        held[gpu] = total


def _demand(group: TaskGroup) -> Iterator[tuple[str, int]]:
    if group.cpu:
        yield "cpu", group.cpu
    if group.memory:
        yield "memory", group.memory
    for resource, amount in group.resources.items():
        if amount:
            yield resource, amount


def _check_groups(round_: Round) -> None:
    """Refuse groups that run with more jobs than a group may have."""
    most = min(round_.sharing.most, round_.sharing.slots)
    for jobs in running_groups(round_):
        if len(jobs) > most:
            raise InvalidInputError(
                f"runs on the GPUs of {len(jobs) - 1} others; expected at most {most} jobs in a "
                "group",
                ("jobs", jobs[most], "running"),
            )


# Checks of profiles and the section `sharing` against the rest of a round.


MAX_SAMPLES = 2_000_000
"""Samples of load and memory of all jobs together; a verification reads each a few times."""
MAX_LOADS = 2_000
"""Jobs whose loads are compared, each with each."""


def check_profiles(round_: Round) -> None:
    """Refuse profiles with a stage too many or too few, and those of jobs without GPUs."""
    resources = round_.sharing.resources
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        if job.profile is None:
            continue
        with errors:
            if len(job.profile.stages) != len(resources):
                raise InvalidInputError(
                    f"{len(job.profile.stages)} stages; "
                    f"expected {len(resources)}: {', '.join(resources)}",
                    ("jobs", i, "profile", "stages"),
                )
            if not job.options[0].milli_gpu:
                raise InvalidInputError(
                    "given for a job without GPUs; expected a first option with some",
                    ("jobs", i, "profile"),
                )
    errors.refuse()


def check_sharing(
    round_: Round,
    hosts: Mapping[str, Hardware],  # noqa: ARG001
) -> None:
    """Refuse conflicts of unknown jobs, and series too long to compare."""
    _check_conflicts(round_)
    _check_series(round_)


def _check_conflicts(round_: Round) -> None:
    """Refuse conflicts of jobs that are unknown, or could meet on shares of a GPU."""
    sharing, jobs = round_.sharing, {job.name: job for job in round_.jobs}
    errors = Errors()
    for i, pair in enumerate(sharing.conflicts):
        for k, name in enumerate(pair):
            path: Path = ("sharing", "conflicts", i, k)
            with errors:
                check_known(name, jobs, "job", path)
                if _takes_shares(jobs[name]):
                    raise InvalidInputError(
                        "is a job that asks for parts of GPUs; expected jobs of whole GPUs",
                        path,
                        name,
                    )
    errors.refuse()
    for i, job in enumerate(round_.jobs if sharing.correlation is not None else ()):
        if job.profile is not None and job.profile.load and _takes_shares(job):
            raise InvalidInputError(
                "given for a job that asks for parts of GPUs; expected whole GPUs, or no "
                "correlation",
                ("jobs", i, "profile", "load"),
            )


def _check_series(round_: Round) -> None:
    """Refuse utilization series whose pairwise comparison would take too long."""
    samples = loads = 0
    for i, job in enumerate(round_.jobs):
        if job.profile is None:
            continue
        loads += bool(job.profile.load)
        if round_.sharing.correlation is not None and loads > MAX_LOADS:
            raise InvalidInputError(
                f"given for more than {MAX_LOADS:,} jobs; expected that many at most, or no "
                "correlation",
                ("jobs", i, "profile", "load"),
            )
        for field, series in (("load", job.profile.load), ("memory", job.profile.memory)):
            samples += len(series)
            if samples > MAX_SAMPLES:
                raise InvalidInputError(
                    f"more than {MAX_SAMPLES:,} samples together with the jobs before; expected "
                    "shorter series",
                    ("jobs", i, "profile", field),
                )


def _takes_shares(job: Job) -> bool:
    return any(option.milli_gpu and not asks_whole_gpus(option) for option in job.options)


CHECKS = PolicyChecks(check_profiles, check_sharing)
"""What the policy `interleaving` refuses."""
