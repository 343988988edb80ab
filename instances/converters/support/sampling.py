"""Sampling of a trace: which of its jobs a round takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placewright.instances.converters.support.trace_jobs import TraceJob
from placewright.instances.documents.base import MAX_NOW
from placewright.instances.errors import InvalidInputError


def invalid_argument(name: str, value: object, expected: str) -> InvalidInputError:
    """Return the error of an argument."""
    return InvalidInputError(expected, path=(name,), value=value)


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Raise InvalidInputError unless an argument is in its range."""
    if not least <= value <= most:
        raise invalid_argument(name, value, f"expected {least} to {most}")


@dataclass(frozen=True, slots=True)
class TraceSample:
    """Which jobs of a trace a round takes; times in the trace's unit of `unit_s` seconds.

    Parameters
    ----------
    at, ahead
        The jobs alive at the time `at`, and those submitted up to `ahead` after it. None: all jobs.
    jobs, seed
        Number of these that are drawn, by the seed; None: all of them.
    unit_s, unit
        Seconds of the trace's unit, and its name.
    """

    at: int | None = None
    ahead: int = 0
    jobs: int | None = None
    seed: int = 0
    unit_s: int = 1
    unit: str = "second"

    def take(self, trace: Sequence[TraceJob]) -> tuple[list[TraceJob], int, str]:
        """Return the sampled jobs in order, the time of the round, and a description of the sample.

        Raises
        ------
        InvalidInputError
            For an argument out of its range, its path the name of the argument.
        """
        for name, value in (("at", self.at or 0), ("ahead", self.ahead), ("seed", self.seed)):
            check_range(name, value, 0, MAX_NOW // self.unit_s)
        if self.at is None:
            if self.ahead:
                raise invalid_argument("ahead", self.ahead, "expected it with `at` only")
            taken, which = list(trace), "all of the trace"
        else:
            now = self.at * self.unit_s
            end = now + self.ahead * self.unit_s
            taken = [job for job in trace if job.alive(now) or now < job.submit_s <= end]
            which = f"alive at {self.unit} {self.at:,}"
            if self.ahead:
                which += f" or submitted in the {self.ahead:,} after it"
            if not taken:
                raise invalid_argument(
                    "at", self.at, f"expected a {self.unit} at which some job is alive"
                )
        if self.jobs is not None:
            check_range("jobs", self.jobs, 1, len(taken))
            draw = np.random.Generator(np.random.PCG64(self.seed)).random(len(taken))
            drawn = np.sort(np.argsort(draw, kind="stable")[: self.jobs]).tolist()
            which = f"drawn from {len(taken):,} {which} with seed {self.seed}"
            taken = [taken[i] for i in drawn]
        now = min(job.submit_s for job in taken) if self.at is None else self.at * self.unit_s
        return taken, now, which
