"""`Trace`: the jobs of a cluster over time, one column per attribute, in order of submission."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt

from placewright.array_types import Floats, Ints

_PIECE = 1 << 16


class Names(Sequence[str]):
    """Names that are given, or else numbers, in some order; equal to a tuple of the same names.

    `given`: names in the order of the file; None: each job is called by its number in that order.
    `order`: numbers of the jobs, int64 (jobs,).
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, given: Sequence[str] | None, order: Ints) -> None:
        self._given, self._order = given, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, job: int) -> str: ...
    @overload
    def __getitem__(self, job: slice) -> tuple[str, ...]: ...
    def __getitem__(self, job: int | slice) -> str | tuple[str, ...]:
        if not isinstance(job, slice):
            number = int(self._order[job])
            return str(number) if self._given is None else self._given[number]
        numbers = self._order[job].tolist()
        given = self._given
        return tuple(map(str, numbers) if given is None else (given[n] for n in numbers))

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), _PIECE):
            yield from self[begin : begin + _PIECE]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(str.__eq__, self, other))


# Jobs of a trace that are left out, counted by reason.


NO_GPU = "asked no GPU"
NEVER_RAN = "never ran"
NOT_ENDED = "had not ended"
NO_TIME = "ran no time"
BACKWARDS = "ended before they began"


def rows_kept(
    count: int, reasons: Mapping[str, npt.NDArray[np.bool_]]
) -> tuple[Ints, dict[str, int]]:
    """Return the rows to which no reason applies, and how many each reason leaves out.

    A row to which several apply counts for the first of them.
    """
    keep = np.ones(count, dtype=np.bool_)
    left_out = {}
    for reason, applies in reasons.items():
        if number := int(np.count_nonzero(keep & applies)):
            left_out[reason] = number
        keep &= ~applies
    return np.flatnonzero(keep), left_out


def told(left_out: Mapping[str, int]) -> str:
    """Return in one clause how many jobs were left out, and why."""
    first, *others = (f"{number:,} that {reason}" for reason, number in left_out.items())
    return ", ".join([f"jobs left out: {first}", *others])


NEVER = np.iinfo(np.int64).max
"""A time that does not come."""

SECOND = 1_000_000
"""A second: clocks count microseconds."""

FULL_SPEED = 1_000_000
"""Speed 1: speeds are in millionths."""

SPEED_BY_OPTION = "speed_by_option"
"""The further column of speeds: int64 (jobs, options), in millionths; 0: not with this option."""

SPREAD_SPEED = "spread_speed_by_option"
"""The same on more hosts than the GPUs fill; without it a job runs on as few as it can."""


class RunOption(NamedTuple):
    """A way in which jobs of a trace may run: a number of GPUs, all of one model.

    `gpu_model`: empty for any. `plan`: how the job is laid out on them, where it can be in several
    ways.
    """

    gpus: int
    gpu_model: str = ""
    plan: str = ""


COLUMNS = frozenset(
    {
        "submit_us",
        "gpus",
        "work_us",
        "predicted_us",
        "deadline_us",
        "value",
        "tenant",
        "model",
    }
)
"""Columns that every trace has."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs by rows, in order of submission, those of one time in the order of the file.

    Parameters
    ----------
    names
        What the file calls each job.
    submit_us
        Submission, in microseconds on a clock that begins at 0, int64 (jobs,).
    gpus
        GPUs asked, 1 or more, int64 (jobs,).
    work_us
        Running time at speed 1, 1 or more, in microseconds, int64 (jobs,).
    predicted_us
        Running time as the scheduler is told, 1 or more; what a user asks or a model predicts.
    deadline_us
        By when the job should be done; `NEVER` without a deadline.
    value
        What the deadline is worth, 0 or more.
    tenant, model
        Numbers into `tenants` and `models`, int64 (jobs,).
    extra
        Further columns (jobs,) that some policies declare: stage times, CPU per GPU ...
    options
        Ways in which jobs may run, of which `SPEED_BY_OPTION` and `SPREAD_SPEED` in `extra` tell
        how fast each job is; empty: as they ask, at speed 1.
    left_out
        How many jobs of the file are not here, by reason.
    unread
        Columns of the file that are not here, and those that only policies read which declare them.
    """

    names: Sequence[str]
    submit_us: Ints
    gpus: Ints
    work_us: Ints
    predicted_us: Ints
    deadline_us: Ints
    value: Ints
    tenant: Ints
    model: Ints
    tenants: tuple[str, ...] = ("",)
    models: tuple[str, ...] = ("",)
    extra: Mapping[str, Ints | Floats] = field(default_factory=lambda: MappingProxyType({}))
    options: tuple[RunOption, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unread: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def has(self, column: str) -> bool:
        """Whether there is a column of this name."""
        return column in COLUMNS or column in self.extra

    @classmethod
    def of(
        cls,
        submit_us: Ints,
        gpus: Ints,
        work_us: Ints,
        *,
        names: Sequence[str] | None = None,
        predicted_us: Ints | None = None,
        deadline_us: Ints | None = None,
        value: Ints | None = None,
        tenant: Ints | None = None,
        model: Ints | None = None,
        tenants: tuple[str, ...] = ("",),
        models: tuple[str, ...] = ("",),
        extra: Mapping[str, Ints | Floats] | None = None,
        options: tuple[RunOption, ...] = (),
        left_out: Mapping[str, int] | None = None,
    ) -> Self:
        """Make a trace from rows in any order: sort them stably, and let the clock begin at 0."""
        count = len(submit_us)
        submit = np.asarray(submit_us, dtype=np.int64)
        order = np.argsort(submit, kind="stable")
        first = int(submit[order[0]]) if count else 0

        def column(given: Ints | None, default: Ints | int) -> Ints:
            rows = np.broadcast_to(default if given is None else given, count)[order]
            out: Ints = _frozen(np.array(rows, dtype=np.int64))
            return out

        deadline = None if deadline_us is None else np.asarray(deadline_us, dtype=np.int64)
        if deadline is not None:
            deadline = np.where(deadline == NEVER, NEVER, deadline - first)
        return cls(
            names=Names(names, order),
            submit_us=column(submit - first, 0),
            gpus=column(np.asarray(gpus), 1),
            work_us=column(np.asarray(work_us), 1),
            predicted_us=column(predicted_us, np.asarray(work_us)),
            deadline_us=column(deadline, NEVER),
            value=column(value, 0),
            tenant=column(tenant, 0),
            model=column(model, 0),
            tenants=tenants,
            models=models,
            extra=MappingProxyType(
                {name: _frozen(np.asarray(rows)[order]) for name, rows in (extra or {}).items()}
            ),
            options=options,
            left_out=MappingProxyType(dict(left_out or {})),
        )

    def arriving(self, submit_us: Ints, order: Ints | None = None) -> Self:
        """Return the trace with other arrivals; deadlines keep their distance from them.

        Parameters
        ----------
        submit_us
            The new submissions, int64 (jobs,).
        order
            Numbers of the jobs that are submitted then; None: in the order of this trace.
        """
        rows = np.arange(len(self)) if order is None else order
        due = self.deadline_us[rows]
        later = submit_us - self.submit_us[rows]
        return type(self).of(
            submit_us,
            self.gpus[rows],
            self.work_us[rows],
            names=Names(self.names, rows),
            predicted_us=self.predicted_us[rows],
            deadline_us=np.where(due == NEVER, due, due + later),
            value=self.value[rows],
            tenant=self.tenant[rows],
            model=self.model[rows],
            tenants=self.tenants,
            models=self.models,
            extra={name: column[rows] for name, column in self.extra.items()},
            options=self.options,
            left_out=self.left_out,
        )


def _frozen(rows: Any) -> Any:
    rows.flags.writeable = False
    return rows
