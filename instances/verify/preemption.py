"""Rules about preemption: it serves a job of strictly higher priority, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.plan import DecisionKind
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule


def displaced_by(reading: Reading) -> Iterator[Finding]:
    """Require of a preempted job the name of one that displaces it, and of no other job a name.

    The job named has a strictly higher priority, and comes to one of the hosts that the preempted
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
    for path, job, decision in reading.preempted:
        by = decision.displaced_by
        if by is None:
            problem = f"job {job.name!r} is preempted for no job"
        elif by not in arrives or arrives[by].isdisjoint(_hosts(reading, job.name)):
            problem = f"job {by!r} does not come to a host of job {job.name!r}"
        elif reading.jobs[by].priority <= job.priority:
            problem = (
                f"job {by!r} of priority {reading.jobs[by].priority} displaces "
                f"job {job.name!r} of priority {job.priority}"
            )
        else:
            continue
        yield Finding(
            (*path, "displaced_by"),
            f"{problem}; expected one of strictly higher priority that comes to one of its hosts",
        )


def preemption(reading: Reading) -> Iterator[Finding]:
    """Require strictly higher priority of all that arrives where a job was preempted."""
    if not reading.preempted:
        return
    lowest: dict[str, tuple[int, str]] = {}
    for placed in reading.placed_anew:
        candidate = (placed.job.priority, placed.job.name)
        for arrival in placed.arrivals:
            host = arrival.host.name
            lowest[host] = min(lowest.get(host, candidate), candidate)
    for path, job, _ in reading.preempted:
        for host in _hosts(reading, job.name):
            if host in lowest and lowest[host][0] <= job.priority:
                priority, other = lowest[host]
                yield Finding(
                    path,
                    f"job {other!r} of priority {priority} arrives on host {host!r}, where "
                    f"job {job.name!r} of priority {job.priority} is preempted; "
                    "expected arrivals of strictly higher priority only",
                )


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
