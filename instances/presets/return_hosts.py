"""Loaned hosts and their cheapest return.

References
----------
Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys'23 (as Aryl, arXiv
2202.07896), its server preemption cost: when the owner wants hosts back, those are chosen whose
jobs are cheapest to preempt; a job on several of them is paid for once, and workers beyond a base
demand cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.instances.checks.invalid_jobs import checked
from placewright.instances.checks.round import hosts_by_name, known_hosts
from placewright.instances.derived.hardware import Hardware
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import memory_text, whole_units
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.presets.presets import with_policy, without_value

MAX_OPTIONS = 64
RETURNED = "returned-hosts"
HIGHEST_PRIORITY = 10**9


def return_hosts(round: Round, hosts: Sequence[str], count: int) -> Round:  # noqa: A002
    """Give back some of the loaned hosts, those that cost least to empty.

    A job of the highest priority takes as many whole hosts among them: those that it gets are to be
    returned, and whom it displaces is preempted or moves. The terms become `value`, `disruption`;
    pending jobs are left out, and running jobs are worth nothing.

    Parameters
    ----------
    round
        The round as it is. Workers that may stop at no cost, such as those beyond a base demand,
        are running jobs of their own with `preempt_cost` 0.
    hosts
        The loaned hosts, names or ranges (`h[0-3]`).
    count
        How many of them to give back. What is unhealthy, reserved or held by a pinned job is not
        among them.

    Raises
    ------
    InvalidInputError
        If a host is not of the cluster, there are fewer than `count`, or too many ways to choose
        among their kinds of hardware.
    """
    round = checked(round)  # noqa: A001
    known = hosts_by_name(round.cluster)
    loaned = dict.fromkeys(
        one for i, name in enumerate(hosts) for one in known_hosts(name, known, ("hosts", i))
    )
    if not 1 <= count <= len(loaned):
        raise InvalidInputError(f"expected 1 to {len(loaned)} hosts", path=("count",), value=count)
    kinds: dict[tuple[object, ...], list[str]] = {}
    for name in loaned:
        kind = (known[name].gpus, *sorted(known[name].capacity.items()))
        kinds.setdefault(kind, []).append(name)
    numbers = [len(names) for names in kinds.values()]
    options: list[Option] = []
    for chosen in _splits(count, numbers):
        if len(options) == MAX_OPTIONS:
            raise InvalidInputError(
                f"{len(kinds)} kinds of hosts to choose from; expected fewer",
                path=("hosts",),
                value=tuple(hosts),
            )
        groups = tuple(
            _whole(number, names, known[names[0]])
            for number, names in zip(chosen, kinds.values(), strict=True)
            if number
        )
        options.append(Option(groups=groups, value=1))
    running = [job for job in round.jobs if job.running is not None]
    job = Job(name=_free_name(running), priority=HIGHEST_PRIORITY, options=tuple(options))
    jobs = (*(_below(without_value(one)) for one in running), job)
    returned = round.model_copy(update={"jobs": jobs})
    return with_policy(returned, ("value", "disruption"), priority="preemption")


def _whole(count: int, names: list[str], hardware: Hardware) -> TaskGroup:
    """Return a task group that fills that many hosts of one kind of hardware."""
    capacity = dict(hardware.capacity)
    return TaskGroup(
        name="hosts",
        count=count,
        gpu=hardware.gpus,
        cpu=whole_units(capacity.pop("cpu")),
        memory=memory_text(capacity.pop("memory")),
        resources=capacity,
        hosts=tuple(names),
        preferred=(),
    )


def _splits(count: int, numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the ways to split `count` between kinds, at most as many of each as there are."""
    if not numbers:
        if count == 0:
            yield ()
        return
    for first in range(min(count, numbers[0]), -1, -1):
        for rest in _splits(count - first, numbers[1:]):
            yield (first, *rest)


def _free_name(jobs: Sequence[Job]) -> str:
    names = {job.name for job in jobs}
    number = 1
    name = RETURNED
    while name in names:
        number += 1
        name = f"{RETURNED}-{number}"
    return name


def _below(job: Job) -> Job:
    """Return the job with a priority below the highest."""
    return job.model_copy(update={"priority": min(job.priority, HIGHEST_PRIORITY - 1)})
