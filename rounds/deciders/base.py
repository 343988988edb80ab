"""What decides a round: a decider per policy, and what it may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from placewright.formulations.common.priority_classes import PriorityClass
from placewright.formulations.gang.problem.compile import Compiler
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import GangFormulation, Session
from placewright.instances.documents.plan import Decision, Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.digest import Digester
from placewright.instances.policies import PolicyRegistry
from placewright.rounds.decisions import DefaultDecisions, Why
from placewright.rounds.displacement.victims import lawful_in
from placewright.rounds.regions.region_rounds import RegionSolver, solve_inner_round
from placewright.rounds.settings import Meter, Settings, Solver

if TYPE_CHECKING:
    from placewright.rounds.state.admission import Ledger


class Memory:
    """Compiled rounds, digests, decisions that keep jobs in place, leases and reservations."""

    def __init__(self) -> None:
        self.compile = Compiler()
        self.digest = Digester()
        self.default_decisions = DefaultDecisions()
        self.reservations: Mapping[str, Mapping[str, Any]] = {}

    @cached_property
    def ledger(self) -> Ledger:
        """The leases of earlier rounds, none at first."""
        from placewright.rounds.state.admission import Ledger

        return Ledger()

    def learn(self, round_: Round) -> None:
        """Fill the caches with what later rounds share with this one."""
        self.compile(round_)
        self.digest(round_)
        self.default_decisions(round_)


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


class PolicyDecider(NamedTuple):
    """How rounds of a policy are decided, and how plans for them are bounded.

    `decider` makes what decides a round. `bounds` yields bounds, and candidates that nobody reads,
    for a round, a valid plan for it, and a session that knows the plan's values; None: those of
    deciding the round, where they hold for every plan. `classes` returns the priority classes of a
    round by the terms that count them. `completed` returns a first candidate, taken over from
    another round, with what it leaves out.
    """

    decider: Callable[[Round, Resources], Decider]
    bounds: Callable[[Round, Plan, Resources, Session], Iterator[Candidate | Bound]] | None = None
    classes: Callable[[Round], Mapping[str, PriorityClass]] = lambda _: {}
    completed: Callable[[Round, Candidate], Candidate] = lambda _, candidate: candidate


DECIDERS: PolicyRegistry[PolicyDecider] = PolicyRegistry(
    {
        name: f"placewright.rounds.deciders.{name}:POLICY"
        for name in ("gang", "interleaving", "deadline", "geo", "replicas", "stages")
    }
)
"""The decider of each policy."""
