"""ElasticFlow: sizes of a job that needs more GPUs to make its deadline, and its speed at each.

Speeds come from measured iterations if there are some for the model, else from Amdahl's law with a
serial part. Measured iterations hold the batch of *one GPU* fixed, as Muri's profiles were taken: n
GPUs do n batches in the time of an iteration, so that the speed is n / iteration. A job then trains
on the same samples in fewer iterations, each of a larger batch; whether the model minds is not
looked at. With the total batch fixed instead, iterations on smaller parts of it would have to be
measured, which the profiles do not have. Amdahl's law describes a total batch that is fixed.

Source: Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
Learning", ASPLOS'23: GPUs in powers of two, scaling curves by model, the least that makes the
deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from placewright.instances.documents.deadline import Pace
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import WORKER, positive, workers

SERIAL = Fraction(1, 20)
"""The part of the work that more GPUs do not make faster, where nothing is measured."""

_THOUSANDTHS = 1000


def sizes(most: int) -> tuple[int, ...]:
    """Return the powers of two up to `most`."""
    return tuple(1 << k for k in range(most.bit_length()))


def amdahl(gpus: Iterable[int], serial: Fraction = SERIAL) -> dict[int, Fraction]:
    """Return the speed of each number of GPUs, that of one being 1: 1 / (s + (1 - s) / n)."""
    return {n: 1 / (serial + (1 - serial) / n) for n in gpus}


def measured(iterations: Mapping[int, float]) -> dict[int, Fraction]:
    """Return the speed of each number of GPUs, in batches of a GPU per unit of `iterations`.

    Raises InvalidInputError if an iteration does not take a time above 0; the path is `iterations`
    and the GPUs.
    """
    return {n: n / Fraction(positive(t, ("iterations", n))) for n, t in iterations.items()}


def options(
    speeds: Mapping[int, Fraction | float],
    base: int,
    *,
    groups: Callable[[int], tuple[TaskGroup, ...]] | None = None,
    overhead_s: Callable[[int], int] | None = None,
) -> tuple[tuple[Option, ...], tuple[Pace, ...]]:
    """Return an option per number of GPUs and the pace of each, the least number first.

    `speeds`: speed with each number of GPUs, in any unit. `base`: the number whose seconds are the
    seconds of the job's work: its speed is 1000. The others are rounded down, so that no promise
    counts on more than there is. `groups`: the task groups of a number of GPUs; a task per GPU if
    not given. `overhead_s`: what a lease with a number of GPUs loses, in seconds; nothing if not
    given. Raises InvalidInputError if `speeds` does not have `base`, or a speed is not above 0.
    """
    if base not in speeds:
        raise InvalidInputError("expected one of the speeds", ("base",), base)
    for n, speed in speeds.items():
        positive(float(speed), ("speeds", n))
    unit = Fraction(speeds[base])
    made = []
    for n, speed in sorted(speeds.items()):
        thousandths = int(_THOUSANDTHS * Fraction(speed) / unit)
        pace = Pace(speed=max(1, thousandths), overhead_s=overhead_s(n) if overhead_s else 0)
        tasks = groups(n) if groups else (workers(WORKER, n),)
        made.append((Option(name=f"x{n}", groups=tasks), pace))
    return tuple(option for option, _ in made), tuple(pace for _, pace in made)
