"""Deadlines of jobs: the work that is left, when it is due, and how fast each option does it.

Work is in seconds at speed 1000, and a gain in thousandths of such a second.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21
(leases, soft deadlines). Gu et al., "ElasticFlow: an elastic serverless training platform for
distributed deep learning", ASPLOS'23 (options of several speeds).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from placewright.instances.documents.base import (
    MAX_AMOUNT,
    MAX_COUNT,
    WHOLE_GPU,
    Document,
    Index,
    Many,
)
from placewright.instances.io.errors import InvalidInputError

if TYPE_CHECKING:
    from placewright.instances.documents.job import Option

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
    """What running with an option is like.

    `speed` are the thousandths of a second of work that are done per second. `overhead_s` are the
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
                    f"expected more than {low}, as hosts ascend",
                    path=("spanning", i + 1, 0),
                    value=high,
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
                    path=("due", i + 1, "at"),
                    value=second.at,
                )
            if second.value >= first.value:
                raise InvalidInputError(
                    f"expected less than {first.value}, as values fall",
                    path=("due", i + 1, "value"),
                    value=second.value,
                )
        return self


_USUAL = Pace()


def relative(pace: Pace, hosts: int) -> int:
    """Return the thousandths of its speed that an option has on so many hosts.

    Between two entries of `spanning` the one of more hosts counts, beyond the last one the last.
    """
    if hosts <= 1 or not pace.spanning:
        return UNIT
    return next((part for most, part in pace.spanning if most >= hosts), pace.spanning[-1][1])


def gain(pace: Pace, length_s: int, hosts: int) -> int:
    """Return the work that one lease of `length_s` seconds does, in thousandths of a second."""
    working = max(0, length_s - pace.overhead_s)
    return pace.speed * relative(pace, hosts) * working // UNIT


def need(work: int, pace: Pace, length_s: int, hosts: int) -> int | None:
    """Return how many leases do so much work (thousandths of a second); None: no number does."""
    each = gain(pace, length_s, hosts)
    return -(-work // each) if each else None


def finish(start: int, work: int, pace: Pace, hosts: int) -> int:
    """Return when a job is done that does so much work in a lease that begins at `start`.

    The work, in thousandths of a second, must be at most what the lease gains.
    """
    return start + pace.overhead_s - (-UNIT * work // (pace.speed * relative(pace, hosts)))


def least_hosts(option: Option, largest: Mapping[str, int]) -> int:
    """Return the fewest hosts that can hold the whole GPUs of an option, at least 1.

    `largest` has the most GPUs of a host of each GPU model; of these the models count that some
    group of the option allows.
    """
    whole = sum(group.milli_gpu for group in option.groups if group.gpu >= WHOLE_GPU) // WHOLE_GPU
    most = max(
        (
            gpus
            for model, gpus in largest.items()
            if any(group.gpu_models is None or model in group.gpu_models for group in option.groups)
        ),
        default=0,
    )
    return max(1, -(-whole // most)) if most else 1
