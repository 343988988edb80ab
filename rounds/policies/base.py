"""A policy of a replay: a function of columns of the jobs alive, and it sees only what it declares.

That a policy does not know the future is enforced: a column that is not declared raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import NEVER, SPEED_BY_OPTION

FREE = frozenset({"submit_us", "gpus"})
"""What every policy sees."""

CHANGING = frozenset(
    {
        *("now_us", "remaining_us", "service_us", "running"),
        *("option", "restarts", "overhead_due_us", "received_us"),
    }
)
"""What changes: the clock, work left, time with GPUs so far, whether the job runs; the option with
which it runs (-1: it waits), how often it was stopped or changed its option, what is left of the
overhead of its start, and time with GPUs of each model so far (jobs, models).

All other columns are those of the trace, its further ones as well.
"""

Keys: TypeAlias = Ints | Floats
Order: TypeAlias = Callable[["Columns"], Keys]


class Source(Protocol):
    """What gives columns of the jobs alive."""

    def column(self, name: str, jobs: Ints) -> Ints:
        """Return a column for these jobs."""
        ...


class UndeclaredColumnError(InvalidInputError, AttributeError):
    """A policy reads a column that it did not declare: a mistake of whoever wrote the policy."""


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
            known = ", ".join(sorted(self._sees | FREE))
            expected = f"expected that the policy declares this column; it sees {known}"
            raise UndeclaredColumnError(expected, ("policy",), name)
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


class Weigher(Learner, Protocol):
    """What weighs jobs and keeps state between rounds: what tenants have had, say."""

    def weigh(self, jobs: Columns) -> Weights:
        """Return weights of the jobs alive."""
        ...


@dataclass(frozen=True, slots=True)
class RoundPolicy:
    """A policy that weighs the jobs; a round decides.

    `name`: as the command line calls it. `weigh`: weights of the jobs alive. `sees`: columns that
    `weigh` reads. `terms`: objective terms, in lexicographic order. `memory`: makes what weighs in
    place of `weigh`, and keeps state, from the GPUs of the cluster. `strict`: whether jobs of a
    smaller rank come first whatever the others are worth.
    """

    name: str
    weigh: Callable[[Columns], Weights] | None = None
    sees: frozenset[str] = field(default_factory=frozenset)
    terms: tuple[str, ...] = ("value", "disruption")
    memory: Callable[[int], Weigher] | None = None
    strict: bool = False


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


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What may be chosen from.

    - `gpus`, `model`: GPUs and GPU model of each option, int64 (options,).
    - `open_gpus`: GPUs of each model that are in use or free, int64 (models,).
    - `start_us`: overhead of a start of each job alive with each option, int64 (jobs, options).
    """

    gpus: Ints
    model: Ints
    open_gpus: Ints
    start_us: Ints


class Chooser(ABC):
    """What chooses options at each decision; whatever it keeps between decisions is its state.

    One that keeps nothing takes all but `choose` from here.
    """

    @abstractmethod
    def choose(self, jobs: Columns, offer: Offer) -> Ints:
        """Return an option for each job alive, in order of arrival, int64 (jobs,); -1: it waits."""

    def end(self, job: Columns) -> None:  # noqa: B027
        """Take note of a job that has ended: columns of one row."""

    def wakes_us(self, jobs: Columns) -> int:  # noqa: ARG002
        """Return when to choose again although nothing happens."""
        return NEVER

    def close(self) -> None:  # noqa: B027
        """End what it has started."""

    def state(self) -> Any:
        """Return the state as plain JSON."""
        return None

    def restore(self, state: Any) -> None:  # noqa: B027
        """Take a state over."""


@dataclass(frozen=True, slots=True)
class ElasticPolicy:
    """A policy that answers with sizes: each job's number and model of GPUs, from its options.

    `name`: as the command line calls it. `chooser`: makes what chooses. `needs`: columns that it
    reads; speeds by option are always among them. `survives`: whether a job goes on without a
    host that is lost, with what the others have, and loses no work: others of its workers have it.
    `sizes`: whether jobs may have other numbers of GPUs than they ask; without it the trace needs
    no options, and of those that it has only these count.
    `returns`: whether it chooses which host on loan goes back, of those that have a planned outage
    at some time. `one_model`: whether it chooses among GPUs of one model only. `worth`: what each
    option is worth to each job, (jobs, options), -inf where it has none; then rounds decide sizes
    and hosts together, in place of `chooser`, for the largest sum.
    """

    name: str
    chooser: Callable[[], Chooser]
    needs: frozenset[str] = field(default_factory=frozenset)
    survives: bool = False
    sizes: bool = True
    returns: bool = False
    one_model: bool = False
    worth: Callable[[Columns, Offer], Floats] | None = None

    @property
    def sees(self) -> frozenset[str]:
        """Columns that it reads."""
        return self.needs | {SPEED_BY_OPTION, "option"}


def gpu_time(us: Ints, gpus: Ints) -> Floats:
    """Return GPU time in microseconds, for sort keys; in floating point it is never too large."""
    product: Floats = us.astype(np.float64) * gpus
    return product


def by_arrival(jobs: Columns) -> Keys:
    """Order of arrival."""
    return np.zeros(len(jobs), dtype=np.int64)
