"""What the cluster's own scheduler makes of a waiting job: whom it would preempt, who is stuck.

A round may pin all that runs, while its scheduler would preempt some of it. And pods of gangs that
were bound one by one may hold what another gang needs, which holds what they need: a deadlock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from placewright.explain.corrections.victims import cheapest_victims
from placewright.explain.facts.fact import World, named
from placewright.explain.facts.gang import base
from placewright.explain.kueue_preemption import kueue_victims
from placewright.explain.oracle import SolvingOracle
from placewright.instances.derived.phrases import several
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    KUBERNETES_BY,
    KUBERNETES_NAME,
    KUBERNETES_NAMESPACE,
    LEAVES,
    SOURCE,
    WAITING_PART,
)
from placewright.instances.policies import GANG
from placewright.rounds.backfill.section import without_reservations

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
