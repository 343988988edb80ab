"""A fact: a sentence of a round or plan, and the edit that takes it away; in which situation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.explain.places import GroupPlaces
from placewright.formulations.gang.problem.shapes import host_mask
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.names import AllowedHosts
from placewright.instances.derived.waves import without_done
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import PolicyRegistry
from placewright.rounds.state.changes import apply_plan
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

# A fact: a sentence of a round or plan, and the edit that takes it away.
#
# A **world** is the round in which some facts hold and no others. Edits only remove: what a job
# asks, a rule that binds it, what keeps room from it. So a job that starts in a world starts in
# every world of fewer facts, too.


Edit: TypeAlias = Callable[[Round], Round]
"""What turns a round into one in which a fact does not hold."""

GroupEdit: TypeAlias = Callable[[Round, Collection[str]], Round]
Partitions: TypeAlias = Callable[[Sequence["Fact"]], Iterable[Sequence["Fact"]]]


class Stratum(IntEnum):
    """How lasting a fact is, the most lasting first."""

    ASKS = 1
    RULES = 2
    AWAY = 3
    HELD = 4
    TAKEN = 5

    @property
    def title(self) -> str:
        """The name in documents."""
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Fact:
    """A sentence of a round, or of its plan.

    Parameters
    ----------
    stratum, kind
        Which section it is of, and what it speaks of, such as `gpu`, `quota` or `jobs`.
    text
        The sentence.
    edit
        The round without it; a second time it changes nothing.
    about
        What the sentence says as fields of a document: amounts in small units, names.
    names
        Of a group, the hosts or jobs that it speaks of.
    together
        Of a group, the edit of any names: edits of several groups at once.
    partitions
        Of a group that can fall apart, the ways in which it does, the coarsest first; each is a
        list of facts that together are this one. The sentences of the conflict so far are given. A
        fact that is all of a partition has fewer of them.
    """

    stratum: Stratum
    kind: str
    text: str
    edit: Edit
    about: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    together: GroupEdit | None = None
    partitions: Partitions | None = None


def group(
    stratum: Stratum,
    kind: str,
    text: str,
    names: Sequence[str],
    together: GroupEdit,
    about: Mapping[str, Any],
    partitions: Partitions,
) -> Fact:
    """Return the fact of some hosts or jobs; one of a single name does not fall apart."""

    def edit(round_: Round) -> Round:
        return together(round_, names)

    apart = partitions if len(names) > 1 else None
    return Fact(stratum, kind, text, edit, about, tuple(names), together, apart)


def ended_jobs(names: Sequence[str]) -> Fact:
    """Return the fact that some jobs run: without it they have ended, and nobody waits for them."""

    def ended(round_: Round, names: Collection[str]) -> Round:
        left = round_.without_jobs(names)
        return left.model_copy(update={"jobs": without_done(left.jobs, names)})

    return group(Stratum.HELD, "jobs", "", names, ended, {}, lambda _: ())


@dataclass(frozen=True, eq=False)
class World:
    """A round in which only some facts hold.

    Parameters
    ----------
    base
        The round in which all of them do: besides one pending job only such as run.
    job
        Name of the pending job.
    removed
        The facts that do not hold, in the order of their edits: the least preferred first.
    """

    base: Round
    job: str
    removed: tuple[Fact, ...] = ()

    @cached_property
    def round(self) -> Round:
        """The round as a document."""
        names: dict[GroupEdit, list[str]] = {}
        for fact in self.removed:
            if fact.together is not None:
                names.setdefault(fact.together, []).extend(fact.names)
        round_ = self.base
        for together, all_names in names.items():
            round_ = together(round_, frozenset(all_names))
        for fact in self.removed:
            if fact.together is None:
                round_ = fact.edit(round_)
        return round_


def edit_job(name: str, change: Callable[[Job], Job]) -> Edit:
    """Return the edit that changes one job."""

    def edit(round_: Round) -> Round:
        jobs = tuple(change(job) if job.name == name else job for job in round_.jobs)
        return round_.model_copy(update={"jobs": jobs})

    return edit


def named(job: str, round_: Round) -> Job:
    """Return a job of a round by its name; those that wait mostly are the last ones."""
    return next(one for one in reversed(round_.jobs) if one.name == job)


def without_waiting(round_: Round, job: str, names: Collection[str] = ()) -> Round:
    """Return the round in which nobody waits but one job; `names` are left out as well."""
    others = {one.name for one in round_.jobs if one.running is None and one.name != job}
    return round_.without_jobs(others.union(names))


# Who holds what in a round, as arrays: the same beside whichever job waits there.


Holds: TypeAlias = Callable[[Job], bool]
"""Whether a job holds something."""

Verb: TypeAlias = tuple[str, str]
"""What jobs do, said of one and of several: `runs`, `run`."""

Takes: TypeAlias = Callable[[Job, Job | None], Verb | None]
"""What a job does by a plan, as it is after and before it; None if it did so before."""


class Holding:
    """The jobs that hold something in a round.

    Attributes
    ----------
    jobs
        In the order of the round.
    index
        Where they are in `jobs`, by name.
    verbs
        What each does by the plan; None if it did so before, or there is no plan.
    taken
        Whether it holds that by the plan alone (jobs,).
    milli_gpu
        What each asks with the option that it runs, or with its first one (jobs,).
    milli_cpu
        What each that runs has (jobs,).
    """

    def __init__(
        self, round_: Round, before: Round | None, cluster: Cluster, holds: Holds, takes: Takes
    ) -> None:
        self.jobs = tuple(filter(holds, round_.jobs))
        self.index = {job.name: j for j, job in enumerate(self.jobs)}
        known = {} if before is None else {job.name: job for job in before.jobs}
        self.verbs = [takes(job, known.get(job.name)) for job in self.jobs]
        self.taken = np.array([verb is not None for verb in self.verbs], dtype=np.bool_)
        self._runs = np.array([job.running is not None for job in self.jobs], dtype=np.bool_)
        host_index = cluster.host_index
        rows: list[tuple[int, int, int, int]] = []
        milli: list[int] = []
        self.milli_cpu = np.zeros(len(self.jobs), dtype=np.int64)
        for j, job in enumerate(self.jobs):
            if job.running is None:
                milli.append(job.options[0].milli_gpu)
                continue
            groups = job.options[job.running.option].groups
            asked = [(host_index[t.host], groups[t.group]) for t in job.running.tasks]
            rows += [(j, host, group.gpu, group.cpu) for host, group in asked]
            milli.append(sum(group.gpu for _, group in asked))
            self.milli_cpu[j] = sum(group.cpu for _, group in asked)
        self.milli_gpu = np.array(milli, dtype=np.int64)
        self._tasks = np.array(rows, dtype=np.int64).reshape(-1, 4)

    def on(self, hosts: Bools) -> tuple[Ints, Ints, Bools]:
        """Return milli-GPU and milli-cores of each job on some hosts, and whether it is there.

        Jobs that do not run could have one anywhere, and hold no GPUs.
        """
        there = self._tasks[hosts[self._tasks[:, 1]]]
        held, has_task = np.zeros((2, len(self.jobs)), dtype=np.int64), ~self._runs
        for amounts, column in zip(held, (2, 3), strict=True):
            np.add.at(amounts, there[:, 0], there[:, column])
        has_task[there[:, 0]] = True
        return held[0], held[1], has_task


def able_hosts(cluster: Cluster, round_: Round, job: Job) -> Bools:
    """Return which hosts could hold a task of a job, were they empty (hosts,)."""
    allowed = AllowedHosts(round_.host_sets)
    groups = (group for option in job.options for group in option.groups)
    able = np.zeros(cluster.num_hosts, dtype=np.bool_)
    for group in groups:
        able |= hosts_for(cluster, allowed, group)
    return able


def hosts_for(cluster: Cluster, allowed: AllowedHosts, asked: TaskGroup) -> Bools:
    """Return which hosts could hold a task of a group, were they empty (hosts,)."""
    able = cluster.gpu_count * WHOLE_GPU >= asked.gpu
    amounts: Mapping[str, int] = {"cpu": asked.cpu, "memory": asked.memory, **asked.resources}
    for name, amount in amounts.items():
        if name in cluster.resources:
            able &= cluster.capacity[:, cluster.resources.index(name)] >= amount
        elif amount:
            able &= False
    if asked.gpu_models is not None:
        models = [m for m, name in enumerate(cluster.gpu_models) if name in asked.gpu_models]
        able &= np.isin(cluster.gpu_model, models)
    named = allowed.of(asked)
    return able if named is None else able & host_mask(cluster, tuple(named))


# A situation: a round as it is or after a plan, with what all jobs that wait in it meet alike.


class Situation:
    """A round in which jobs wait, now or after a plan.

    Parameters
    ----------
    round_
        The round as it is, or as the plan leaves it.
    before
        The round before the plan; None without one.
    """

    def __init__(self, round_: Round, before: Round | None = None) -> None:
        self.round = round_
        self._before = before
        self._holding: dict[tuple[Holds, Takes], Holding] = {}

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster as arrays."""
        return build_cluster(self.round.cluster)

    def holding(self, holds: Holds, takes: Takes) -> Holding:
        """Return who holds what, as told by two functions; made once for the same two."""
        if (holds, takes) not in self._holding:
            held = Holding(self.round, self._before, self.cluster, holds, takes)
            self._holding[holds, takes] = held
        return self._holding[holds, takes]


# What a plan takes: the jobs that it starts or moves, beside those that it keeps.


START, MOVE = ("starts", "start"), ("moves", "move")


def carried_out(round_: Round, plan: Plan) -> Round:
    """Return the round that a valid plan leads to."""
    return apply_plan(round_, plan, {})


def taken_by(job: Job, before: Job | None) -> Verb | None:
    """Return what a job does by a plan, said of one and of several; None if it is kept."""
    if before is None or job.running is None:
        return None
    if before.running is None:
        return START
    return None if before.running.tasks == job.running.tasks else MOVE


# What explaining needs to know of each policy.


class PolicyFacts(NamedTuple):
    """The facts of a policy, and the question whether a job starts if nobody moves or stops.

    `base` returns the round in which all facts hold: of the round of a situation what runs or holds
    something, and one job that waits. `facts` returns them in the order of preference, for a
    situation, a base round of it and the job. `question` turns a world into a round whose best plan
    answers the question: a plan that does not start the job can be made better in one of its terms
    by starting it, and in no other way. `started` returns the names of the jobs that a plan for it
    starts. `places` returns the nearest places of the job's first option in a base round. `answers`
    tells of a plan for the question's round whether it answers yes, where that is more than that
    the job starts. `given` returns the round beside which a plan is asked about a job, the same
    object where that is the plan's, and `after` the one that it leads to.
    """

    base: Callable[[Round, str], Round]
    facts: Callable[[Situation, Round, str], list[Fact]]
    question: Callable[[World], Round]
    started: Callable[[Plan], Collection[str]]
    places: Callable[[Round, str], tuple[GroupPlaces, ...]] = lambda *_: ()
    answers: Callable[[Round, Plan, str], bool] | None = None
    relaxed: Callable[[World], Round | None] = lambda _: None
    given: Callable[[Round, Plan, str], Round] = lambda round_, _plan, _job: round_
    after: Callable[[Round, Plan], Round] = carried_out


def says_yes(question: Round, plan: Plan, job: str) -> bool:
    """Whether a plan for a question starts the job and disturbs nobody."""
    policy = FACTS[question.policy.formulation]
    if policy.answers is None:
        return job in policy.started(plan)
    return policy.answers(question, plan, job)


FACTS: PolicyRegistry[PolicyFacts] = PolicyRegistry(
    {
        name: f"placewright.explain.facts.{name}:POLICY"
        for name in ("gang", "interleaving", "deadline", "geo", "replicas", "stages")
    }
)
"""The facts of each policy."""


def facts_of(round_: Round) -> PolicyFacts:
    """Return the facts of a round's policy.

    Raises
    ------
    InvalidInputError
        If jobs of the policy have none.
    """
    formulation = round_.policy.formulation
    if formulation not in FACTS:
        raise InvalidInputError(
            f"{formulation}: of this policy the reason of a decision says all that is known",
            ("policy", "formulation"),
        )
    return FACTS[formulation]
