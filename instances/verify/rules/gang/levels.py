"""The rule about required levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule


def required_level(reading: Reading) -> Iterator[Finding]:
    """Require that a started or migrated group's tasks share a domain of its required level."""
    for placed in reading.placed_anew:
        if all(group.required is None for group in placed.option.groups):
            continue
        domains: defaultdict[int, set[str]] = defaultdict(set)
        for task in placed.tasks:
            if (level := task.group.required) is not None:
                position = reading.cluster.levels[level]
                domains[task.task.group].add(task.host.domains[position])
        for number, used in domains.items():
            if len(used) > 1:
                level = placed.option.groups[number].required
                yield Finding(
                    (*placed.path, "tasks"),
                    f"group {number} of job {placed.job.name!r} is in {len(used)} domains of level "
                    f"{level!r}, {min(used)!r} and {max(used)!r} among them; expected one",
                )


RULES_OF_LEVELS: tuple[Rule[Reading], ...] = (Rule("required_level", required_level),)
