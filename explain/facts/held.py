"""What is held now: the jobs that run, and what a waiting job says of itself for now.

All running jobs are one fact, which falls apart by tenant, precedence and job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from placewright.explain.facts.fact import Fact, Stratum, edit_job, group, named
from placewright.formulations.gang.problem.entitlement import borrowing_options
from placewright.instances.derived.hardware import Hardware, hardware
from placewright.instances.derived.phrases import count, several
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import eligible
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

Relation = Literal["pinned", "higher", "same", "lower"]
RELATIONS: tuple[Relation, ...] = ("pinned", "higher", "same", "lower")


def waits_for(round_: Round, name: str) -> Iterator[Fact]:
    """Yield what a pending job says of itself for now: it is held, or starts later."""
    job = named(name, round_)
    if job.held:
        edit = edit_job(name, lambda one: one.model_copy(update={"held": False}))
        yield Fact(Stratum.HELD, "held", "the job is held", edit)
    if not eligible(job.model_copy(update={"held": False}), round_.now):
        edit = edit_job(name, lambda one: one.model_copy(update={"not_before": None}))
        text = f"the job starts no earlier than in {(job.not_before or 0) - round_.now:,} s"
        about = {"at": job.not_before}
        yield Fact(Stratum.HELD, "not_before", text, edit, about)


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that runs: its tenant, how its precedence lies to the waiting job's, what it holds.

    `there` are the milli-GPU on hosts that could hold a task of the waiting job; None if it has no
    task there.
    """

    name: str
    tenant: str | None
    relation: Relation
    milli_gpu: int
    there: int | None


Verb: TypeAlias = Callable[[Sequence[Holder]], tuple[str, str]]
"""What jobs do, said of one and of several: `runs`, `run`."""


class Holders:
    """The running jobs of a base round, or those that `holds` tells, beside one that waits."""

    def __init__(
        self,
        round_: Round,
        name: str,
        holds: Callable[[Job], bool] = lambda job: job.running is not None,
    ) -> None:
        job = named(name, round_)
        self._tenant = job.tenant
        borrowed = borrowing_options(round_)
        owners = {tenant.name for tenant in round_.tenants if tenant.cells}
        has = {h: hardware(e) for e in round_.cluster.hosts for h in expand(e.name)}
        able = {
            host
            for option in job.options
            for asked in option.groups
            for host in _allowed(asked, has)
            if _could_hold(has[host], asked)
        }

        def precedence(j: int, option: int) -> tuple[bool, bool, int]:
            one = round_.jobs[j]
            guaranteed = one.tenant in owners and not one.opportunistic
            return guaranteed, option not in borrowed.get(j, ()), one.priority

        index = next(j for j, one in enumerate(round_.jobs) if one is job)
        mine = max(precedence(index, o) for o in range(len(job.options)))
        self.all: dict[str, Holder] = {}
        for j, one in enumerate(round_.jobs):
            if one is not job and holds(one):
                theirs = precedence(j, 0 if one.running is None else one.running.option)
                self.all[one.name] = _holder(one, theirs, mine, able)

    def fact(self, stratum: Stratum, names: Sequence[str], verb: Verb) -> list[Fact]:
        """Return some of the jobs as one fact, nothing without any; `verb` says what they do."""
        if not names:
            return []
        return [self._group(stratum, [self.all[name] for name in names], verb, None, None)]

    def _group(
        self,
        stratum: Stratum,
        holders: Sequence[Holder],
        verb: Verb,
        tenant: bool | None,
        relation: Relation | None,
    ) -> Fact:
        """Return a fact of some jobs: of the same tenant or of others, and of one relation."""
        names = [one.name for one in holders]
        about: dict[str, object] = {"jobs": len(holders)}
        if len(holders) == 1:
            about["job"] = holders[0].name
        if tenant is not None and self._tenant is not None:
            about["tenant" if tenant else "other_than_tenant"] = self._tenant
        if relation is not None:
            about["relation"] = relation
        shown = holders if tenant else [one for one in holders if one.there is not None]
        milli = sum((one.milli_gpu if tenant else one.there or 0) for one in shown)
        about["gpu"] = milli

        def partitions(conflict: Sequence[Fact]) -> Iterable[Sequence[Fact]]:
            if tenant is None and any(fact.kind == "quota" for fact in conflict):
                mine = [one for one in holders if one.tenant == self._tenant]
                others = [one for one in holders if one.tenant != self._tenant]
                yield [
                    self._group(stratum, part, verb, own, relation)
                    for part, own in ((mine, True), (others, False))
                    if part
                ]
            if relation is None:
                yield [
                    self._group(stratum, part, verb, tenant, one)
                    for one in RELATIONS
                    if (part := [h for h in holders if h.relation == one])
                ]
            yield [self._group(stratum, [one], verb, tenant, one.relation) for one in holders]

        text = self._text(holders, shown, milli, verb, tenant, relation)
        return group(stratum, "jobs", text, names, Round.without_jobs, about, partitions)

    def _text(
        self,
        holders: Sequence[Holder],
        shown: Sequence[Holder],
        milli: int,
        verb: Verb,
        tenant: bool | None,
        relation: Relation | None,
    ) -> str:
        """Return the sentence of some jobs; `shown` are those that it counts, the largest named."""
        if len(holders) == 1:
            (one,) = holders
            held = [amount_text("gpu", one.milli_gpu)]
            held.append("pinned" if one.relation == "pinned" else f"of {_PRIORITY[one.relation]}")
            if one.tenant is not None:
                held.append(f"tenant {one.tenant}")
            return f"{one.name} {verb(holders)[0]} ({', '.join(held)})"
        jobs = count(len(shown), "pinned job" if relation == "pinned" else "job")
        if tenant:
            jobs += f" of {self._tenant}"
        elif tenant is False and self._tenant is not None:
            jobs += f" of others than {self._tenant}"
        if relation is not None and relation != "pinned":
            jobs += f" of {_PRIORITY[relation]}"
        where = "" if tenant else " on hosts that could hold a task"
        does = verb(holders)[len(shown) != 1]
        largest = sorted(shown, key=lambda one: -(one.milli_gpu if tenant else one.there or 0))
        who = f": {several([one.name for one in largest])}" if shown else ""
        return f"{jobs} {does}{who} ({amount_text('gpu', milli)}{where})"


_PRIORITY: Mapping[Relation, str] = {
    "higher": "higher priority",
    "same": "the same priority",
    "lower": "lower priority",
}


def _holder(
    job: Job, theirs: tuple[bool, bool, int], mine: tuple[bool, bool, int], able: set[str]
) -> Holder:
    relation: Relation = "higher" if theirs > mine else "same" if theirs == mine else "lower"
    if job.running is None:
        return Holder(job.name, job.tenant, relation, job.options[0].milli_gpu, 0)
    if job.running.pinned:
        relation = "pinned"
    groups = job.options[job.running.option].groups
    tasks = job.running.tasks
    there = [groups[task.group].gpu for task in tasks if task.host in able]
    milli = sum(groups[task.group].gpu for task in tasks)
    return Holder(job.name, job.tenant, relation, milli, sum(there) if there else None)


def _allowed(asked: TaskGroup, hosts: Collection[str]) -> Collection[str]:
    """Return the hosts that a task group lists; all hosts if it lists none."""
    return hosts if asked.hosts is None else [h for one in asked.hosts for h in expand(one)]


def _could_hold(host: Hardware, asked: TaskGroup) -> bool:
    """Whether a host could hold a task of a group, were it empty."""
    if asked.gpu_models is not None and host.gpu_model not in asked.gpu_models:
        return False
    amounts = {"cpu": asked.cpu, "memory": asked.memory, **asked.resources}
    return host.gpus * WHOLE_GPU >= asked.gpu and all(
        host.capacity.get(name, 0) >= amount for name, amount in amounts.items()
    )
