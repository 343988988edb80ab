"""Rules about topology constraints: joint levels, slices, domains, hosts, labels.

They speak of started and migrated jobs; kept jobs stay as they are, and count where others come.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule


def joint_level(reading: Reading) -> Iterator[Finding]:
    """Require that all tasks of an option share a domain of the level that it requires."""
    for placed in reading.placed_anew:
        level = placed.option.required
        if level is None:
            continue
        position = reading.cluster.levels[level]
        used = {task.host.domains[position] for task in placed.tasks}
        if len(used) > 1:
            yield Finding(
                (*placed.path, "tasks"),
                f"job {placed.job.name!r} is in {len(used)} domains of level {level!r}, "
                f"{min(used)!r} and {max(used)!r} among them; expected one for all groups",
            )


def slices(reading: Reading) -> Iterator[Finding]:
    """Require that the tasks of each slice of a group share a domain of the slices' level."""
    for placed in reading.placed_anew:
        if all(group.slices is None for group in placed.option.groups):
            continue
        domains: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
        for task in placed.tasks:
            if (asked := task.group.slices) is not None:
                position = reading.cluster.levels[asked.required]
                key = task.task.group, task.task.index // asked.size
                domains[key].add(task.host.domains[position])
        for (number, part), used in domains.items():
            if len(used) > 1:
                yield Finding(
                    (*placed.path, "tasks"),
                    f"slice {part} of group {number} of job {placed.job.name!r} is in {len(used)} "
                    f"domains, {min(used)!r} and {max(used)!r} among them; expected one",
                )


def apart(reading: Reading) -> Iterator[Finding]:
    """Require that no domain has more tasks of a group than the group allows."""
    for placed in reading.placed_anew:
        if all(group.apart is None for group in placed.option.groups):
            continue
        tasks: Counter[tuple[int, str]] = Counter()
        for task in placed.tasks:
            if (asked := task.group.apart) is not None:
                position = reading.cluster.levels[asked.level]
                tasks[task.task.group, task.host.domains[position]] += 1
        for (number, domain), count in tasks.items():
            asked = placed.option.groups[number].apart
            if asked is not None and count > asked.most:
                yield Finding(
                    (*placed.path, "tasks"),
                    f"{count} tasks of group {number} of job {placed.job.name!r} are in "
                    f"{domain!r}; expected at most {asked.most} in one {asked.level}",
                )


def num_hosts(reading: Reading) -> Iterator[Finding]:
    """Require that an option, and each of its groups, is on as many hosts as it asks for."""
    for placed in reading.placed_anew:
        asks = [(group.num_hosts, (number,)) for number, group in enumerate(placed.option.groups)]
        everywhere = tuple(range(len(asks)))
        for asked, numbers in [(placed.option.hosts, everywhere), *asks]:
            if asked is None:
                continue
            used = {task.host.name for task in placed.tasks if task.task.group in numbers}
            if len(used) < asked.min or len(used) > (asked.max or len(used)):
                who = f"group {numbers[0]} of " if len(numbers) < len(everywhere) else ""
                yield Finding(
                    (*placed.path, "tasks"),
                    f"{who}job {placed.job.name!r} is on {len(used)} hosts; expected "
                    f"{asked.min} to {asked.max or 'any number'}",
                )


def anti_affinity(reading: Reading) -> Iterator[Finding]:
    """Refuse an arrival in a domain where another job of the same label has a task."""
    if all(job.anti_affinity is None for job in reading.round.jobs):
        return
    holders: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    everybody = (*reading.kept, *reading.placed_anew)
    for placed in everybody:
        if (asked := placed.job.anti_affinity) is not None:
            position = reading.cluster.levels[asked.level]
            for task in placed.tasks:
                holders[asked.label, task.host.domains[position]].add(placed.job.name)
    for placed in reading.placed_anew:
        if (asked := placed.job.anti_affinity) is None:
            continue
        position = reading.cluster.levels[asked.level]
        for arrival in placed.arrivals:
            domain = arrival.host.domains[position]
            others = holders[asked.label, domain] - {placed.job.name}
            if others:
                yield Finding(
                    (*arrival.path, "host"),
                    f"job {placed.job.name!r} comes to {domain!r}, where {min(others)!r} has the "
                    f"label {asked.label!r}, too; expected another {asked.level}",
                )


RULES_OF_ARRANGEMENT: tuple[Rule[Reading], ...] = (
    Rule("joint_level", joint_level),
    Rule("slices", slices),
    Rule("apart", apart),
    Rule("num_hosts", num_hosts),
    Rule("anti_affinity", anti_affinity),
)
