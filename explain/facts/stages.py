"""Facts of policy `stages`: a job begins if all that it waits for is done and a task has a place.

Of a gang all tasks need one, of any other job a single one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from placewright.explain.facts import gang
from placewright.explain.facts.asks import asks
from placewright.explain.facts.fact import (
    Edit,
    Fact,
    PolicyFacts,
    Situation,
    Stratum,
    World,
    carried_out,
    edit_job,
    named,
    without_waiting,
)
from placewright.explain.facts.rules import away, rules
from placewright.explain.places import GroupPlaces
from placewright.formulations.stages.problem import compile_stages
from placewright.instances.derived.phrases import span
from placewright.instances.derived.waiting import end_of
from placewright.instances.derived.waves import counted, without_done
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG


def base(round_: Round, job: str) -> Round:
    """Return the round in which one job waits beside what runs, and for those that lead to it.

    Of a job that is no gang one task is left.
    """
    jobs = {one.name: one for one in round_.jobs}
    leads, found = [job], {job}
    while leads:
        before = [name for name in after_of(jobs[leads.pop()]) if name in jobs]
        leads += [name for name in before if name not in found]
        found.update(before)
    kept = (one for one in round_.jobs if one.running is not None or one.name in found)
    jobs_left = tuple(_small(one) if one.name == job else one for one in kept)
    return round_.model_copy(update={"jobs": jobs_left})


def after_of(job: Job) -> tuple[str, ...]:
    """Return the jobs that a job waits for."""
    return () if job.stage is None else job.stage.after


def _small(job: Job) -> Job:
    """Return a job that waits, with one task in each option if it is no gang."""
    if job.stage is None or job.stage.gang:
        return job
    return counted(job, range(len(job.options)), 1)


def facts(situation: Situation, round_: Round, job: str) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    return [
        *asks(round_, job),
        *rules(round_, job),
        *away(round_, job),
        *_after(situation, named(job, round_)),
        *gang.jobs_that_run(situation, round_, job),
    ]


def _after(situation: Situation, job: Job) -> Iterator[Fact]:
    """Yield the jobs that a job waits for, who is done last first."""
    now, ends, jobs = situation.round.now, _ends(situation), situation.round.jobs
    running = {one.name for one in jobs if one.running is not None}
    for name in sorted(after_of(job), key=lambda one: -ends[one]):
        left = span(ends[name] - now)
        done = f"runs until {left}" if name in running else f"is done {left}"
        text = f"after {name}, which {done} from now{'' if name in running else ' at the earliest'}"
        about = {"job": name, "at": ends[name]}
        yield Fact(Stratum.HELD, "after", text, _waits_no_more(job.name, name), about)


@lru_cache(maxsize=2)
def _ends(situation: Situation) -> Mapping[str, int]:
    """Return when each job ends if it runs, or is done at the earliest, by critical paths."""
    round_ = situation.round
    problem, now = compile_stages(round_), round_.now
    done = (now + problem.head + problem.shortest).tolist()
    ends = {round_.jobs[j].name: end for j, end in zip(problem.jobs, done, strict=True)}
    return ends | {one.name: end_of(one, now) for one in round_.jobs if one.running is not None}


def _waits_no_more(job: str, name: str) -> Edit:
    return edit_job(job, lambda one: without_done((one,), (name,))[0])


def waits(world: World) -> bool:
    """Whether a job waits for one of the base round: that may run on, yet hold nothing."""
    after = after_of(named(world.job, world.round))
    return any(one.name in after for one in world.base.jobs)


def question(world: World) -> Round:
    """Return the round of gangs in which only the start of one job counts, held while it waits."""
    asked = as_gangs(world.round, world.job, held=waits(world))
    return gang.question(World(asked, world.job))


def as_gangs(round_: Round, job: str, *, held: bool = False) -> Round:
    """Return the round of gangs in which one job waits beside what runs."""
    alone = without_waiting(round_, job)
    policy = round_.policy.model_copy(update={"formulation": GANG.name, "terms": ("value",)})
    jobs = tuple(
        one.model_copy(update={"stage": None, "held": held and one.name == job})
        for one in alone.jobs
    )
    return alone.model_copy(update={"jobs": jobs, "policy": policy})


def places(round_: Round, job: str) -> tuple[GroupPlaces, ...]:
    """Return the nearest places of a job beside what runs."""
    return gang.places(as_gangs(round_, job), job)


def after(round_: Round, plan: Plan) -> Round:
    """Return the round that a plan leads to; what begins of a job has its name, not what is left.

    So that job starts, as the plan has it, and the wave is no job that ran before.
    """
    made, known, names = carried_out(round_, plan), {*round_.names}, dict[str, str]()
    for wave in (one.name for one in made.jobs if one.name not in known):
        whole = wave.rpartition("@")[0]
        names |= {wave: whole, whole: wave}
    jobs = (one.model_copy(update={"name": names.get(one.name, one.name)}) for one in made.jobs)
    return made.model_copy(update={"jobs": tuple(jobs)})


POLICY = PolicyFacts(base, facts, question, gang.started, places, after=after)
