"""Where the rounds of regions are decided: here, in local processes, or on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from typing import Any

from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import GEO
from placewright.rounds.regions.processes import Processes
from placewright.rounds.regions.timeouts import call_with_timeout

LOCAL, DASK = "local", "dask"
MIN_JOBS, MIN_CORES = 10_000, 4
"""Jobs and cores from which processes take less time than they need to start."""

ANSWER_SECONDS, CLOSE_SECONDS = 10.0, 2.0
"""Seconds that a Dask scheduler has to answer, and to take leave."""

EXPECTED = "expected local, local:N or dask://HOST:PORT"


@contextmanager
def open_executor(text: str) -> Iterator[Executor]:
    """Open the executor that a text names, as a context; a Dask cluster outlives it.

    Nothing of it waits for a task that nobody wants any more.

    Parameters
    ----------
    text
        `local` (a process per core), `local:N` (N processes) or `dask://HOST:PORT`, the address of
        a Dask scheduler whose workers can import Placewright.

    Raises
    ------
    InvalidInputError
        If the text is none of these, Dask is not installed, or its scheduler does not answer.
    """
    kind, _, rest = text.partition(":")
    if kind == LOCAL:
        with Processes(_workers(text, rest)) as executor:
            yield executor
    elif kind == DASK and rest.startswith("//"):
        with _dask(text, rest) as executor:
            yield executor
    else:
        raise _refused(text, EXPECTED)


def check_executor(round_: Round, executor: object) -> None:
    """Refuse what is no executor, and any executor for a round without regions; None passes.

    Raises
    ------
    InvalidInputError
        As `check_executor_use` does, or if it is something else.
    """
    check_executor_use(round_, executor)
    if executor is not None and not isinstance(executor, Executor):
        raise _refused(executor, "expected an Executor, such as open_executor opens")


def check_executor_use(round_: Round, executor: object) -> None:
    """Refuse an executor, or the text that names it, for a round that has no use for one.

    Raises
    ------
    InvalidInputError
        If there is one and the round is not of policy `geo`.
    """
    policy = round_.policy.formulation
    if executor is not None and not round_.policy.spec.by_region:
        raise InvalidInputError(
            f"the round has policy {policy!r}; expected {GEO.name!r}, whose regions are decided "
            "by an executor",
            path=("executor",),
            value=executor,
            show_value=False,
        )


def default_executor(round_: Round) -> str | None:
    """Return the default executor: local processes where they pay, else None."""
    pays = len(round_.jobs) >= MIN_JOBS and cores() >= MIN_CORES
    return LOCAL if pays and round_.policy.spec.by_region else None


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _workers(text: str, number: str) -> int:
    if text == LOCAL:
        return cores()
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= 1024):
        raise _refused(text, "expected 1 to 1024 processes")
    return int(number)


@contextmanager
def _dask(text: str, address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise _refused(text, "expected Dask; install placewright[distributed]") from None
    host, _, port = address.removeprefix("//").rpartition(":")
    if not host or not port.isdigit():
        raise _refused(text, EXPECTED)
    try:
        # The client's own limit is only for the connection, which a scheduler that hangs accepts.
        client: Any = call_with_timeout(
            lambda: Client(f"tcp:{address}", timeout=ANSWER_SECONDS, set_as_default=False),  # type: ignore[no-untyped-call]
            ANSWER_SECONDS,
        )
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error) or f"nothing in {ANSWER_SECONDS:g} s"
        raise _refused(text, f"expected a Dask scheduler that answers ({reason})") from None
    try:
        yield client.get_executor(pure=False, retries=2)
    finally:
        # What is left there is of no use to anybody.
        with suppress(TimeoutError):
            call_with_timeout(client.close, CLOSE_SECONDS)


def _refused(value: object, expected: str) -> InvalidInputError:
    return InvalidInputError(expected, path=("executor",), value=value)
