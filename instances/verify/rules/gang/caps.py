"""The rule about caps: limits on what the jobs that count in them hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from placewright.instances.documents.caps import Measure
from placewright.instances.documents.option import Option
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule


def cap(reading: Reading) -> Iterator[Finding]:
    """Require that the jobs of a cap hold no more than it, or than they held if that is more.

    As with quotas, only a cap in which a job starts can be exceeded anew.
    """
    last = {name: placed.path for placed in reading.started for name in placed.job.caps}
    changes: dict[str, Counter[Measure]] = {}
    before: dict[str, Counter[Measure]] = {}
    if not last:
        return
    for name in last:
        before[name], changes[name] = Counter(), Counter()
    for job in reading.running:
        for name in reading.jobs[job].caps:
            if name in last:
                before[name].update(counted(reading.option_run(job)))
    for placed in reading.started:
        for name in placed.job.caps:
            changes[name].update(counted(placed.option))
    for victim in reading.preempted:
        for name in victim.job.caps:
            if name in last:
                changes[name].subtract(counted(reading.option_run(victim.job.name)))
    for name, path in last.items():
        for measure, limit in reading.round.caps[name].limits.items():
            held = before[name][measure]
            after = held + changes[name][measure]
            if after > max(limit, held):
                yield Finding(
                    path,
                    f"jobs of cap {name!r} hold {measure.text(after)} together; expected at most "
                    f"{measure.text(max(limit, held))} (cap {measure.text(limit)}, "
                    f"held before the round {measure.text(held)})",
                )


def counted(option: Option) -> Mapping[Measure, int]:
    """Return what a job with an option counts in caps."""
    found: Counter[Measure] = Counter({Measure("jobs"): 1})
    for resource, amount in option.uses.items():
        found[Measure("resources", resource)] += amount
    for group in option.groups:
        found[Measure("gpus")] += group.count * group.gpu
        for model in set(group.gpu_models or ()):
            found[Measure("gpus_by_model", model)] += group.count * group.gpu
        for resource, amount in demand(group):
            found[Measure("resources", resource)] += group.count * amount
    return found


RULES_OF_CAPS: tuple[Rule[Reading], ...] = (Rule("cap", cap),)
