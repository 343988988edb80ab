"""Rules about time sharing: offsets and period of each group, and its speed-up.

A group that stays as it is may be one that would not be formed now: only its offsets and its period
are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.profile import Profile
from placewright.instances.documents.quantities import amount_text
from placewright.instances.verify.reading import Group, Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.interleaving.periods import period_of
from placewright.instances.verify.shared_gpus import ran_together
from placewright.topology.units import WHOLE_GPU


def profiles_of(group: Group) -> list[Profile]:
    """Return the profiles of a group's members."""
    return [m.placed.job.profile for m in group.members if m.placed.job.profile is not None]


def recomputed(reading: Reading, group: Group) -> int | None:
    """Return the period of a group's offsets, None if they are not distinct or out of range."""
    sharing, offsets = reading.round.sharing, [member.offset for member in group.members]
    if len(set(offsets)) < len(offsets) or not all(0 <= o < sharing.slots for o in offsets):
        return None
    return period_of([profile.stages for profile in profiles_of(group)], offsets, sharing)


def offsets(reading: Reading) -> Iterator[Finding]:
    """Require distinct offsets of the members of a group, each a slot of the period."""
    slots = reading.round.sharing.slots
    for group in reading.groups:
        given = [member.offset for member in group.members]
        if recomputed(reading, group) is None:
            yield Finding(
                (*group.path, "members"),
                f"offsets {', '.join(map(str, given))} are not one slot for each member; "
                f"expected different ones from 0 to {slots - 1}",
            )


def period(reading: Reading) -> Iterator[Finding]:
    """Require the period that the members' stages and offsets make."""
    for group in reading.groups:
        right = recomputed(reading, group)
        if right is not None and group.period is not None and group.period != right:
            yield Finding(
                (*group.path, "period"),
                f"period {group.period} is not that of the offsets; expected {right}",
            )


def in_turn(reading: Reading) -> Iterator[Finding]:
    """Require that no group takes longer than its members would one after the other."""
    for group, took in _formed(reading):
        alone = sum(profile.alone for profile in profiles_of(group))
        if took > alone:
            yield Finding(
                (*group.path, "period"),
                f"the group takes {took} microseconds; expected at most {alone}, which its "
                "members take one after the other",
            )


def slowdown(reading: Reading) -> Iterator[Finding]:
    """Require that no member is slower than its cap allows."""
    for group, took in _formed(reading):
        for member, profile in zip(group.members, profiles_of(group), strict=True):
            cap = profile.slowdown
            if cap is not None and took * 1000 > cap * profile.alone:
                yield Finding(
                    (*group.path, "period"),
                    f"job {member.placed.job.name!r} takes {took} microseconds in its group and "
                    f"{profile.alone} alone; expected at most {cap} thousandths of that",
                )


def as_needed(reading: Reading) -> Iterator[Finding]:
    """Require that groups save no more GPUs than are missing, if the round says so.

    A group saves what all its members but one ask. Missing is what the first options of all jobs
    ask beyond the GPUs that are healthy and not reserved. So many may be saved, and up to one GPU
    less than a job with a profile asks on top, or as many as the groups save that run already.
    """
    if not reading.round.sharing.as_needed or not reading.groups:
        return
    saved = sum(
        _saved([m.placed.job.name for m in group.members], reading) for group in reading.groups
    )
    jobs = reading.round.jobs
    lack = sum(job.options[0].milli_gpu for job in jobs) - _usable(reading)
    largest = max((job.options[0].milli_gpu for job in jobs if job.profile is not None), default=0)
    needed = lack + largest - WHOLE_GPU if lack > 0 else 0
    before = sum(_saved(sorted(names), reading) for names in ran_together(reading).values())
    if saved > max(needed, before):
        yield Finding(
            (*reading.groups[0].path[:-1],),
            f"groups save {amount_text('gpu', saved)}; expected at most "
            f"{amount_text('gpu', max(needed, before))}, as "
            f"{amount_text('gpu', max(lack, 0))} are missing",
        )


def _formed(reading: Reading) -> Iterator[tuple[Group, int]]:
    """Yield the groups that do not just stay, and their periods."""
    for group in reading.groups:
        took = None if group.stays else recomputed(reading, group)
        if took is not None:
            yield group, took


def _saved(names: Sequence[str], reading: Reading) -> int:
    return sum(reading.jobs[name].options[0].milli_gpu for name in names[1:])


def _usable(reading: Reading) -> int:
    """Return the milli-GPU of healthy hosts that are not reserved."""
    reserved: dict[str, set[int] | None] = {}
    for entry in reading.round.reservations:
        for host in expand(entry.host):
            if entry.gpus is None:
                reserved[host] = None
            elif (some := reserved.setdefault(host, set())) is not None:
                some.update(entry.gpus)
    total = 0
    for name, facts in reading.cluster.hosts.items():
        out = reserved.get(name, set())
        if facts.healthy and out is not None:
            total += WHOLE_GPU * (facts.hardware.gpus - len(out))
    return total


RULES_OF_TURNS: tuple[Rule[Reading], ...] = (
    Rule("offsets", offsets),
    Rule("period", period),
    Rule("in_turn", in_turn),
    Rule("slowdown", slowdown),
    Rule("as_needed", as_needed),
)
