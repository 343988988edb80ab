"""A state of a cluster as it was read, and what may go wrong in reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from placewright.instances.converters import LiveConversion
from placewright.instances.converters.support.live import GivenPolicy
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round


class SourceError(Exception):
    """A scheduler that is down, slow, or says what cannot be: nothing is decided then."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A round as the scheduler said it, and when it began to, in seconds of a monotonic clock."""

    made: LiveConversion
    taken: float

    @property
    def round(self) -> Round:
        """The state as a round."""
        return self.made.round


class Source(Protocol):
    """Where states come from."""

    def read(self) -> Reading:
        """Return the state now.

        Raises
        ------
        SourceError
            There is none, or none that could be true.
        """
        ...

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or earlier if something has changed."""
        ...


@dataclass(frozen=True, slots=True)
class WithPolicy:
    """A source whose rounds have a policy in place of the scheduler's own."""

    source: Source
    policy: GivenPolicy

    def read(self) -> Reading:
        """Return the state now.

        Raises
        ------
        SourceError
            There is none, or none that could be true.
        """
        reading = self.source.read()
        return Reading(self.policy.of(reading.made), reading.taken)

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or earlier if something has changed."""
        self.source.wait(seconds)


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of a plan: jobs that were sent to their hosts, and what was not done, and why."""

    sent: frozenset[str] = frozenset()
    undone: tuple[str, ...] = ()


class Actor(Protocol):
    """What a plan means for its scheduler."""

    def commands(self, round_: Round, plan: Plan) -> tuple[str, Sequence[str]]:
        """Return what an operator would run to carry the plan out, and what it leaves out."""
        ...

    def act(self, round_: Round, plan: Plan, until: float) -> Acted:
        """Carry the plan out, or tell of it, as far as asked.

        `until`, on the monotonic clock, the state is young enough; what is left then is not done.
        """
        ...
