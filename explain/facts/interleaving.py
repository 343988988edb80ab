"""Facts of policy `interleaving`: a job starts alone, or in a group with jobs that run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any

from placewright.explain.facts import gang
from placewright.explain.facts.asks import asks
from placewright.explain.facts.fact import (
    Edit,
    Fact,
    PolicyFacts,
    Situation,
    Stratum,
    World,
    edit_job,
    named,
    without_waiting,
)
from placewright.explain.facts.gang import jobs_that_run, started, stays
from placewright.explain.facts.rules import away, rules
from placewright.explain.places import GroupPlaces
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import grouping_key, running_groups
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import DisruptionLimits, Policy, PolicyLimits
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import MOST, Sharing
from placewright.instances.policies import GANG, INTERLEAVING

# Places of a job under policy `interleaving`: room of its own, or turns with jobs that run.


def places(round_: Round, job: str) -> tuple[GroupPlaces, ...]:
    """Return the nearest places of a job, and at the last group with whom it might take turns."""
    groups = running_groups(round_)
    policy = round_.policy.model_copy(update={"formulation": GANG.name, "keep_sizes": True})
    alone = _with_groups_as_jobs(round_, groups).model_copy(update={"policy": policy})
    *others, last = gang.places(alone, job)
    waits = named(job, round_)
    partners = tuple(_partners(round_, waits, groups)) if waits.profile is not None else None
    return (*others, replace(last, partners=partners))


def _with_groups_as_jobs(round_: Round, groups: Sequence[Sequence[int]]) -> Round:
    """Return the round in which each group that runs is one job, which holds what they all do."""
    first = {members[0]: [round_.jobs[j] for j in members] for members in groups}
    rest = {j for members in groups for j in members[1:]}
    jobs = tuple(
        _together(first[j]) if j in first else job
        for j, job in enumerate(round_.jobs)
        if j not in rest
    )
    return round_.model_copy(update={"jobs": jobs})


def _together(members: Sequence[Job]) -> Job:
    """Return a job that holds what a group does: its GPUs once, of CPU the most of one of them."""
    options = [member.options[0] for member in members]
    groups = tuple(starmap(_held, zip(*(option.groups for option in options), strict=True)))
    option = options[0].model_copy(update={"groups": groups})
    return members[0].model_copy(update={"options": (option, *members[0].options[1:])})


def _held(*groups: TaskGroup) -> TaskGroup:
    resources = {name: 0 for group in groups for name in group.resources}
    for group in groups:
        for name, amount in group.resources.items():
            resources[name] += amount
    return groups[0].model_copy(
        update={
            "cpu": max(group.cpu for group in groups),
            "memory": sum(group.memory for group in groups),
            "resources": resources,
        }
    )


def _partners(round_: Round, job: Job, groups: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield the running jobs and groups of the job's size with room for one more and no conflict.

    Whether their stages, load and memory suit the job is not asked.
    """
    key, sharing = grouping_key(job), round_.sharing
    conflicts = {name for pair in sharing.conflicts if job.name in pair for name in pair}
    in_groups = {j for members in groups for j in members}
    alone = ([j] for j, one in enumerate(round_.jobs) if one.running and j not in in_groups)
    for members in (*groups, *alone):
        jobs = [round_.jobs[j] for j in members]
        if key is None or len(jobs) >= sharing.most or grouping_key(jobs[0]) != key:
            continue
        if jobs[0].running is not None and jobs[0].running.option == 0:
            names = [one.name for one in jobs]
            if conflicts.isdisjoint(names):
                yield " + ".join(names)


# Running groups stay where they are, and a job may join one. What a job asks is dropped from one
# more option, since only equal first options take turns: without a fact it can still join whom it
# could join with it. With `as_needed` fewer jobs may mean fewer groups, so that there a fact less
# may be a place less; minimality is then what the plans of the proof say.


_NOBODY = DisruptionLimits(preempted_jobs=0, migrated_jobs=0)
_OF_EACH_MEMBER = "cpu", "memory", "resources", "gpu_memory"
"""Fields of a task group in which members of a group of jobs may differ."""


def base(round_: Round, job: str) -> Round:
    """Return the round in which one job waits beside what runs.

    With `as_needed` what other jobs ask that wait counts in what GPUs lack: they stay, and fit no
    host.
    """
    if not round_.sharing.as_needed:
        return without_waiting(round_, job)
    much = 1 + max((entry.cpu or 0 for entry in round_.cluster.hosts), default=0)
    jobs = (
        one if one.running is not None or one.name == job else _that_fits_nowhere(one, much)
        for one in round_.jobs
    )
    return round_.model_copy(update={"jobs": tuple(jobs)})


def _that_fits_nowhere(job: Job, cpu: int) -> Job:
    """Return a job of which each task asks more CPU than a host has."""

    def of_option(option: Option) -> Option:
        groups = tuple(group.model_copy(update={"cpu": cpu}) for group in option.groups)
        return option.model_copy(update={"groups": groups})

    return job.model_copy(update={"options": tuple(map(of_option, job.options))})


def facts(situation: Situation, round_: Round, job: str) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    return [
        *asks(round_, job),
        *_turns(round_, named(job, round_)),
        *rules(round_, job),
        *_groups(round_, named(job, round_)),
        *_conflicts(round_, job),
        *away(round_, job),
        *jobs_that_run(situation, round_, job),
    ]


def _turns(round_: Round, job: Job) -> Iterator[Fact]:
    """Yield what a job asks of those with whom it takes turns."""
    profile = job.profile
    if profile is None:
        return
    if profile.slowdown is not None:
        text = f"at most {profile.slowdown / 1000:g} times as slow in a group"
        yield Fact(Stratum.ASKS, "slowdown", text, _edit_profile(job.name, slowdown=None))
    if profile.load and round_.sharing.correlation is not None:
        text = "its load does not peak with others'"
        yield Fact(Stratum.ASKS, "load", text, _edit_profile(job.name, load=()))
    if profile.memory:
        percentile = round_.sharing.percentile
        used = amount_text("memory", profile.memory_at(percentile) or 0)
        text = f"{used} in a group (percentile {percentile})"
        yield Fact(Stratum.ASKS, "memory_series", text, _edit_profile(job.name, memory=(0,)))


def _groups(round_: Round, job: Job) -> Iterator[Fact]:
    """Yield the rules on groups: how many jobs may be in one, and that GPUs have to be short."""
    sharing = round_.sharing
    if job.profile is None:
        return
    if sharing.most < MOST:
        text = f"at most {sharing.most} jobs take turns on a GPU"
        yield Fact(Stratum.RULES, "most", text, _edit_sharing(most=MOST), {"most": sharing.most})
    if sharing.as_needed:
        text = "jobs take turns only where GPUs lack"
        yield Fact(Stratum.RULES, "as_needed", text, _edit_sharing(as_needed=False))


def _edit_sharing(**update: Any) -> Edit:
    def edit(round_: Round) -> Round:
        return round_.model_copy(update={"sharing": round_.sharing.model_copy(update=update)})

    return edit


def _edit_profile(name: str, **update: Any) -> Edit:
    def of_job(job: Job) -> Job:
        if job.profile is None:
            return job
        return job.model_copy(update={"profile": job.profile.model_copy(update=update)})

    return edit_job(name, of_job)


def _conflicts(round_: Round, job: str) -> Iterator[Fact]:
    """Yield the jobs with which a job never shares a GPU."""
    for pair in round_.sharing.conflicts:
        if job in pair:
            other = pair[0] if pair[1] == job else pair[1]
            text = f"never on one GPU with {other}"
            yield Fact(Stratum.RULES, "conflict", text, _without_conflict(pair), {"job": other})


def _without_conflict(pair: tuple[str, str]) -> Edit:
    def edit(round_: Round) -> Round:
        left = tuple(one for one in round_.sharing.conflicts if one != pair)
        sharing = round_.sharing.model_copy(update={"conflicts": left})
        return round_.model_copy(update={"sharing": sharing})

    return edit


def question(world: World) -> Round:
    """Return the round in which only one job counts, and nobody who runs moves or stops.

    Where nobody takes turns and the job could join nobody, that is a round of gangs.
    """
    round_ = world.round
    waits = _waits(named(world.job, round_), named(world.job, world.base))
    if _alone(round_, waits):
        alone = without_waiting(_as_gangs(round_), world.job)
        return gang.question(World(alone, world.job))
    policy = Policy(
        formulation=INTERLEAVING.name,
        terms=("weighted_throughput",),
        priority="preemption",
        limits=PolicyLimits(disruption=_NOBODY),
    )
    lost = {
        host for entry in round_.cluster.hosts if not entry.healthy for host in expand(entry.name)
    }
    jobs = tuple(waits if one.name == world.job else _runs(one, lost) for one in round_.jobs)
    return round_.model_copy(update={"jobs": jobs, "policy": policy})


def _alone(round_: Round, waits: Job) -> bool:
    """Whether no running job takes turns, and none is one with which the waiting job could."""
    if running_groups(round_):
        return False
    key = grouping_key(waits)
    running = (job for job in round_.jobs if job.running is not None)
    return key is None or all(grouping_key(job) != key for job in running)


def _as_gangs(round_: Round) -> Round:
    """Return the round of gangs in which nobody takes turns."""
    jobs = tuple(job.model_copy(update={"profile": None}) for job in round_.jobs)
    policy = round_.policy.model_copy(update={"formulation": GANG.name, "keep_sizes": True})
    return round_.model_copy(update={"jobs": jobs, "sharing": Sharing(), "policy": policy})


def _waits(job: Job, asked: Job) -> Job:
    """Return a job of a world with the option in front with which it can join a group.

    That is its first one as in the base round, but for amounts that members need not have alike.
    """
    groups = tuple(
        group.model_copy(update={name: getattr(left, name) for name in _OF_EACH_MEMBER})
        for group, left in zip(asked.options[0].groups, job.options[0].groups, strict=True)
    )
    joining = asked.options[0].model_copy(update={"groups": groups})
    options = job.options if joining == job.options[0] else (joining, *job.options)
    return job.model_copy(update={"weight": 1, "options": options})


def _runs(job: Job, lost: set[str]) -> Job:
    """Return another job: it counts nothing, and on a host that failed it is pinned.

    There it may be preempted whatever the limits are, and nobody may join it.
    """
    job = job.model_copy(update={"weight": 0})
    if job.running is not None and any(task.host in lost for task in job.running.tasks):
        return stays(job)
    return job


POLICY = PolicyFacts(base, facts, question, started, places)
