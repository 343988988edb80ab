"""What decides a round: a decider per policy, and what it may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from placewright.formulations.common.priority_classes import PriorityClass
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import GangFormulation, Session
from placewright.instances.documents.plan import Decision, Plan
from placewright.instances.documents.round import Round
from placewright.instances.policies import PolicyRegistry
from placewright.rounds.decisions import Why
from placewright.rounds.displacement.victims import lawful_in
from placewright.rounds.inner_rounds import solve_inner_round
from placewright.rounds.regions.region_rounds import RegionSolver
from placewright.rounds.settings import Meter, Settings, Solver
from placewright.rounds.state.memory import Memory


@dataclass(frozen=True, slots=True)
class Resources:
    """What a decider may use: settings, the memory of earlier rounds, an executor for subproblems.

    `gang` decides rounds of gangs, and `executor` those of regions side by side, None here.
    """

    settings: Settings
    gang: GangFormulation
    memory: Memory = field(default_factory=Memory)
    executor: Executor | None = None

    @contextmanager
    def session(self, meter: Meter, solver: Solver | None = None) -> Iterator[Session]:
        """Open a session with the services that formulations ask for; see `Settings.session`."""
        with self.settings.session(meter, solver) as session:
            session.inner_rounds, session.gang = solve_inner_round, self.gang
            session.lawful = lawful_in
            session.region_rounds = RegionSolver(self.settings, self.executor)
            yield session


class Decider(Protocol):
    """Decides one round."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, as places in candidates count them."""
        ...

    @property
    def terms(self) -> tuple[str, ...]:
        """Objective terms, in lexicographic order."""
        ...

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield candidates and bounds of the round."""
        ...

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return the reason of every pending job that a candidate does not start."""
        ...

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield the sections of a candidate's plan; None for one that it does not need."""
        ...


def _no_classes(round_: Round) -> Mapping[str, PriorityClass]:  # noqa: ARG001
    """Return no priority classes: of a policy that has none."""
    return {}


def _as_it_is(round_: Round, candidate: Candidate) -> Candidate:  # noqa: ARG001
    """Return a first candidate unchanged."""
    return candidate


class PolicyDecider(NamedTuple):
    """How rounds of a policy are decided, and how plans for them are bounded.

    `decider` makes what decides a round. `bounds` yields bounds, and candidates that nobody reads,
    for a round, a valid plan for it, and a session that knows the plan's values. `classes` returns
    the priority classes of a round by the terms that count them. `completed` returns a first
    candidate, taken over from another round, with what it leaves out.
    """

    decider: Callable[[Round, Resources], Decider]
    bounds: Callable[[Round, Plan, Resources, Session], Iterator[Candidate | Bound]]
    classes: Callable[[Round], Mapping[str, PriorityClass]] = _no_classes
    completed: Callable[[Round, Candidate], Candidate] = _as_it_is


def bounds_by_deciding(
    decider: Callable[[Round, Resources], Decider],
) -> Callable[[Round, Plan, Resources, Session], Iterator[Candidate | Bound]]:
    """Bound plans by deciding the round: for policies whose bounds hold for every plan."""

    def bounds(
        round_: Round,
        plan: Plan,  # noqa: ARG001
        resources: Resources,
        session: Session,
    ) -> Iterator[Candidate | Bound]:
        return decider(round_, resources).steps(session)

    return bounds


DECIDERS: PolicyRegistry[PolicyDecider] = PolicyRegistry(
    {
        name: f"placewright.rounds.deciders.{name}:POLICY"
        for name in ("gang", "interleaving", "deadline", "geo", "replicas")
    }
)
"""The decider of each policy."""
