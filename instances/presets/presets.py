"""Presets that move running jobs, as rounds that `solve_round` decides like any other.

A preset replaces the terms of a round's policy, and what they need; reservations, quotas, limits
and spread weights stay. Each is a pure function from a round to a round.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from placewright.instances.checks.invalid_jobs import checked
from placewright.instances.checks.round import hosts_by_name, known_hosts
from placewright.instances.derived.names import check_known
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Freeing, TermName
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.validation_messages import invalid_input
from placewright.instances.policies import GANG, Priority
from placewright.instances.presets.health import with_health
from placewright.topology.units import HOST_LEVEL


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


def minimal_victims(round: Round, job: str) -> Round:  # noqa: A002
    """Start one pending job with the cheapest moves and preemptions that let it start.

    The terms become `value`, `disruption`, `spread`. Other pending jobs are left out, and running
    jobs are worth nothing, so that `value` is the job's alone. As ever, only jobs of strictly lower
    priority are preempted.

    Parameters
    ----------
    round
        The round as it is.
    job
        Name of the pending job. Of its options, one of the highest value that can start is taken,
        whatever it displaces.

    Raises
    ------
    InvalidInputError
        If the job is unknown, runs already, or has no option of any value.
    """
    round = checked(round)  # noqa: A001
    jobs = {one.name: one for one in round.jobs}
    check_known(job, jobs, "job", ("job",))
    wanted = jobs[job]
    if wanted.running is not None:
        raise InvalidInputError("runs already; expected a pending job", path=("job",), value=job)
    if not any(wanted.value_of(option) for option in range(len(wanted.options))):
        raise InvalidInputError(
            "is worth nothing in any option; expected a job of some value", path=("job",), value=job
        )
    kept = tuple(
        one if one is wanted else without_value(one)
        for one in round.jobs
        if one is wanted or one.running is not None
    )
    alone = round.model_copy(update={"jobs": kept})
    return with_policy(alone, ("value", "disruption", "spread"), priority="preemption")


def with_policy(
    round_: Round,
    terms: tuple[TermName, ...],
    *,
    vacate: tuple[str, ...] = (),
    freeing: Freeing | None = None,
    priority: Priority | None = None,
) -> Round:
    """Return a round with policy `gang`, these terms, and no other setting than these three.

    `priority` is as it was by default.

    Raises
    ------
    InvalidInputError
        Another formulation decides the round.
    """
    if not {"policy.vacate", "policy.freeing"} <= {*round_.policy.spec.fields}:
        raise InvalidInputError(
            f"has no presets; expected {GANG.name}",
            path=("policy", "formulation"),
            value=round_.policy.formulation,
        )
    policy = round_.policy.model_copy(
        update={
            "terms": terms,
            "vacate": vacate,
            "freeing": freeing,
            "mix": None,
            "priority": priority or round_.policy.priority,
        }
    )
    return round_.model_copy(update={"policy": policy})


def _expanded(round_: Round, hosts: Sequence[str]) -> frozenset[str]:
    """Return the hosts that the names and ranges stand for."""
    if not hosts:
        raise InvalidInputError("expected at least one host", path=("hosts",), value=hosts)
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
