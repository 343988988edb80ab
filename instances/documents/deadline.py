"""Deadlines of jobs: remaining work, due times with values, and the pace of each option.

Work is in seconds at speed 1000, and a gain in thousandths of such a second.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21
(leases, soft deadlines). Gu et al., "ElasticFlow: an elastic serverless training platform for
distributed deep learning", ASPLOS'23 (options of several speeds).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import Field, model_validator

from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT, Document, Index, Many
from placewright.instances.errors import InvalidInputError

UNIT = 1000
"""Speeds, and how they fall across hosts, are in thousandths."""
MAX_DUE = 64
MAX_SPANNING = 64

Hosts = Annotated[int, Field(strict=True, ge=2, le=MAX_COUNT)]
Relative = Annotated[int, Field(strict=True, ge=1, le=2 * UNIT)]


class Due(Document):
    """A time by which a job may be done, in seconds on the round's clock, and what that is worth.

    The time may be in the past.
    """

    at: Index
    value: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]


class Pace(Document):
    """The speed of a job with an option, and what reduces it.

    `speed` is the work per second, in thousandths of a second. `overhead_s` are the
    seconds of every lease that go to checkpoint and resume. `spanning` lists, in ascending order, a
    number of hosts and the thousandths of the speed that remain when the tasks lie on that many.
    """

    speed: Annotated[int, Field(strict=True, ge=1, le=10**6)] = UNIT
    overhead_s: Index = 0
    spanning: Many[tuple[Hosts, Relative]] = Field(default=(), max_length=MAX_SPANNING)

    @model_validator(mode="after")
    def _ascending(self) -> Pace:
        for i, ((low, _), (high, _)) in enumerate(pairwise(self.spanning)):
            if low >= high:
                raise InvalidInputError(
                    f"expected more than {low}, as hosts ascend", ("spanning", i + 1, 0), high
                )
        return self


class Deadline(Document):
    """What is left of a job, and by when it is due: once (hard), several times (soft) or never.

    `due` ascends in time and falls in value; without any the job gets what is left by the others.
    `ready` is the earliest time at which the job may run (None: now). `promise` was made in an
    earlier round. `paces` has an entry for each option of the job, or none.
    """

    work_s: Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]
    due: Many[Due] = Field(default=(), max_length=MAX_DUE)
    ready: Index | None = None
    promise: Due | None = None
    paces: Many[Pace] = ()

    @property
    def work(self) -> int:
        """Work that is left, in thousandths of a second of work."""
        return UNIT * self.work_s

    def pace(self, option: int) -> Pace:
        """Return the pace of an option."""
        return self.paces[option] if self.paces else _USUAL

    @model_validator(mode="after")
    def _falling(self) -> Deadline:
        for i, (first, second) in enumerate(pairwise(self.due)):
            if second.at <= first.at:
                raise InvalidInputError(
                    f"expected more than {first.at}, as due times ascend",
                    ("due", i + 1, "at"),
                    second.at,
                )
            if second.value >= first.value:
                raise InvalidInputError(
                    f"expected less than {first.value}, as values fall",
                    ("due", i + 1, "value"),
                    second.value,
                )
        return self


_USUAL = Pace.model_construct()
