"""The plans that a plan with moves leads to, stage by stage: each is written anew and verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from placewright.explain.stages import stages_of
from placewright.formulations.gang import run as gang
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds.deciders.base import DECIDERS, Resources
from placewright.rounds.decisions import DefaultDecisions, decisions_of
from placewright.rounds.displacement.victims import lawful
from placewright.rounds.settings import Settings

MOVED = (DecisionKind.MIGRATE, DecisionKind.PREEMPT)


@dataclass(frozen=True, slots=True)
class MovePoint:
    """A plan of the round that the placement leads to.

    Parameters
    ----------
    moves
        Jobs that it migrates or preempts.
    stops
        Jobs that it preempts, which are among the moves.
    starts
        Jobs that it starts.
    milli_gpu
        Milli-GPU of the jobs that it starts, less those of the jobs that it preempts.
    terms
        Its terms, as `verify` computes them.
    plan
        The plan, without a certificate.
    """

    moves: int
    stops: int
    starts: int
    milli_gpu: int
    terms: Mapping[str, int]
    plan: Plan


class Prefixes:
    """The plans that the stages of a plan lead to, one after the other; see `stages_of`.

    Attributes
    ----------
    stages
        Moves, and the starts that have room after them.
    last_stages
        Numbers of the stages after which the next one moves jobs, or nothing comes.
    moved
        Jobs moved after each stage.
    """

    def __init__(self, round_: Round, solved: Plan, most: int | None = None) -> None:
        self.round, self._solved = round_, solved
        self.stages = stages_of(round_, solved, most)
        self.moved = list(accumulate(len(stage.moves) for stage in self.stages))
        self.last_stages = [
            i
            for i in range(len(self.stages))
            if i + 1 == len(self.stages) or self.stages[i + 1].moves
        ]
        self._default = DefaultDecisions()(round_)
        settings = Settings.of(round_)
        self._decider = DECIDERS[round_.policy.formulation].decider(
            round_, Resources(settings, gang.run)
        )
        self._host = {name: h for h, name in enumerate(self._decider.hosts)}
        self._points: dict[int, MovePoint | None] = {}

    @cached_property
    def placement(self) -> MovePoint:
        """The placement as it is: nobody moves and nobody starts."""
        point = self._of(())
        if point is None:
            raise ValueError("the placement breaks a rule; expected a valid one")
        return point

    @cached_property
    def whole(self) -> MovePoint:
        """The plan itself."""
        plan = self._solved.model_copy(update={"certificate": None, "round": None})
        return _point(self.round, plan, verify(self.round, plan).terms)

    def point(self, stage: int) -> MovePoint | None:
        """Return the plan after a stage; None if it would break a rule."""
        if stage not in self._points:
            jobs = [j for s in self.stages[: stage + 1] for j in (*s.moves, *s.starts)]
            self._points[stage] = self._of(jobs)
        return self._points[stage]

    def best(self) -> MovePoint:
        """Return the plan after the last stage that leads to a valid one."""
        points = (self.point(stage) for stage in reversed(self.last_stages))
        return next((point for point in points if point is not None), self.placement)

    def _of(self, jobs: Sequence[int]) -> MovePoint | None:
        hosts, decisions = self._decider.hosts, self._solved.decisions
        starts = {
            j: (d.option, tuple((t.group, t.index, self._host[t.host], t.gpus) for t in d.tasks))
            for j in jobs
            if (d := decisions[j]).option is not None
        }
        slots = {j: tuple(t.slot for t in decisions[j].tasks) for j in starts}
        candidate = lawful(
            self.round,
            hosts,
            Candidate(
                {
                    j: (option, places)
                    for j, (option, places) in starts.items()
                    if option is not None
                },
                "stages",
                preempted={j: -1 for j in jobs if j not in starts},
                slots={j: slot for j, slot in slots.items() if any(s is not None for s in slot)},
            ),
        )
        if candidate is None:
            return None
        made = decisions_of(self.round, hosts, self._default, candidate)
        sections = tuple(s for s in self._decider.sections(candidate, made) if s is not None)
        plan = Plan(decisions=made, sections=sections)
        verification = verify(self.round, plan)
        return _point(self.round, plan, verification.terms) if verification.ok else None


def _point(round_: Round, plan: Plan, terms: Mapping[str, int]) -> MovePoint:
    milli = 0
    kinds = [decision.decision for decision in plan.decisions]
    for job, decision in zip(round_.jobs, plan.decisions, strict=True):
        if decision.decision is DecisionKind.START and decision.option is not None:
            milli += job.options[decision.option].milli_gpu
        elif decision.decision is DecisionKind.PREEMPT and job.running is not None:
            milli -= job.options[job.running.option].milli_gpu
    moves, starts = sum(k in MOVED for k in kinds), kinds.count(DecisionKind.START)
    stops = kinds.count(DecisionKind.PREEMPT)
    return MovePoint(moves, stops, starts, milli, dict(terms), plan)
