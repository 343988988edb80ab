"""Where the rounds of regions are decided: here, in local processes, or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from placewright.instances.errors import InvalidInputError
from placewright.instances.round import Round

REGIONAL = "geo"
LOCAL, DASK = "local", "dask"
PAYS, PAYS_FROM = 10_000, 4
"""Jobs and cores from which processes take less time than they need to start."""

EXPECTED = "expected local, local:N or dask://HOST:PORT"


@contextmanager
def open_executor(text: str) -> Iterator[Executor]:
    """Open the executor that a text names; it ends with the context, a Dask cluster goes on.

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
        with local_processes(_workers(text, rest)) as pool:
            yield pool
    elif kind == DASK and rest.startswith("//"):
        with _dask(text, rest) as pool:
            yield pool
    else:
        raise _refused(text, EXPECTED)


def check_executor(round_: Round, executor: Executor | str | None) -> None:
    """Refuse an executor, or the text that names it, for a round that has no use for one.

    Raises
    ------
    InvalidInputError
        If there is one and the round is not of policy `geo`.
    """
    policy = round_.policy.formulation
    if executor is not None and policy != REGIONAL:
        raise InvalidInputError(
            f"the round has policy {policy!r}; expected {REGIONAL!r}, whose regions are decided "
            "by an executor",
            path=("executor",),
            value=executor,
            show_value=False,
        )


def local_processes(workers: int) -> ProcessPoolExecutor:
    """Make so many local processes; they start when they are first needed."""
    # A copy of this process could hold locks of threads that it does not have.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


@contextmanager
def executor_for(round_: Round, given: Executor | None) -> Iterator[Executor | None]:
    """Open what decides the regions of a round: the executor given, or local processes if they pay.

    None decides them here.
    """
    if given is None and len(round_.jobs) >= PAYS and cores() >= PAYS_FROM:
        with local_processes(cores()) as pool:
            yield pool
    else:
        yield given


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
        client: Any = Client(f"tcp:{address}", timeout=10, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise _refused(text, f"expected a Dask scheduler that answers ({error})") from None
    with client, client.get_executor(pure=False, retries=2) as pool:
        yield pool


def _refused(text: str, expected: str) -> InvalidInputError:
    return InvalidInputError(expected, path=("executor",), value=text)
