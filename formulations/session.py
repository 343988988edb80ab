"""What a formulation is given: clock, solver, the best plan so far, and services of the round.

A formulation is a generator `run(problem, session)`. It yields a `Candidate` for each plan it finds
and a `Bound` for each bound it proves. Before the generator goes on, the verifier recomputes the
terms of a candidate, and those of the best plan so far are in `session.best`.

A decision has several sessions: `part` gives a phase an earlier deadline, and `inner` begins a
round inside the decision. They hold the same clock, and those on one round what is known of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.plan_messages import SHARPNESS, Bound, Candidate, near
from placewright.instances.documents.round import Round
from placewright.solver import (
    Arrays,
    BackendUnavailableError,
    Limits,
    Outcome,
    SolveOptions,
    Status,
    UnsupportedModelError,
)

Solve: TypeAlias = Callable[[str, Arrays, Limits, NDArray[np.float64] | None], Outcome]
WORK = 30.0
"""Most work of one solve in a deterministic round, in units of about one CPU second."""


class InnerRounds(Protocol):
    """Decides a round of gangs that is part of another decision."""

    def __call__(
        self, round_: Round, session: Session, problem: Any = None, /
    ) -> Iterator[Candidate | Bound]:
        """Yield verified plans, each better than those before, and bounds of that round.

        `session` is that of the outer decision; its best plan and bounds are not of `round_`.
        `problem` is the gang problem that the round compiles to, if that is known.
        """
        ...


class RegionResult(Protocol):
    """The result of a region's round."""

    @property
    def candidate(self) -> Candidate | None:
        """The plan of the region, None without one."""
        ...


class RegionRounds(Protocol):
    """Decides the rounds of regions side by side."""

    def __call__(self, subproblems: Sequence[Any], session: Session, /) -> Iterable[RegionResult]:
        """Return the results of regions, each a `RegionSubproblem`, in their order."""
        ...


class GangFormulation(Protocol):
    """The gang formulation, or the incremental one that an `Engine` keeps between rounds."""

    def __call__(self, problem: Any, session: Session, /) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds of a gang problem."""
        ...


class Lawful(Protocol):
    """Puts jobs back that a candidate preempts for nothing."""

    def __call__(self, round_: Round, candidate: Candidate, /) -> Candidate | None:
        """Return the candidate with needless victims in their places, None if it is unlawful."""
        ...


def _unavailable(*_: Any) -> Any:
    """Stand for a service that nobody provides."""
    raise RuntimeError("expected a session with all services that its formulation asks for")


@dataclass(slots=True)
class BestKnown:
    """What is known of a round. Written where its candidates are verified, and nowhere else.

    Attributes
    ----------
    values
        Verified values of the best plan by term, in the policy's order; None without a plan.
    first_bound
        Tightest bound of the first term.
    bounds
        Tightest bounds of all terms that hold for the best plan.
    proven
        Whether every term of the best plan is proven.
    """

    values: Mapping[str, int] | None = None
    first_bound: float | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    proven: bool = False


@dataclass(slots=True)
class Clock:
    """The time of a decision, as all its sessions see it.

    Attributes
    ----------
    reserved_s
        Seconds before every deadline that are kept for the end of the decision.
    stopped
        Whether some search ended because time was up: a repetition may give another plan.
    """

    reserved_s: float = 0.0
    stopped: bool = False


@dataclass(slots=True)
class Session:
    """A round's clock, its way to a solver, and the best verified plan so far.

    Parameters
    ----------
    solve
        `solve(backend, arrays, limits, start)`; it returns an outcome whatever the solver does.
    deadline
        `time.monotonic()` at which the formulation should be done.
    gap
        Relative gap of the first term at which the search may stop.
    budget
        Seconds that a deterministic round may plan with, whatever the clock says.
    has_plan
        Whether the round is part of a decision that has a plan already. Then phases that only
        serve to have some plan early are of no use.
    inner_rounds, region_rounds, gang, lawful
        Services: who decides rounds of gangs inside another decision, those of regions side by
        side, and gang problems; and who puts needless victims back.
    verifies_each
        Whether plans of inner rounds are verified one by one: a plan made of them broke a rule.
    without
        Names of phases left out, to measure what a phase is worth (ablation).
    best_known
        What is known of the round.
    clock, degraded
        The time of the whole decision, and what went wrong in it.
    """

    solve: Solve
    deadline: float
    backend: str = "highs"
    gap: float = 1e-4
    seed: int = 0
    deterministic: bool = False
    memory_mib: int | None = None
    budget: float = WORK
    has_plan: bool = False
    inner_rounds: InnerRounds = _unavailable
    region_rounds: RegionRounds = _unavailable
    gang: GangFormulation = _unavailable
    lawful: Lawful = _unavailable
    verifies_each: bool = False
    without: frozenset[str] = frozenset()
    best_known: BestKnown = field(default_factory=BestKnown)
    clock: Clock = field(default_factory=Clock)
    degraded: list[str] = field(default_factory=list)

    @property
    def best(self) -> Mapping[str, int] | None:
        """Verified values of the best plan by term, None without a plan."""
        return self.best_known.values

    @property
    def first_bound(self) -> float | None:
        """Tightest bound of the first term."""
        return self.best_known.first_bound

    @property
    def proven(self) -> bool:
        """Whether every term of the best plan is proven."""
        return self.best_known.proven

    @property
    def wall_stopped(self) -> bool:
        """Whether some search of the decision ended because time was up."""
        return self.clock.stopped

    def part(self, share: float = 1.0, reserve: float = 0.0) -> Session:
        """Return a session on the same round that ends earlier.

        Deterministic rounds have work limits instead: there it ends no earlier.

        Parameters
        ----------
        share
            Of the time left before the reserve.
        reserve
            Seconds kept for what follows.
        """
        if self.deterministic:
            return self
        left = max(0.0, self.before_deadline() - reserve)
        return replace(self, deadline=self.deadline - reserve - (1 - share) * left)

    def inner(self) -> Session:
        """Return a session on a round inside the decision, of which nothing is known yet."""
        return replace(self, best_known=BestKnown())

    def remaining(self) -> float:
        """Return the seconds to plan with; negative after the deadline.

        In a deterministic round this is always `budget`: how much work is done must not depend on
        how fast the machine is.
        """
        return self.budget if self.deterministic else self.before_deadline()

    def before_deadline(self) -> float:
        """Return the seconds to the deadline by the clock, in a deterministic round, too."""
        return self.deadline - self.clock.reserved_s - time.monotonic()

    def expired(self, reserve: float = 0.0) -> bool:
        """Whether at most `reserve` seconds are left; if so, `clock.stopped` is set.

        In a deterministic round the reserve counts as 0.
        """
        return self._ends(self.before_deadline(), 0.0 if self.deterministic else reserve)

    def overdue(self, grace: float) -> bool:
        """Whether the deadline passed more than `grace` seconds ago; if so, `clock.stopped` is set.

        A round with a time limit of 0 is `expired` from the start and never overdue: its greedy
        plan is finished whatever the clock says.
        """
        late = self.budget > 0 and self.before_deadline() < -grace
        self.clock.stopped |= late
        return late

    def _ends(self, seconds: float, reserve: float = 0.0) -> bool:
        late = seconds <= max(0.0, reserve)
        self.clock.stopped |= late
        return late

    def close_enough(self, value: float) -> bool:
        """Whether this value of the first term is within `gap` of its bound, or `settled`."""
        return self.settled(value) or (
            self.first_bound is not None and near(self.first_bound, value, self.gap)
        )

    def settled(self, value: float) -> bool:
        """Whether this value of the first term equals the bound, but for rounding (`SHARPNESS`)."""
        return self.first_bound is not None and near(self.first_bound, value, SHARPNESS)

    def optimise(
        self,
        arrays: Arrays,
        *,
        share: float = 1.0,
        most: float = float("inf"),
        gap: float | None = None,
        start: NDArray[np.float64] | None = None,
        options: SolveOptions | None = None,
    ) -> Outcome | None:
        """Solve with at most `share` of the time left and `most` seconds.

        Returns None when no time is left. A failure is recorded in `degraded`. Models with
        continuous columns go to HiGHS, which alone returns duals, or to SCIP if they have branching
        priorities, those with intervals to CP-SAT, and those that CP-SAT cannot hold in its
        integers to HiGHS, too.
        """
        # The clock is read once, for the check and for the limit.
        left = self.before_deadline()
        if self._ends(left) or min(share, most) <= 0:
            return None
        backend = self.backend if arrays.integer.all() else "highs"
        if arrays.priority is not None:
            backend = "scip"
        if arrays.intervals is not None:
            backend = "cp-sat"
        limits = Limits(
            seconds=left if self.deterministic else min(left * share, most),
            gap=self.gap / 2 if gap is None else gap,
            seed=self.seed,
            work=min(most, WORK, self.budget) * share if self.deterministic else None,
            memory_mib=self.memory_mib,
            options=options or SolveOptions(),
        )
        try:
            outcome = self._solved(backend, arrays, limits, start)
        except (BackendUnavailableError, UnsupportedModelError) as error:
            self.degraded.append(f"{backend}: {error}")
            return None
        self.clock.stopped |= outcome.wall_stopped
        if outcome.status is Status.FAILED or outcome.fault:
            self.degraded.append(f"{backend}: {outcome.message or outcome.status.value}")
        return outcome

    def _solved(
        self, backend: str, arrays: Arrays, limits: Limits, start: NDArray[np.float64] | None
    ) -> Outcome:
        try:
            return self.solve(backend, arrays, limits, start)
        except UnsupportedModelError:
            if backend != "cp-sat" or arrays.intervals is not None:
                raise
            return self.solve("highs", arrays, limits, start)
