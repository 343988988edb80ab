"""Rules about jobs that take turns on GPUs: groups, conflicts, periods, throughput."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from operator import mul
from typing import Any, TypeGuard

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.profile import Profile
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.instances.errors import Path, value_text
from placewright.instances.verify.policies import PolicyRules, given, one_section, unknown_fields
from placewright.instances.verify.reading import (
    ClassTerm,
    Group,
    Member,
    Placed,
    PlacedTask,
    Reading,
    reserved_gpus,
)
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.gang.priority import by_class, classes_of, is_pinned
from placewright.instances.verify.rules.gang.reasons import RULES_OF_REASONS
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.instances.verify.rules.gang.waiting import Entitlement
from placewright.instances.verify.shared_gpus import Place, held, no_member, places, ran_together
from placewright.topology.units import MILLION, WHOLE_GPU

# Groups of a plan that share GPUs in turn.


KIND = "groups"


def with_groups(reading: Reading) -> Reading:
    """Return a reading with the groups of its plan, if there are some.

    Entries that make no sense are left out, and so are members that are not placed, have no
    profile, or are in a group already; the rules of the section report them.
    """
    groups = tuple(_groups(reading))
    return replace(reading, groups=groups, held=held(reading, groups)) if groups else reading


def entries(reading: Reading) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """Yield the entries of the first section `groups` that are mappings, and where they stand."""
    for index in given(reading, KIND)[:1]:
        for number, entry in enumerate(_list(reading.plan.sections[index].get("groups"))):
            if isinstance(entry, Mapping):
                yield ("sections", index, "groups", number), entry


def members(entry: Mapping[str, Any]) -> Iterator[tuple[int, str, int]]:
    """Yield number, job and offset of the members of an entry that have both."""
    for number, member in enumerate(_list(entry.get("members"))):
        if isinstance(member, Mapping):
            job, offset = member.get("job"), member.get("offset")
            if isinstance(job, str) and is_whole(offset):
                yield number, job, offset


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value of a section is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _groups(reading: Reading) -> Iterator[Group]:
    placed = {one.job.name: one for one in (*reading.kept, *reading.placed_anew)}
    before = ran_together(reading)
    taken: set[str] = set()
    for path, entry in entries(reading):
        mine: list[Member] = []
        for _, job, offset in members(entry):
            one = placed.get(job)
            if one is not None and one.job.profile is not None and job not in taken:
                taken.add(job)
                mine.append(Member(one, offset))
        if len(mine) > 1:
            period = entry.get("period")
            stays = _stays([member.placed for member in mine], before)
            yield Group(path, tuple(mine), period if is_whole(period) else None, stays)


def _stays(jobs: Sequence[Placed], before: Mapping[frozenset[Place], set[str]]) -> bool:
    running = jobs[0].job.running
    if running is None or any(one.decision.decision is not DecisionKind.KEEP for one in jobs):
        return False
    return before.get(places(running.tasks)) == {one.job.name for one in jobs}


# The rule about conflicts: jobs that must not share a GPU.
#
# Correlations are recomputed from deviations times the number of samples, in whole numbers.


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


RULES_OF_CONFLICTS = rules(conflicts)


# The plan section `groups`: the jobs that share GPUs in turn, and whether they may.


_ENTRY = ("members", "period")
_MEMBER = ("job", "offset")
# Members may differ in these; in everything else their first options are equal.
_OWN = {"name", "cpu", "memory", "resources", "gpu_memory"}


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require a list of groups of at least two members; `sections.section` applies it."""
    yield from unknown_fields(entry, ("kind", KIND), path, f"kind, {KIND}")
    listed = entry.get(KIND)
    if not isinstance(listed, list | tuple) or not listed:
        yield Finding(
            (*path, KIND), f"groups {value_text(listed)} is no list of groups; expected some group"
        )
        return
    for number, group in enumerate(listed):
        here: Path = (*path, KIND, number)
        if not isinstance(group, Mapping):
            yield Finding(here, f"{value_text(group)} is no group; expected {', '.join(_ENTRY)}")
            continue
        yield from unknown_fields(group, _ENTRY, here, ", ".join(_ENTRY))
        if not is_whole(group.get("period")):
            yield Finding(
                (*here, "period"),
                f"period {value_text(group.get('period'))} is no whole number; "
                "expected microseconds",
            )
        jobs = group.get("members")
        if not isinstance(jobs, list | tuple) or len(jobs) < 2:
            yield Finding(
                (*here, "members"),
                f"members {value_text(jobs)} are no list of two or more; expected a group",
            )
            continue
        for k, member in enumerate(jobs):
            if (
                not isinstance(member, Mapping)
                or member.keys() != set(_MEMBER)
                or not isinstance(member["job"], str)
                or not is_whole(member["offset"])
            ):
                yield Finding(
                    (*here, "members", k),
                    f"{value_text(member)} is no member; "
                    "expected the name of a job and a whole offset",
                )


def groups(reading: Reading) -> Iterator[Finding]:
    """Require one section at most, of jobs that are placed, each in one group."""
    yield from one_section(reading, KIND)
    placed = {one.job.name for one in (*reading.kept, *reading.placed_anew)}
    seen: set[str] = set()
    for path, entry in entries(reading):
        for number, job, _ in members(entry):
            problem = None
            if job not in placed:
                problem = "is not placed; expected jobs that start, migrate or are kept"
            elif job in seen:
                problem = "is in a group already; expected it once"
            seen.add(job)
            if problem is not None:
                yield Finding((*path, "members", number, "job"), f"job {value_text(job)} {problem}")


def group_members(reading: Reading) -> Iterator[Finding]:
    """Require members that can be in one group: alike, with whole GPUs and their first option."""
    everybody = (*reading.kept, *reading.placed_anew)
    chosen = {placed.job.name: placed.chosen for placed in everybody}
    for path, entry in entries(reading):
        first: tuple[Job, list[dict[str, Any]]] | None = None
        listed = list(members(entry))
        most = reading.round.sharing.most
        if len(listed) > most:
            yield Finding(
                (*path, "members"), f"{len(listed)} jobs share GPUs; expected at most {most}"
            )
        for number, name, _ in listed:
            if name not in chosen:
                continue
            job = reading.jobs[name]
            asked = _asked(job)
            if first is None:
                first = job, asked
            problem = no_member(job)
            if problem is None and chosen[name] != 0:
                problem = f"has option {chosen[name]}; expected the first option, 0"
            if problem is None and asked != first[1]:
                problem = (
                    f"asks for other places than job {first[0].name!r}; expected first options "
                    "that are equal but for CPU, memory and other resources of the host"
                )
            if problem is not None:
                yield Finding((*path, "members", number, "job"), f"job {name!r} {problem}")


def group_places(reading: Reading) -> Iterator[Finding]:
    """Require that members have their tasks, one by one, on the same hosts and GPUs."""
    for group in reading.groups:
        first = group.members[0].placed
        where = places(first.decision.tasks)
        for member in group.members[1:]:
            if places(member.placed.decision.tasks) != where:
                yield Finding(
                    (*member.placed.path, "tasks"),
                    f"job {member.placed.job.name!r} is not where job {first.job.name!r} of its "
                    "group is; expected the same hosts and GPUs, task by task",
                )


def pinned_group(reading: Reading) -> Iterator[Finding]:
    """Require that the group of a pinned job stays as it is."""
    fixed = {name for name, running in reading.running.items() if running.pinned}
    pinned = [one for one in reading.kept if one.job.name in fixed]
    before = ran_together(reading) if pinned else {}
    now = {
        member.placed.job.name: {other.placed.job.name for other in group.members}
        for group in reading.groups
        for member in group.members
    }
    for placed in pinned:
        name = placed.job.name
        there = before.get(places(reading.running[name].tasks), {name})
        if now.get(name, {name}) != there | {name}:
            yield Finding(
                placed.path,
                f"pinned job {name!r} takes turns with others than before; "
                "expected the jobs that ran on its GPUs, and no other",
            )


def _asked(job: Job) -> list[dict[str, Any]]:
    """Return what must be equal for all members."""
    first = job.options[0]
    asked = {"required": first.required, "hosts": first.hosts}
    return [asked, *(g.model_dump(exclude=_OWN) for g in first.groups)]


RULES_OF_GROUPS = rules(groups, group_members, group_places, pinned_group)


# Periods of groups, recomputed from the stages and offsets of their members.
#
# References
# ----------
# Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22; the stage that
# spans two slots is that of its published artifact.


def period_of(stages: Sequence[Sequence[int]], offsets: Sequence[int], sharing: Sharing) -> int:
    """Return the period of a group in microseconds, contention included.

    Parameters
    ----------
    stages
        Per member, the microseconds on each resource.
    offsets
        Per member, distinct and below `sharing.slots`.
    """
    if sharing.spanning:
        alone = _spanning(stages, offsets)
    else:
        slots = range(sharing.slots)
        alone = sum(
            max(
                times[(slot + offset) % len(slots)]
                for times, offset in zip(stages, offsets, strict=True)
            )
            for slot in slots
        )
    members = len(stages)
    factor = sharing.contention[members - 2] if members > 1 else MILLION
    return -(-alone * factor // MILLION)


def _spanning(stages: Sequence[Sequence[int]], offsets: Sequence[int]) -> int:
    """Return the least sum of four slots in which each job finds its three stages.

    A job's first stage needs two slots in a row, each other stage the slot after. Two of the four
    pairs of neighbours, opposite each other, are the whole period, so it is at least what either
    two pairs need; and one that long can always be divided so that each slot and each pair of
    neighbours has what it needs.
    """
    single, double = [0] * 4, [0] * 4
    for (first, second, third), offset in zip(stages, offsets, strict=True):
        start = -offset % 4
        double[start] = max(double[start], first)
        for slot, time in ((start + 2, second), (start + 3, third)):
            single[slot % 4] = max(single[slot % 4], time)
    pair = [max(double[s], single[s] + single[(s + 1) % 4]) for s in range(4)]
    return max(pair[0] + pair[2], pair[1] + pair[3])


# The verifier's own speed of a job that is alone on its GPUs.
#
# Formulations have theirs in `instances.derived.speed`; a test compares the two.


UNIT = 10**6
"""The speed at the proportional share, and of a job without a sensitivity."""


def speed_alone(job: Job, option: int) -> int:
    """Return the speed of a job with an option, in millionths of that at its proportional share.

    It is the entry of the largest grid point that asks no more CPU and memory per GPU than any of
    the option's task groups with GPUs has; 0 if every point asks more.
    """
    matrix = job.profile.sensitivity if job.profile is not None else None
    if matrix is None:
        return UNIT
    row, column = len(matrix.cores), len(matrix.memory)
    for group in job.options[option].groups:
        if group.gpu > 0:
            row = min(row, bisect_right(matrix.cores, group.cpu * WHOLE_GPU // group.gpu))
            column = min(column, bisect_right(matrix.memory, group.memory * WHOLE_GPU // group.gpu))
    return matrix.speeds[row - 1][column - 1] if row > 0 and column > 0 else 0


# Rules about time sharing: offsets and period of each group, and its speed-up.
#
# A group that stays as it is may be one that would not be formed now: only its offsets and its
# period are checked.


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
    out = reserved_gpus(reading.round, reading.cluster)
    return WHOLE_GPU * sum(
        facts.hardware.gpus - len(out.get(name, ()))
        for name, facts in reading.cluster.hosts.items()
        if facts.healthy
    )


RULES_OF_TURNS = rules(offsets, period, in_turn, slowdown, as_needed)


# The terms of groups, recomputed: throughput of jobs, and utilization of their resources.
#
# Throughput is in millionths of a job alone at its proportional share, and rounded down per job;
# the efficiency of a group is the mean busy share of the resources, in millionths, rounded down.


TERM = "weighted_throughput"


def throughput(reading: Reading) -> int:
    """Sum of the throughput of all placed jobs, each in millionths, rounded down.

    Alone a job's speed, in a group its speed * iteration / period.
    """
    return sum(each for _, each in _rates(reading))


def weighted_throughput(reading: Reading) -> int | dict[str, int]:
    """Sum of weight times throughput of all placed jobs; by priority class if there are several.

    A pinned job counts in no class.
    """
    classes = class_terms(reading.round)
    counted = (
        (job, 0, job.weight * each)
        for job, each in _rates(reading)
        if not classes or not is_pinned(job)
    )
    return by_class(reading.round, classes, counted)


def class_terms(round_: Round) -> dict[str, ClassTerm]:
    """Return the terms that `weighted_throughput` stands for in a round; {} if for itself."""
    if TERM not in round_.policy.by_class:
        return {}

    def worth(job: Job, option: int) -> int:
        return job.weight * speed_alone(job, option)

    return classes_of(TERM, round_.jobs, worth, Entitlement(round_).of)


def efficiency(reading: Reading) -> int:
    """Sum of the efficiencies of the groups, and of the jobs with a profile that are in none.

    Each is (all stages of all members) / (slots * period), in millionths, rounded down.
    """
    slots = reading.round.sharing.slots
    total = 0
    for group in reading.groups:
        period = recomputed(reading, group)
        if period:
            work = sum(sum(profile.stages) for profile in profiles_of(group))
            total += UNIT * work // (slots * period)
    for placed in _single(reading):
        profile = placed.job.profile
        if profile is not None:
            total += UNIT * sum(profile.stages) // (slots * profile.alone)
    return total


def _rates(reading: Reading) -> Iterator[tuple[Job, int]]:
    """Yield each placed job and its throughput, 0 where a group's offsets make no sense."""
    for group in reading.groups:
        period = recomputed(reading, group)
        for member, profile in zip(group.members, profiles_of(group), strict=True):
            job = member.placed.job
            yield job, speed_alone(job, 0) * profile.alone // period if period else 0
    for placed in _single(reading):
        yield placed.job, speed_alone(placed.job, placed.chosen)


def _single(reading: Reading) -> Iterator[Placed]:
    """Yield the placed jobs that are in no group."""
    grouped = {member.placed.position for group in reading.groups for member in group.members}
    for placed in (*reading.kept, *reading.placed_anew):
        if placed.position not in grouped:
            yield placed


# Rules and terms of the policy `interleaving`.


POLICY = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "throughput": throughput,
        "weighted_throughput": weighted_throughput,
        "efficiency": efficiency,
    },
    rules=(*RULES_OF_CONFLICTS, *RULES_OF_GROUPS, *RULES_OF_TURNS, *RULES_OF_REASONS),
    forms={KIND: form},
    read=with_groups,
    classes=class_terms,
)
