"""Presets that move running jobs or return hosts, as rounds that `solve_round` decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from pydantic import ValidationError

from placewright.instances.checks.round import checked, hosts_by_name, known_hosts
from placewright.instances.derived import ranges
from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.names import check_known, refuse_text
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Named, name_of
from placewright.instances.documents.policy import Freeing, TermName
from placewright.instances.documents.quantities import memory_text, whole_units
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import GANG, Priority
from placewright.topology.units import HOST_LEVEL

Key = TypeVar("Key")


def runs_of(entry: HostEntry, key_of: Callable[[str], Key]) -> Iterator[tuple[HostEntry, Key]]:
    """Yield a host entry as runs of hosts, by name, that have one key each."""
    names = ranges.expand(entry.name)
    keys = [key_of(name) for name in names]
    if all(key == keys[0] for key in keys):
        yield entry, keys[0]
        return
    prefix = entry.name.partition("[")[0]
    for key, group in groupby(zip(keys, names, strict=True), lambda pair: pair[0]):
        run = [name for _, name in group]
        first, last = run[0], run[-1]
        name = f"{prefix}[{first.removeprefix(prefix)}-{last.removeprefix(prefix)}]"
        yield entry.model_copy(update={"name": name if len(run) > 1 else first}), key


def with_health(cluster: ClusterDocument, health: Mapping[str, bool]) -> ClusterDocument:
    """Return the cluster with some hosts, by name, healthy or not; the order of hosts stays."""
    entries = tuple(part for entry in cluster.hosts for part in _split(entry, health))
    return cluster.model_copy(update={"hosts": entries})


def _split(entry: HostEntry, health: Mapping[str, bool]) -> Iterator[HostEntry]:
    for part, healthy in runs_of(entry, lambda name: health.get(name, entry.healthy)):
        yield part.model_copy(update={"healthy": healthy})


# Presets that move running jobs, as rounds that `solve_round` decides like any other.
#
# A preset replaces the terms of a round's policy, and what they need; reservations, quotas, limits
# and spread weights stay. Each is a pure function from a round to a round.
def drain(round: Round, hosts: Sequence[str]) -> Round:  # noqa: A002
    """Empty hosts: nothing arrives there, and as little as possible stays.

    The terms become `remaining`, `disruption`, `value`, `spread`, `opened`: pending jobs start
    where that disrupts nothing more.

    Parameters
    ----------
    round
        The round as it is.
    hosts
        Names or ranges (`h[0-3]`), at least one.

    Raises
    ------
    InvalidInputError
        If there is no host, or one is not of the cluster; the path begins with `hosts`.
    """
    round = checked(round)  # noqa: A001
    _expanded(round, hosts)
    terms: tuple[TermName, ...] = ("remaining", "disruption", "value", "spread", "opened")
    return with_policy(round, terms, vacate=tuple(hosts))


def hot_swap(round: Round, hosts: Sequence[str]) -> Round:  # noqa: A002
    """Replace hosts that failed: they are drained, and marked unhealthy.

    A range of hosts that holds some of them is split, in place: the order of hosts stays.

    Parameters
    ----------
    round
        The round as it is.
    hosts
        Names or ranges (`h[0-3]`), at least one.

    Raises
    ------
    InvalidInputError
        If there is no host, or one is not of the cluster; the path begins with `hosts`.
    """
    round = checked(round)  # noqa: A001
    cluster = with_health(round.cluster, dict.fromkeys(_expanded(round, hosts), False))
    return drain(round.model_copy(update={"cluster": cluster}), hosts)


def defragment(round: Round, level: str, gpu_worth_s: int) -> Round:  # noqa: A002
    """Free whole domains of a level where that is worth the disruption.

    The terms become `freed`, `spread`. Pending jobs are left out, and all running jobs get priority
    0, so that none is preempted.

    Parameters
    ----------
    round
        The round as it is.
    level
        A level of the cluster, or `host`.
    gpu_worth_s
        The exchange rate: GPU-seconds of disruption that freeing one GPU is worth.

    Raises
    ------
    InvalidInputError
        If the level is unknown or the worth is not an integer from 1 to 1,000,000.
    """
    round = checked(round)  # noqa: A001
    check_known(level, (*round.cluster.levels, HOST_LEVEL), "level", ("level",))
    try:
        freeing = Freeing(level=level, gpu_worth_s=gpu_worth_s)
    except ValidationError as error:
        raise invalid_input(error, Freeing) from None
    running = tuple(
        job.model_copy(update={"priority": 0}) for job in round.jobs if job.running is not None
    )
    alone = round.model_copy(update={"jobs": running})
    return with_policy(alone, ("freed", "spread"), freeing=freeing)


def minimal_victims(round: Round, job: str | Named) -> Round:  # noqa: A002
    """Start one pending job with the cheapest moves, resizes and preemptions that let it start.

    The terms become `value`, `disruption`, `spread`. Other pending jobs are left out, and running
    jobs are worth nothing, so that `value` is the job's alone. As ever, only jobs of strictly lower
    priority are preempted.

    Parameters
    ----------
    round
        The round as it is.
    job
        The pending job, or its name. Of its options, one of the highest value that can start is
        taken, whatever it displaces.

    Raises
    ------
    InvalidInputError
        If the job is unknown, runs already, or has no option of any value.
    """
    round = checked(round)  # noqa: A001
    jobs = {one.name: one for one in round.jobs}
    job = name_of(job)
    check_known(job, jobs, "job", ("job",))
    wanted = jobs[job]
    if wanted.running is not None:
        raise InvalidInputError("runs already; expected a pending job", ("job",), job)
    if not any(wanted.value_of(option) for option in range(len(wanted.options))):
        raise InvalidInputError(
            "is worth nothing in any option; expected a job of some value", ("job",), job
        )
    kept = tuple(
        one if one is wanted else without_value(one)
        for one in round.jobs
        if one is wanted or one.running is not None
    )
    alone = round.model_copy(update={"jobs": kept})
    terms: tuple[TermName, ...] = ("value", "disruption", "spread")
    return with_policy(alone, terms, priority="preemption", keep_sizes=False)


def with_policy(
    round_: Round,
    terms: tuple[TermName, ...],
    *,
    vacate: tuple[str, ...] = (),
    freeing: Freeing | None = None,
    priority: Priority | None = None,
    keep_sizes: bool = True,
) -> Round:
    """Return a round with policy `gang`, these terms, and no other setting than these four.

    `priority` is as it was by default, and running jobs move or stop but keep their sizes. Raises
    InvalidInputError if another formulation decides the round.
    """
    if not {"policy.vacate", "policy.freeing"} <= {*round_.policy.spec.fields}:
        raise InvalidInputError(
            f"has no presets; expected {GANG.name}",
            ("policy", "formulation"),
            round_.policy.formulation,
        )
    policy = round_.policy.model_copy(
        update={
            "terms": terms,
            "vacate": vacate,
            "freeing": freeing,
            "mix": None,
            "priority": priority or round_.policy.priority,
            "keep_sizes": keep_sizes or round_.policy.keep_sizes,
        }
    )
    return round_.model_copy(update={"policy": policy})


def _expanded(round_: Round, hosts: Sequence[str]) -> frozenset[str]:
    """Return the hosts that the names and ranges stand for."""
    refuse_text(hosts, "hosts", ("hosts",))
    if not hosts:
        raise InvalidInputError("expected at least one host", ("hosts",), hosts)
    known = hosts_by_name(round_.cluster)
    return frozenset(
        one for i, name in enumerate(hosts) for one in known_hosts(name, known, ("hosts", i))
    )


def without_value(job: Job) -> Job:
    """Return a running job with no value in any option."""
    options = tuple(
        option if option.value is None else option.model_copy(update={"value": None})
        for option in job.options
    )
    return job.model_copy(update={"weight": 0, "options": options})


# Loaned hosts and their cheapest return.
# Source: Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys'23 (as Aryl,
# arXiv 2202.07896), its server preemption cost: when the owner wants hosts back, those are chosen
# whose jobs are cheapest to preempt; a job on several of them is paid for once, and workers beyond
# a base demand cost nothing.
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
    refuse_text(hosts, "hosts", ("hosts",))
    known = hosts_by_name(round.cluster)
    loaned = dict.fromkeys(
        one for i, name in enumerate(hosts) for one in known_hosts(name, known, ("hosts", i))
    )
    if not 1 <= count <= len(loaned):
        raise InvalidInputError(f"expected 1 to {len(loaned)} hosts", ("count",), count)
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
                ("hosts",),
                tuple(hosts),
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
