"""What teams hold of hosts where they are, and whether one of more members may be there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from placewright.formulations.gang.quotas import held_by
from placewright.formulations.interleaving.compile import Interleaving
from placewright.formulations.interleaving.room import quota_left
from placewright.formulations.session import Place
from placewright.instances.job import Job, Running, TaskGroup
from placewright.instances.references import hosts_by_name


def running_of(job: Job) -> Running:
    """Return where a job runs; it must."""
    if job.running is None:
        raise AssertionError(f"job {job.name} does not run; expected one that does")
    return job.running


def places_of(problem: Interleaving, job: int) -> tuple[Place, ...]:
    """Return where a running job of the round is."""
    index = problem.cluster.host_index
    tasks = running_of(problem.round.jobs[job]).tasks
    return tuple((t.group, t.index, index[t.host], tuple(t.gpus)) for t in tasks)


def within_quotas(
    problem: Interleaving,
    starts: Mapping[int, tuple[int, tuple[Place, ...]]],
    preempted: Collection[int],
) -> bool:
    """Whether each tenant holds no more than its quota, or than it held before, after a plan."""
    left = quota_left(problem.round, ())
    for j, job in enumerate(problem.round.jobs) if left else ():
        option = starts[j][0] if j in starts else None
        if job.running is not None:
            option = None if j in preempted else job.running.option
        if option is None:
            continue
        for name, amount in held_by(job.options[option]).items():
            if (job.tenant or "", name) in left:
                left[job.tenant or "", name] -= amount
    return all(amount >= 0 for amount in left.values())


class Held:
    """What teams hold of hosts besides whole GPUs."""

    def __init__(self, problem: Interleaving) -> None:
        self._opened, self._names = problem.opened, problem.cluster.hosts
        by_name = hosts_by_name(problem.round.cluster)
        self._hosts = [by_name[name] for name in self._names]
        self._held: defaultdict[tuple[int, str], int] = defaultdict(int)

    def add(self, groups: Sequence[TaskGroup], places: Sequence[Place], times: int = 1) -> None:
        """Add what groups take in some places, or with -1 give it back."""
        for host, name, amount in _amounts(groups, places):
            self._held[host, name] += times * amount

    def admits(self, groups: Sequence[TaskGroup], places: Sequence[Place]) -> bool:
        """Whether these groups may arrive, and fit, in some places, of which GPUs are theirs."""
        for group, _, host, gpus in places:
            asked, has = groups[group].gpu_memory, self._hosts[host].gpu_memory
            if asked and (has is None or asked > has):
                return False
            if not all(self._opened(self._names[host], gpu) for gpu in gpus):
                return False
        more: defaultdict[tuple[int, str], int] = defaultdict(int)
        for host, name, amount in _amounts(groups, places):
            more[host, name] += amount
        return all(
            self._held[host, name] + amount <= self._hosts[host].capacity.get(name, 0)
            for (host, name), amount in more.items()
        )


def _amounts(
    groups: Sequence[TaskGroup], places: Sequence[Place]
) -> Iterator[tuple[int, str, int]]:
    for number, _, host, _ in places:
        group = groups[number]
        for name, amount in (("cpu", group.cpu), ("memory", group.memory)):
            if amount:
                yield host, name, amount
        for name, amount in group.resources.items():
            if amount:
                yield host, name, amount
