"""Outages of hosts: read from a file, or drawn from a failure rate."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from placewright.instances.converters.support.csv_table import read_table
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.formats import MAX_S
from placewright.instances.traces.trace import SECOND
from placewright.rounds.replay.loop import Outage


def read_outages(path: str | os.PathLike[str], hosts: int) -> tuple[Outage, ...]:
    """Read a CSV file with the columns host (a number from 0), begin_s and end_s.

    Seconds are on the clock of the replay, which begins at the first arrival. Where it has a
    column `planned`, 1 says that jobs are stopped without losing work.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column.
    """
    table = read_table(path)
    table.require("host", "begin_s", "end_s")
    host = table.integers("host", hosts - 1)
    begin, end = table.integers("begin_s", MAX_S), table.integers("end_s", MAX_S)
    planned = table.integers("planned", 1, blank=0) if table.has("planned") else np.zeros_like(host)
    if (end <= begin).any():
        raise table.error(int((end <= begin).argmax()), "end_s", "expected more than begin_s")
    rows = zip(host.tolist(), begin.tolist(), end.tolist(), planned.tolist(), strict=True)
    return tuple(Outage(h, SECOND * b, SECOND * e, loses=not p) for h, b, e, p in rows)


def random_outages(
    hosts: int, until_us: int, *, mean_up_s: float, mean_down_s: float, seed: int
) -> tuple[Outage, ...]:
    """Draw failures of each host: exponential times from repair to failure, and until repair.

    Outages of a host do not depend on how many hosts there are.
    """
    found = []
    for host in range(hosts):
        rng = np.random.default_rng((seed, host))
        now = 0
        while True:
            begin = now + round(SECOND * rng.exponential(mean_up_s))
            if begin >= until_us:
                break
            now = begin + max(1, round(SECOND * rng.exponential(mean_down_s)))
            found.append(Outage(host, begin, now))
    return tuple(found)


def check_outages(outages: Sequence[Outage], hosts: int) -> None:
    """Raise InvalidInputError for the first outage that is of no host or has no length."""
    for number, outage in enumerate(outages):
        if not 0 <= outage.host < hosts:
            raise InvalidInputError(
                f"expected 0 to {hosts - 1}", path=("outages", number, "host"), value=outage.host
            )
        if outage.end_us <= outage.begin_us or outage.begin_us < 0:
            raise InvalidInputError(
                "expected an end after the beginning, from 0",
                path=("outages", number, "end_us"),
                value=outage.end_us,
            )
