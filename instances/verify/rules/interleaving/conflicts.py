"""The rule about conflicts: jobs that must not share a GPU.

Correlations are recomputed from deviations times the number of samples, in whole numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from operator import mul

from placewright.instances.verify.reading import PlacedTask, Reading
from placewright.instances.verify.result import Finding, Rule

PER_MILLE = 1000


def conflicts(reading: Reading) -> Iterator[Finding]:
    """Require of jobs that conflict no GPU in common, unless their group stays as it is.

    Jobs conflict that the round lists, and those whose `load` series have a correlation of at least
    `sharing.correlation` thousandths.
    """
    sharing = reading.round.sharing
    if not sharing.conflicts and sharing.correlation is None:
        return
    stays = {
        member.placed.job.name: number
        for number, group in enumerate(reading.groups)
        for member in group.members
        if group.stays
    }
    on_gpu: defaultdict[tuple[str, int], dict[str, PlacedTask]] = defaultdict(dict)
    for placed in reading.placed_tasks():
        for gpu in placed.task.gpus:
            on_gpu[placed.host.name, gpu][reading.plan.decisions[placed.decision].job] = placed
    together: dict[tuple[str, str], PlacedTask] = {}
    for tasks in on_gpu.values():
        together |= {
            (a, b): tasks[b]
            for a, b in combinations(sorted(tasks), 2)
            if a not in stays or stays[a] != stays.get(b)
        }
    listed = {frozenset(pair) for pair in sharing.conflicts}
    shared = {name for pair in together for name in pair}
    loads = {
        name: _Load(job.profile.load)
        for name, job in reading.jobs.items()
        if job.profile is not None and name in shared
    }
    for (one, other), task in together.items():
        if frozenset((one, other)) in listed:
            problem = "which the round forbids"
        elif (
            sharing.correlation is not None
            and one in loads
            and other in loads
            and loads[one].peaks_with(loads[other], sharing.correlation)
        ):
            problem = f"whose loads have a correlation of at least {sharing.correlation} / 1000"
        else:
            continue
        yield Finding(
            (*task.path, "gpus"),
            f"jobs {one!r} and {other!r} share a GPU of host {task.host.name!r}, {problem}; "
            "expected them apart",
        )


class _Load:
    """A series as each sample's distance from the mean, times the number of samples."""

    __slots__ = ("away", "square")

    def __init__(self, series: tuple[int, ...]) -> None:
        total = sum(series)
        self.away = tuple(len(series) * sample - total for sample in series)
        self.square: int = sum(map(mul, self.away, self.away))

    def peaks_with(self, other: _Load, threshold: int) -> bool:
        """Whether Pearson's coefficient is defined, and at least `threshold` thousandths.

        It is not for a series that never changes, so for none shorter than 2.
        """
        if len(self.away) != len(other.away) or not self.square or not other.square:
            return False
        common: int = sum(map(mul, self.away, other.away))
        needed = threshold * threshold * self.square * other.square
        return common >= 0 and PER_MILLE * PER_MILLE * common * common >= needed


RULES_OF_CONFLICTS: tuple[Rule[Reading], ...] = (Rule("conflicts", conflicts),)
