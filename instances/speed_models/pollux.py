"""Pollux: goodput, the speed of training times its statistical efficiency, over placements.

Source: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
OSDI'21: section 3 (goodput = throughput * efficiency, efficiency (phi + M_0) / (phi + M) at noise
scale phi), section 4.2.1 (fitness, a power mean of speed-ups; p = -1). The tables are those of its
artifact: `*_placements.csv` with the columns placement ("112" is one GPU on two hosts and two on a
third), local_bsz, step_time.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import SCALE, positive, power_gains


@dataclass(frozen=True, slots=True)
class Step:
    """A measurement: GPUs on each host, samples per GPU, seconds of a step."""

    gpus: tuple[int, ...]
    local_batch: int
    seconds: float

    @property
    def batch(self) -> int:
        """Samples of a step, over all GPUs."""
        return self.local_batch * sum(self.gpus)


def read_steps(lines: TextIO | Iterable[str]) -> tuple[Step, ...]:
    """Read a table with a header and the columns placement, local_bsz, step_time (s).

    Raises InvalidInputError if a column is missing or not a number; the path is the number of the
    row and the column.
    """
    steps: list[Step] = []
    for number, row in enumerate(csv.DictReader(lines)):
        try:
            gpus = tuple(sorted((int(digit) for digit in row["placement"]), reverse=True))
            steps.append(Step(gpus, int(row["local_bsz"]), float(row["step_time"])))
        except (KeyError, TypeError, ValueError):
            raise InvalidInputError(
                "expected placement, local_bsz and step_time", (number,), dict(row)
            ) from None
    return tuple(steps)


def goodput(step: Step, *, noise: float, initial_batch: int) -> float:
    """Return samples per second, each counted as it would help at the initial batch.

    `noise`: noise scale phi of the gradient, in samples. `initial_batch`: M_0, the batch that the
    user chose.
    """
    efficiency = (noise + initial_batch) / (noise + step.batch)
    return step.batch / step.seconds * efficiency


def best_goodputs(
    steps: Sequence[Step], *, noise: float, initial_batch: int
) -> dict[tuple[int, ...], float]:
    """Return the best goodput of each placement over its batches, none below the initial one."""
    best: dict[tuple[int, ...], float] = {}
    for step in steps:
        if step.batch >= initial_batch:
            rate = goodput(step, noise=noise, initial_batch=initial_batch)
            best[step.gpus] = max(best.get(step.gpus, 0.0), rate)
    return best


def options(
    steps: Sequence[Step],
    *,
    noise: float,
    initial_batch: int,
    power: float = -1.0,
    value: int = 1,
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per placement; its progress is what the speed-up adds to the fitness.

    A placement of n_1, n_2 ... GPUs on each host asks for tasks of as many GPUs, each on one host;
    two of them may meet on a host, where they are no slower. A placement that is no faster than
    another one with no more GPUs on no more hosts is left out.

    `power`: p of the fitness, the power mean of the jobs' speed-ups over one GPU. `value`: the same
    for all options: that the job runs at all. `scale`: what one unit of fitness counts. Raises
    InvalidInputError if no placement has a batch of at least `initial_batch`, or a number is out of
    range.
    """
    best = best_goodputs(steps, noise=positive(noise, ("noise",)), initial_batch=initial_batch)
    placements = sorted(best, key=lambda p: (sum(p), len(p), p))
    useful: list[tuple[int, ...]] = []
    for p in placements:
        if not any(len(q) <= len(p) and best[q] >= best[p] for q in useful):
            useful.append(p)
    if not useful:
        raise InvalidInputError(
            "expected a batch that some placement reaches", ("initial_batch",), initial_batch
        )
    one = best[useful[0]]
    gains = power_gains({i: best[p] / one for i, p in enumerate(useful)}, power, scale)
    return tuple(
        Option(name=_name(p), groups=_groups(p), value=value, progress=gains[i])
        for i, p in enumerate(useful)
    )


def _name(placement: tuple[int, ...]) -> str:
    return "-".join(f"{n}x{gpus}" for gpus, n in Counter(placement).items())


def _groups(placement: tuple[int, ...]) -> tuple[TaskGroup, ...]:
    return tuple(
        TaskGroup(name=f"of-{gpus}", count=n, gpu=gpus) for gpus, n in Counter(placement).items()
    )
