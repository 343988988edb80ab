"""Rules about preemption: it serves a job of strictly higher precedence, and nobody else.

An entitled job comes before a borrowed one, and of equal standing the higher priority first.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.job import Job
from placewright.instances.plan import DecisionKind
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.standing import Precedence, Standing


def displaced_by(reading: Reading) -> Iterator[Finding]:
    """Require of a preempted job the name of one that displaces it, and of no other job a name.

    The job named has a strictly higher precedence, and comes to one of the hosts that the preempted
    job ran on: with a task of a group that had none there before.
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
    arrives = {
        placed.job.name: {
            host
            for host, _ in {(a.host.name, a.task.group) for a in placed.arrivals}
            - _held(reading, placed.job.name)
        }
        for placed in reading.placed_anew
    }
    standing = Standing(reading.round)
    chosen = {placed.job.name: placed.chosen for placed in reading.placed_anew}
    for path, job, decision in reading.preempted:
        by, mine = decision.displaced_by, _before(reading, standing, job)
        if by is None:
            problem = f"job {job.name!r} is preempted for no job"
        elif by not in arrives or arrives[by].isdisjoint(_hosts(reading, job.name)):
            problem = f"job {by!r} does not come to a host of job {job.name!r}"
        elif (theirs := standing.of(reading.jobs[by], chosen[by])) <= mine:
            problem = f"job {by!r} of {theirs} displaces job {job.name!r} of {mine}"
        else:
            continue
        yield Finding(
            (*path, "displaced_by"),
            f"{problem}; expected one of strictly higher precedence that comes to one of its hosts",
        )


def preemption(reading: Reading) -> Iterator[Finding]:
    """Require strictly higher precedence of all that arrives where a job was preempted."""
    if not reading.preempted:
        return
    standing = Standing(reading.round)
    lowest: dict[str, tuple[Precedence, str]] = {}
    for placed in reading.placed_anew:
        candidate = (standing.of(placed.job, placed.chosen), placed.job.name)
        for arrival in placed.arrivals:
            host = arrival.host.name
            lowest[host] = min(lowest.get(host, candidate), candidate)
    for path, job, _ in reading.preempted:
        mine = _before(reading, standing, job)
        for host in _hosts(reading, job.name):
            if host in lowest and lowest[host][0] <= mine:
                theirs, other = lowest[host]
                yield Finding(
                    path,
                    f"job {other!r} of {theirs} arrives on host {host!r}, where "
                    f"job {job.name!r} of {mine} is preempted; "
                    "expected arrivals of strictly higher precedence only",
                )


def _before(reading: Reading, standing: Standing, job: Job) -> Precedence:
    """Return the precedence of a running job with the option that it runs."""
    return standing.of(job, reading.running[job.name].option)


def _hosts(reading: Reading, job: str) -> list[str]:
    """Return the hosts that a running job runs on, each once."""
    return list(dict.fromkeys(task.host for task in reading.running[job].tasks))


def _held(reading: Reading, job: str) -> set[tuple[str, int]]:
    """Return the (host, group) pairs of a job's running tasks."""
    running = reading.running.get(job)
    return set() if running is None else {(task.host, task.group) for task in running.tasks}


RULES: tuple[Rule[Reading], ...] = (
    Rule("displaced_by", displaced_by),
    Rule("preemption", preemption),
)
