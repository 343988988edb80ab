"""A policy of a replay: a function of columns of the jobs alive, and it sees only what it declares.

That a policy does not know the future is enforced: a column that is not declared raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints

FREE = frozenset({"submit_us", "gpus"})
"""What every policy sees."""

CHANGING = frozenset({"now_us", "remaining_us", "service_us", "running"})
"""What changes: the clock, work left, time with GPUs so far, whether the job runs.

All other columns are those of the trace, its further ones as well.
"""

Keys: TypeAlias = Ints | Floats
Order: TypeAlias = Callable[["Columns"], Keys]


class Source(Protocol):
    """What gives columns of the jobs alive."""

    def column(self, name: str, jobs: Ints) -> Ints:
        """Return a column for these jobs."""
        ...


class UndeclaredColumnError(AttributeError):
    """A policy reads a column that it did not declare."""


class Columns:
    """Columns of some jobs, read-only: `jobs.gpus`, `jobs.remaining_us` ..."""

    __slots__ = ("_jobs", "_sees", "_source")

    def __init__(self, source: Source, jobs: Ints, sees: frozenset[str]) -> None:
        self._source, self._jobs, self._sees = source, jobs, sees

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def numbers(self) -> Ints:
        """Number of each job, in the order of the trace."""
        return self._jobs

    def __getattr__(self, name: str) -> Ints:
        if name not in self._sees and name not in FREE:
            raise UndeclaredColumnError(
                f"the policy reads column {name!r}, which it does not declare; it sees "
                f"{', '.join(sorted(self._sees | FREE))}"
            )
        rows = self._source.column(name, self._jobs)
        rows.flags.writeable = False
        return rows


class Learner(Protocol):
    """State that a policy keeps between events."""

    def end(self, job: Columns) -> None:
        """Take note of a job that has ended: columns of one row."""
        ...

    def state(self) -> Any:
        """Return the state as plain JSON."""
        ...

    def restore(self, state: Any) -> None:
        """Take a state over."""
        ...


class Estimator(Learner, Protocol):
    """What a policy learns about jobs from those that have ended."""

    def key(self, job: Columns) -> float:
        """Return the sort key of a job that comes: columns of one row."""
        ...


class Queues(Learner, Protocol):
    """Queues between which jobs change, such as those of Tiresias."""

    def keys(self, jobs: Columns, ran: Ints) -> Keys:
        """Return sort keys of the jobs alive, given in the order of the last event."""
        ...

    def keys_after(self, jobs: Columns) -> Keys:
        """Return sort keys once it is decided who runs."""
        ...

    def wakes_us(self, jobs: Columns) -> int:
        """Return when the keys of a running job change by themselves, at the earliest."""
        ...


@dataclass(frozen=True, slots=True)
class ListPolicy:
    """A list: jobs in an order, which is walked; who fits runs.

    - `name`: as the command line calls it.
    - `sees`: columns that `order` reads, beside `FREE`.
    - `order`: sort keys, smallest first; equal keys stay in the order of the last event.
    - `preempts`: whether running jobs are in the list as well, and stop if others come first.
    - `skips`: whether the walk goes on behind a job that does not fit.
    - `reserves`: EASY backfilling: the first job that does not fit gets a reservation, and who
      delays it does not start.
    - `queues`: makes the queues of a policy that preempts and has some; they then give the keys.
    - `estimator`: makes what a policy learns that skips and does not preempt; it then gives the
      keys.
    """

    name: str
    order: Order
    sees: frozenset[str] = field(default_factory=frozenset)
    preempts: bool = False
    skips: bool = False
    reserves: bool = False
    queues: Callable[[int], Queues] | None = None
    estimator: Callable[[], Estimator] | None = None

    @property
    def is_static(self) -> bool:
        """Whether the keys of a job never change."""
        if self.estimator is not None:
            return True
        return self.queues is None and not self.sees & CHANGING


@dataclass(frozen=True, slots=True)
class Weights:
    """What each job is worth, and its rank: a job is preempted only for one of a smaller rank."""

    value: Floats
    rank: Floats | Ints


@dataclass(frozen=True, slots=True)
class RoundPolicy:
    """A policy that weighs the jobs; a round decides.

    `name`: as the command line calls it. `weigh`: weights of the jobs alive. `sees`: columns that
    `weigh` reads. `terms`: objective terms, in lexicographic order.
    """

    name: str
    weigh: Callable[[Columns], Weights]
    sees: frozenset[str] = field(default_factory=frozenset)
    terms: tuple[str, ...] = ("value", "disruption")


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """Jobs in an order that take turns at the resources of one place, in groups of up to four.

    `name`: as the command line calls it. `order`: sort keys, smallest first; of equal keys larger
    jobs come first, then earlier ones. `sees`: columns that `order` reads, and those of stage
    times, by which groups are formed. `merges`: which pairs of groups are merged until the rest
    fits. `best`: those that are fastest together, the best first; then groups exchange jobs.
    `muri`: those of a matching, by what they use of the resources, in the order of the jobs, as in
    Muri.
    """

    name: str
    order: Order
    sees: frozenset[str]
    merges: Literal["best", "muri"] = "best"


def gpu_time(us: Ints, gpus: Ints) -> Floats:
    """Return GPU time in microseconds, for sort keys; in floating point it is never too large."""
    product: Floats = us.astype(np.float64) * gpus
    return product


def by_arrival(jobs: Columns) -> Keys:
    """Order of arrival."""
    return np.zeros(len(jobs), dtype=np.int64)
