"""Rules about preemption: only jobs of strictly higher precedence may displace a job.

A job that is promised the current lease comes before all others, an entitled one before a borrowed
one, and of equal entitlement the higher priority first. Who is on a host that is away may stop for
nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.verify.outages import unavailable_hosts
from placewright.instances.verify.reading import Placed, Preempted, Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.entitlement import Entitlement, Precedence


def displaced_by(reading: Reading) -> Iterator[Finding]:
    """Require that exactly the preempted jobs name the job that displaces them.

    The job named has a strictly higher precedence, and comes to one of the hosts that the preempted
    job ran on: with a task of a group that had none there before. A job that ran on a host which is
    away has to be placed anew, so that it comes to each of its hosts.
    """
    for index, decision in enumerate(reading.plan.decisions):
        if decision.displaced_by is not None and decision.decision is not DecisionKind.PREEMPT:
            yield Finding(
                ("decisions", index, "displaced_by"),
                f"displaced_by {decision.displaced_by!r} of job {decision.job!r}, "
                "which is not preempted; expected none",
            )
    if not reading.preempted:
        return
    gone = unavailable_hosts(reading)
    named = {victim.decision.displaced_by for victim in reading.preempted}
    comes = {placed.job.name: placed for placed in reading.placed_anew if placed.job.name in named}
    arrives = {
        name: {
            host
            for host, _ in {(a.host.name, a.task.group) for a in placed.arrivals}
            - _held(reading, name, gone)
        }
        for name, placed in comes.items()
    }
    entitlement = Entitlement(reading.round)
    for path, job, decision in _displaced(reading):
        by, mine = decision.displaced_by, _before(reading, entitlement, job)
        if by is None:
            problem = f"job {job.name!r} is preempted for no job"
        elif by not in arrives or arrives[by].isdisjoint(_hosts(reading, job.name)):
            problem = f"job {by!r} does not come to a host of job {job.name!r}"
        elif (theirs := _after(reading, entitlement, comes[by])) <= mine:
            problem = f"job {by!r} of {theirs} displaces job {job.name!r} of {mine}"
        else:
            continue
        yield Finding(
            (*path, "displaced_by"),
            f"{problem}; expected one of strictly higher precedence that comes to one of its hosts",
        )


def preemption(reading: Reading) -> Iterator[Finding]:
    """Require that all arrivals on hosts of a preempted job have strictly higher precedence."""
    if not reading.preempted:
        return
    entitlement = Entitlement(reading.round)
    left = {host for victim in reading.preempted for host in _hosts(reading, victim.job.name)}
    lowest: dict[str, tuple[Rank, str]] = {}
    for placed in reading.placed_anew:
        for host in left.intersection(arrival.host.name for arrival in placed.arrivals):
            candidate = (_after(reading, entitlement, placed), placed.job.name)
            lowest[host] = min(lowest.get(host, candidate), candidate)
    for path, job, _ in _displaced(reading):
        mine = _before(reading, entitlement, job)
        for host in _hosts(reading, job.name):
            if host in lowest and lowest[host][0] <= mine:
                theirs, other = lowest[host]
                yield Finding(
                    path,
                    f"job {other!r} of {theirs} arrives on host {host!r}, where "
                    f"job {job.name!r} of {mine} is preempted; "
                    "expected arrivals of strictly higher precedence only",
                )


class Rank(NamedTuple):
    """Whether a job is promised the current lease, and its precedence otherwise."""

    promised: bool
    precedence: Precedence

    def __str__(self) -> str:
        return f"{self.precedence}{', promised this lease' if self.promised else ''}"


def _after(reading: Reading, entitlement: Entitlement, placed: Placed) -> Rank:
    """Return the rank of a job that arrives somewhere; all that run and have a promise use it."""
    promised = reading.promise_of(placed.job.name) is not None
    return Rank(promised, entitlement.of(placed.job, placed.chosen))


def _before(reading: Reading, entitlement: Entitlement, job: Job) -> Rank:
    """Return the rank of a preempted job with the option that it ran."""
    return Rank(promised=False, precedence=entitlement.of(job, reading.running[job.name].option))


def _displaced(reading: Reading) -> Iterator[Preempted]:
    """Yield the preempted jobs, but for those that leave a host with an outage and name no job."""
    gone = unavailable_hosts(reading)
    for victim in reading.preempted:
        if victim.decision.displaced_by or gone.isdisjoint(_hosts(reading, victim.job.name)):
            yield victim


def _hosts(reading: Reading, job: str) -> list[str]:
    """Return the hosts that a running job runs on, each once."""
    return list(dict.fromkeys(task.host for task in reading.running[job].tasks))


def _held(reading: Reading, job: str, gone: frozenset[str]) -> set[tuple[str, int]]:
    """Return the (host, group) pairs of a job's running tasks, none if one of its hosts is gone."""
    running = reading.running.get(job)
    if running is None or not gone.isdisjoint(_hosts(reading, job)):
        return set()
    return {(task.host, task.group) for task in running.tasks}


RULES: tuple[Rule[Reading], ...] = (
    Rule("displaced_by", displaced_by),
    Rule("preemption", preemption),
)
