"""What the cluster's own scheduler makes of a waiting job: whom it would preempt for it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from placewright.explain.conflict import SolvingOracle
from placewright.explain.corrections.find import cheapest_victims
from placewright.explain.facts.fact import World, named
from placewright.explain.facts.gang import base
from placewright.formulations.gang.problem.limits import accounts_of, held_before, limits_of
from placewright.instances.derived.phrases import several
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits, Preemption
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    KUBERNETES_BY,
    KUBERNETES_NAME,
    KUBERNETES_NAMESPACE,
    KUBERNETES_TOPOLOGY,
    KUBERNETES_UID,
    LEAVES,
    SOURCE,
    WAITING_PART,
)
from placewright.instances.policies import GANG
from placewright.rounds.backfill.queue import without_reservations

# Whom Kueue would preempt for a workload that waits: its classical algorithm, on a round.
#
# Candidates are removed one by one until the workload fits, and then put back, the last one first,
# as long as it still fits. Kueue's order: those that are being evicted, then those of other queues,
# then lower priority, then the newest. Of other queues only those that borrow give way.


_NEWER_EQUAL = "queue-preemption"
"""The caveat of a job whose queue may preempt newer ones of its own priority."""


def kueue_victims(round_: Round, job: Job, solving: SolvingOracle) -> Sequence[str]:
    """Return whom Kueue would preempt to admit a job, with the first flavor that it can have.

    A flavor for which only jobs of other queues go comes before the others.
    """
    rules = {tenant.name: tenant.preemption for tenant in round_.tenants}
    rule = rules.get(job.tenant or "")
    if rule is None:
        return ()
    ways = [_Way(round_, job, k, rule, solving) for k in range(len(job.options))]
    if any(way.fits((), borrowing=True) for way in ways):
        return ()
    found = [victims for way in ways if (victims := way.victims())]
    if solving.left() <= 0 or not found:
        return ()
    best = min(found, key=lambda victims: any(one.tenant == job.tenant for one in victims))
    return [one.name for one in best if LEAVES not in one.annotations]


@dataclass(slots=True)
class _Way:
    """How a job could be admitted with one of its options."""

    round_: Round
    job: Job
    at: int
    rule: Preemption
    solving: SolvingOracle
    nominal: dict[str, int] = field(init=False)
    used: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        """Note what queues have of their own, and what they use of it."""
        self.nominal = {t.name: t.guarantee.get("gpu", 0) for t in self.round_.tenants}
        self.used = Counter()
        for one in self.round_.jobs:
            self.used[one.tenant or ""] += _gpus(one)

    @property
    def option(self) -> Option:
        """What it asks for."""
        return self.job.options[self.at]

    def victims(self) -> list[Job]:
        """Return the jobs that go, none if there is no way."""
        others, own = self._candidates()
        mine = self.job.tenant or ""
        forbidden = self.rule.borrow == "never"
        if not others or (forbidden and self.used[mine] >= self.nominal[mine]):
            attempts = [True]
        elif forbidden and not self._entitled():
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrowing in attempts:
            ordered = list(self._valid(others, own, borrowing=borrowing))
            if found := self._fewest(ordered, borrowing=borrowing):
                return found
        return []

    def fits(self, without: Collection[Job], *, borrowing: bool) -> bool:
        """Whether it is admitted without some jobs; `borrowing` if it may borrow then."""
        mine = self.job.tenant or ""
        used = self.used[mine] - sum(_gpus(one) for one in without if one.tenant == mine)
        if not borrowing and used + self.option.milli_gpu > self.nominal[mine]:
            return False
        names = {one.name for one in without}
        limits = limits_of(self.round_)
        gone = [j for j, one in enumerate(self.round_.jobs) if one.name in names]
        held = held_before(self.round_, limits, gone)
        if any(
            held[account][measure] + measure.asked_by(self.option) > most
            for account in accounts_of(self.job)
            for measure, most in limits.get(account, {}).items()
        ):
            return False
        if self.job.annotations.get(KUBERNETES_TOPOLOGY) != "yes":
            return True  # whether or not nodes have room
        left = base(self.round_.without_jobs(list(names)), self.job.name)
        alone = self.job.model_copy(update={"options": (self.option,)})
        jobs = tuple(alone if one.name == self.job.name else one for one in left.jobs)
        world = World(left.model_copy(update={"jobs": jobs}), self.job.name)
        return self.solving.start(world).starts is True

    def _fewest(self, ordered: Sequence[Job], *, borrowing: bool) -> list[Job]:
        def enough(number: int) -> bool:
            return self.fits(ordered[:number], borrowing=borrowing)

        if not ordered or not enough(len(ordered)):
            return []
        found = list(ordered[: bisect_left(range(len(ordered)), True, lo=1, key=enough)])
        for one in reversed(found[:-1]):
            fewer = [other for other in found if other is not one]
            if self.fits(fewer, borrowing=borrowing):
                found = fewer
        return found

    def _candidates(self) -> tuple[list[Job], list[Job]]:
        """Return the jobs of other queues and of its own that its queue lets it preempt."""
        cohorts = {t.name: t.preemption.cohort for t in self.round_.tenants if t.preemption}
        newer = _NEWER_EQUAL in {one.rule for one in caveats_of(self.job.annotations)}
        others, own = [], []
        for one in sorted(self.round_.jobs, key=self._order):
            if one.running is None or not self._shares(one.options[one.running.option]):
                continue
            if self.job.preempts is not None and not set(self.job.preempts) & set(one.caps):
                continue
            lower = one.priority < self.job.priority
            if one.tenant == self.job.tenant:
                equal = newer and one.priority == self.job.priority
                if self.rule.within != "never" and (lower or (equal and self._is_newer(one))):
                    own.append(one)
            elif cohorts.get(one.tenant or "") == self.rule.cohort is not None and (
                self.rule.reclaim == "any" or (lower and self.rule.reclaim == "lower")
            ):
                others.append(one)
        return others, own

    def _valid(
        self, others: Sequence[Job], own: Sequence[Job], *, borrowing: bool
    ) -> Iterator[Job]:
        """Yield the candidates of an attempt in their order, those that are leaving first."""
        used = self.used.copy()
        parts = [[o for o in part if (LEAVES in o.annotations) == first]
                 for first in (True, False) for part in (others, own)]  # fmt: skip
        for one in (one for part in parts for one in part):
            queue = one.tenant or ""
            if queue != self.job.tenant:
                if used[queue] <= self.nominal[queue]:
                    continue
                if borrowing and not self._entitled() and not self._beside(one):
                    continue
            used[queue] -= _gpus(one)
            yield one

    def _entitled(self) -> bool:
        """Whether its queue has as much of its own as it asks for."""
        mine = self.job.tenant or ""
        return self.used[mine] + self.option.milli_gpu <= self.nominal[mine]

    def _beside(self, one: Job) -> bool:
        """Whether it may preempt a job of another queue while it borrows itself."""
        up_to = one.priority if self.rule.borrow_up_to is None else self.rule.borrow_up_to
        lower = one.priority < self.job.priority
        return self.rule.borrow == "lower" and lower and one.priority <= up_to

    def _shares(self, other: Option) -> bool:
        """Whether another job uses a resource that it asks for, of the same flavor."""
        if not other.milli_gpu or not self.option.uses:
            return bool(other.milli_gpu)
        return any(used and name in other.uses for name, used in self.option.uses.items())

    def _is_newer(self, one: Job) -> bool:
        now = self.round_.now
        mine, theirs = (now if j.submitted is None else j.submitted for j in (self.job, one))
        return mine < theirs

    def _order(self, one: Job) -> tuple[int, int, str]:
        """Order candidates: the lowest priority first, then those that were admitted last."""
        started = None if one.running is None else one.running.started
        since = self.round_.now if started is None else started
        return one.priority, -since, one.annotations.get(KUBERNETES_UID, "")


def _gpus(job: Job) -> int:
    """Return the milli-GPU that a job holds; or of which it holds the quota alone."""
    if job.running is None:
        return 0
    option = job.options[job.running.option]
    return option.milli_gpu or sum(n for name, n in option.uses.items() if name.startswith("gpu@"))


# What the cluster's own scheduler makes of a waiting job: whom it would preempt, who is stuck.
#
# A round may pin all that runs, while its scheduler would preempt some of it. And pods of gangs
# that were bound one by one may hold what another gang needs, which holds what they need: a
# deadlock.


_KUEUE: Final = "kueue.x-k8s.io"
_OTHERS: Final = ("scheduling.run.ai", "scheduling.volcano.sh")
"""Schedulers with preemption rules that rounds do not have."""

_STEP = 10**9
"""What preempting a job costs more than one of the next lower priority."""


def would_preempt(round_: Round, name: str, solving: SolvingOracle) -> str:
    """Say whom the scheduler of Slurm or Kubernetes would preempt for a job, "" if nobody."""
    job = named(name, round_)
    by, source = job.annotations.get(KUBERNETES_BY, ""), round_.annotations.get(SOURCE)
    kueue, slurm = by == _KUEUE, source == "slurm"
    if round_.policy.formulation != GANG.name or job.held or by in _OTHERS:
        return ""
    if not job.preempts if slurm else source != "kubernetes":
        return ""
    if job.tenant is not None and not (kueue or slurm):
        return ""
    if solving.left() <= 0 or not any(map(job.value_of, range(len(job.options)))):
        return ""
    if kueue and "fair-sharing" in {one.rule for one in caveats_of(job.annotations)}:
        return "Whom Kueue would preempt to admit it is decided by its fair sharing, not read here"
    victims = (
        kueue_victims(round_, job, solving)
        if kueue
        else _victims(_alone(round_, name) if slurm else _preemptable(round_), name, solving)
    )
    if not victims:
        return ""
    who = "Slurm" if slurm else "Kueue" if kueue else "kube-scheduler"
    return f"{who} would preempt {several(victims)} to {'admit' if kueue else 'start'} it"


def evictions(round_: Round, name: str, solving: SolvingOracle) -> str:
    """Say which running jobs their scheduler stops anyhow, so that a job starts then."""
    why = {one.name: text for one in round_.jobs if (text := one.annotations.get(LEAVES))}
    if not why or named(name, round_).held or round_.policy.formulation != GANG.name:
        return ""
    world = World(base(round_.without_jobs(list(why)), name), name)
    if solving.start(world).starts is not True:
        return ""
    whom = several([f"{one} ({text})" for one, text in why.items()])
    return f"Kueue stops {whom}; once its GPUs are free, the job can start"


def _victims(round_: Round, name: str, solving: SolvingOracle) -> Sequence[str]:
    victims = cheapest_victims(round_, name, **solving.search)
    return () if victims is None else victims.preempted


def deadlock(round_: Round, name: str, solving: SolvingOracle) -> str:
    """Say which half-started gangs block a waiting one that blocks them, "" if none do."""
    halves = dict(_halves(round_))
    own = halves.get(name)
    if own is None or round_.policy.formulation != GANG.name:
        return ""

    def starts(waiting: str, without: Collection[str]) -> bool:
        world = World(base(round_.without_jobs(list(without)), waiting), waiting)
        return solving.start(world).starts is True

    blocking = [part for part in halves.values() if part != own]
    if not blocking or not starts(name, blocking):
        return ""
    for part in list(blocking):
        fewer = [other for other in blocking if other != part]
        if starts(name, fewer):
            blocking = fewer
    waiting_of = {part: waiting for waiting, part in halves.items()}
    members = [own, *blocking]
    for part in blocking:
        others = [other for other in members if other != part]
        if starts(waiting_of[part], ()) or not starts(waiting_of[part], others):
            return ""
    ways = [
        (_loss(round_, stopped), stopped, freed)
        for stopped in members
        for freed in members
        if freed != stopped and starts(waiting_of[freed], [stopped])
    ]
    text = f"Deadlock: {several(members)} have started in part, and each holds what the others need"
    if not ways:
        return text
    _, stopped, freed = min(ways)
    held = named(stopped, round_).options[0].milli_gpu
    return (
        f"{text}; the cheapest way out: stop {stopped} ({amount_text('gpu', held)}), "
        f"then {freed} starts in full"
    )


def _preemptable(round_: Round) -> Round:
    """Return a round in which running jobs may be preempted, rather those of low priority."""
    priorities = sorted({job.priority for job in round_.jobs})
    jobs = [
        job
        if job.running is None
        else job.model_copy(
            update={
                "running": job.running.model_copy(
                    update={"pinned": False, "preempt_cost": _STEP * priorities.index(job.priority)}
                )
            }
        )
        for job in round_.jobs
    ]
    return _without_moves(round_.model_copy(update={"jobs": tuple(jobs)}))


def _alone(round_: Round, name: str) -> Round:
    """Return a round in which one job waits, and running ones stop as they may, or stay."""
    others = [one.name for one in round_.jobs if one.running is None and one.name != name]
    return _without_moves(without_reservations(round_.without_jobs(others)))


def _without_moves(round_: Round) -> Round:
    limits = PolicyLimits(disruption=DisruptionLimits(migrated_jobs=0))
    policy = round_.policy.model_copy(update={"limits": limits})
    return round_.model_copy(update={"policy": policy})


def _halves(round_: Round) -> Iterator[tuple[str, str]]:
    """Yield the waiting and the running part of each gang that has started in part."""
    running = {_gang(job.annotations): job.name for job in round_.jobs if job.running is not None}
    for job in round_.jobs:
        part = running.get(_gang(job.annotations))
        if job.running is None and job.name.endswith(WAITING_PART) and part is not None:
            yield job.name, part


def _gang(ids: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(ids.get(key) for key in (KUBERNETES_BY, KUBERNETES_NAMESPACE, KUBERNETES_NAME))


def _loss(round_: Round, name: str) -> int:
    """Return the work that is lost if a running job stops, and its GPUs."""
    job = named(name, round_)
    unsaved = 0 if job.running is None else job.running.unsaved_s(round_.now)
    return job.options[0].milli_gpu * (1 + unsaved)
