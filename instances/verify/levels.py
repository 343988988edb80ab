"""The rule about required levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule


def required_level(reading: Reading) -> Iterator[Finding]:
    """Require that all tasks of a started group share a domain of its required level."""
    for placed in reading.started:
        if all(group.required is None for group in placed.option.groups):
            continue
        domains: defaultdict[int, set[str]] = defaultdict(set)
        for _, task, group, host in placed.tasks:
            if group.required is not None:
                domains[task.group].add(host.domains[reading.cluster.levels[group.required]])
        for number, used in domains.items():
            if len(used) > 1:
                level = placed.option.groups[number].required
                yield Finding(
                    (*placed.path, "tasks"),
                    f"group {number} of job {placed.job.name!r} is in {len(used)} domains of level "
                    f"{level!r}, {min(used)!r} and {max(used)!r} among them; expected one",
                )


RULES: tuple[Rule[Reading], ...] = (Rule("required_level", required_level),)
