"""What passes between a formulation and the round that runs it.

A formulation is a generator `run(problem, session)`. It yields a `Candidate` for each plan it finds
and a `Bound` for each bound it proves. The round verifies a candidate before the generator goes on,
and leaves the verified term values of the best plan so far in `session.best`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf, nextafter
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.instances.documents.round import Round
from placewright.solver import (
    Arrays,
    BackendUnavailableError,
    Limits,
    Outcome,
    Status,
    UnsupportedModelError,
)

Solve: TypeAlias = Callable[[str, Arrays, Limits, NDArray[np.float64] | None], Outcome]
Place: TypeAlias = tuple[int, int, int, tuple[int, ...]]
"""The place of one task: (group, index in the group, host, GPUs on the host)."""

Slots: TypeAlias = tuple[int | None, ...]
"""Per place of a job the start of its MIG slice; () if none of its tasks is one."""

HOLD_SLACK = 0.5
"""Terms are integers: held within a half, nothing changes and no solver tolerance matters."""

SHARPNESS = 1e-6
"""Relative slack of a solver's bound: a value this near to it is as good as proven."""

MOST_SLACK = 0.5
"""Of a claimed bound whose tolerance is larger than that: below it lies no other whole number."""

WORK = 30.0
"""Deterministic work of one solve, in units of about one second."""


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that share GPUs, by their indices in the round, the offset of each, and the period.

    The period is in microseconds.
    """

    members: tuple[int, ...]
    offsets: tuple[int, ...]
    period: int


@dataclass(frozen=True, slots=True)
class Promise:
    """The leases that keep a promise: the job's index in the round, its option, what is promised.

    `at` is the promised time and `finish` the planned one, seconds on the round's clock; `leases`
    are half-open intervals of lease indices, in order. A job that was promised nothing, but could
    be, has its `finish` as the promised time and the `value` 0.
    """

    job: int
    option: int
    at: int
    value: int
    finish: int
    leases: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """A part of a copy: dataset, regions on its path, GiB, and its time on the round's clock."""

    dataset: int
    path: tuple[int, ...]
    gib: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DataPlan:
    """What a plan says of data, by indices of jobs, datasets, regions and GPU models.

    `homes` has the region and GPU model of each job that can run, `creates` and `drops` the
    dataset, the region and the time of each replica that comes or goes. `reads` has, for a job that
    runs, the datasets that it reads from another region, with that region, and `waits` the region
    where a job will have its data, and when. What is counted how: `wan.compile.Wan`.
    """

    homes: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    creates: tuple[tuple[int, int, int], ...] = ()
    drops: tuple[tuple[int, int, int], ...] = ()
    flows: tuple[Flow, ...] = ()
    reads: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    waits: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan to verify, by the jobs' indices in the round.

    `starts` has the option and task places of each job that starts or migrates, `preempted` for
    each preempted job one that takes its place, -1 if nobody does. Other running jobs are kept. A
    `final` one is the last that the formulation means to yield. `slots` has, for jobs with MIG
    slices, where they are, and `groups` are all that share GPUs after the round. `promises` are all
    that hold after the round, and `offers` what refused jobs could be promised on top.
    `data` is for rounds with regions.
    """

    starts: Mapping[int, tuple[int, tuple[Place, ...]]]
    source: str
    preempted: Mapping[int, int] = field(default_factory=dict)
    final: bool = False
    slots: Mapping[int, Slots] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    promises: tuple[Promise, ...] = ()
    offers: tuple[Promise, ...] = ()
    data: DataPlan | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """No plan that is at least as good in `holds` beats `value` in `term`.

    `holds` are (term, value) pairs: the earlier terms, held no worse than the best plan's values.
    `certified`: recomputed in our own code; otherwise claimed by a solver. `value` is of the sum of
    `term` and the earlier terms in `plus`, all in the same sense; a whole number beyond 2^53 had
    better be an int, as a float might be tighter than what was proven.
    """

    term: str
    value: float
    holds: tuple[tuple[str, int], ...] = ()
    certified: bool = False
    plus: tuple[str, ...] = ()


class InnerRounds(Protocol):
    """Decides a round of gangs that is part of another decision."""

    def __call__(
        self, round_: Round, session: Session, problem: Any = None, /
    ) -> Iterator[Candidate | Bound]:
        """Yield verified plans, each better than those before, and bounds of that round.

        `session` is that of the whole decision: its best plan and bounds are another round's.
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
    """The gang formulation, or what stands for it from round to round."""

    def __call__(self, problem: Any, session: Session, /) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds of a gang problem."""
        ...


def _unavailable(*_: Any) -> Iterator[Any]:
    """Stand for a service that nobody provides."""
    raise RuntimeError("expected a session with all services that its formulation asks for")


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
    best, first_bound, proven
        Kept by the round: values of the best plan, tightest bound of the first term, and whether
        every term of the best plan is proven.
    degraded
        What went wrong on the way.
    wall_stopped
        Whether the clock ended some search, so that a repetition may differ.
    budget
        Seconds that a deterministic round may plan with, whatever the clock says.
    has_plan
        Whether the round is part of a decision that has a plan already, so that a first plan in a
        hurry is of no use.
    inner_rounds, region_rounds, gang
        Services: who decides rounds of gangs inside another decision, those of regions side by
        side, and gang problems.
    """

    solve: Solve
    deadline: float
    backend: str = "highs"
    gap: float = 1e-4
    seed: int = 0
    deterministic: bool = False
    memory_mib: int | None = None
    best: Mapping[str, int] | None = None
    first_bound: float | None = None
    proven: bool = False
    degraded: list[str] = field(default_factory=list)
    wall_stopped: bool = False
    budget: float = WORK
    has_plan: bool = False
    inner_rounds: InnerRounds = _unavailable
    region_rounds: RegionRounds = _unavailable
    gang: GangFormulation = _unavailable

    def remaining(self) -> float:
        """Seconds left to plan with: before the deadline, negative after it.

        In a deterministic round always all of the `budget`: how much work is done must not hang on
        how fast the work before it was.
        """
        return self.budget if self.deterministic else self.before_deadline()

    def before_deadline(self) -> float:
        """Seconds by the clock before the deadline, in a deterministic round, too."""
        return self.deadline - time.monotonic()

    def expired(self, reserve: float = 0.0) -> bool:
        """Whether no more than `reserve` seconds are left; then the clock has decided something.

        In a deterministic round only the deadline itself counts, and nothing is held in reserve.
        """
        return self._ends(self.before_deadline(), 0.0 if self.deterministic else reserve)

    def overdue(self, grace: float) -> bool:
        """Whether the deadline is over by so many seconds; then the clock has decided something.

        Never where no time was given at all: whoever does so wants a greedy plan.
        """
        late = self.budget > 0 and self.before_deadline() < -grace
        self.wall_stopped |= late
        return late

    def _ends(self, seconds: float, reserve: float = 0.0) -> bool:
        late = seconds <= max(0.0, reserve)
        self.wall_stopped |= late
        return late

    def close_enough(self, value: float) -> bool:
        """Whether this value of the first term is proven within the gap that was asked for."""
        return self.settled(value) or (
            self.first_bound is not None and near(self.first_bound, value, self.gap)
        )

    def settled(self, value: float) -> bool:
        """Whether this value of the first term is proven as far as bounds are sharp."""
        return self.first_bound is not None and near(self.first_bound, value, SHARPNESS)

    def optimise(
        self,
        arrays: Arrays,
        *,
        share: float = 1.0,
        most: float = float("inf"),
        gap: float | None = None,
        start: NDArray[np.float64] | None = None,
        interior: bool = False,
        cutoff: float | None = None,
        proving: bool = False,
        presolve: bool = True,
    ) -> Outcome | None:
        """Solve with at most `share` of the time left and `most` seconds.

        Returns None when no time is left. A failure is recorded in `degraded`. Models with
        continuous columns go to HiGHS, which alone tells the prices, or to SCIP if they say in
        which order to branch, and those that CP-SAT cannot hold in its integers to HiGHS, too;
        `interior`, `cutoff`, `proving` and `presolve` as in `Limits`.
        """
        # The clock goes on meanwhile: one look at it.
        left = self.before_deadline()
        if self._ends(left) or min(share, most) <= 0:
            return None
        backend = self.backend if arrays.integer.all() else "highs"
        if arrays.priority is not None:
            backend = "scip"
        limits = Limits(
            seconds=left if self.deterministic else min(left * share, most),
            gap=self.gap / 2 if gap is None else gap,
            seed=self.seed,
            work=min(most, WORK, self.budget) * share if self.deterministic else None,
            memory_mib=self.memory_mib,
            interior=interior,
            cutoff=cutoff,
            proving=proving,
            presolve=presolve,
        )
        try:
            outcome = self._solved(backend, arrays, limits, start)
        except (BackendUnavailableError, UnsupportedModelError) as error:
            self.degraded.append(f"{backend}: {error}")
            return None
        self.wall_stopped |= outcome.wall_stopped
        if outcome.status is Status.FAILED or outcome.fault:
            self.degraded.append(f"{backend}: {outcome.message or outcome.status.value}")
        return outcome

    def _solved(
        self, backend: str, arrays: Arrays, limits: Limits, start: NDArray[np.float64] | None
    ) -> Outcome:
        try:
            return self.solve(backend, arrays, limits, start)
        except UnsupportedModelError:
            if backend != "cp-sat":
                raise
            return self.solve("highs", arrays, limits, start)


def near(bound: float, value: float, gap: float) -> bool:
    """Whether a value is proven within a relative gap by a bound."""
    return abs(bound - value) <= gap * max(abs(bound), abs(value))


def proven_whole(bound: float, sense: str = "min") -> int:
    """Return the tightest whole number that a solver proves with a bound of a term.

    Solvers stop within tolerances: of a minimum 7.0000004 does not prove 8, and of a maximum
    6.9999996 not 6.
    """
    slack = min(SHARPNESS * max(1.0, abs(bound)), MOST_SLACK)
    return floor(bound + slack) if sense == "max" else ceil(bound - slack)


def outward(bound: float, sense: str) -> float:
    """Return a bound, maybe an int, as a float that is no tighter: beyond 2^53 floats are few."""
    near = float(bound)
    if near == bound or (near > bound) == (sense == "max"):
        return near
    return nextafter(near, inf if sense == "max" else -inf)


def tighter(first: float | None, second: float | None, sense: str) -> float | None:
    """Return the tighter of two bounds of a term with this sense; None is no bound."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second) if sense == "max" else max(first, second)
