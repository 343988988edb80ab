"""Cachew: workers that prepare input, until they keep up with training.

Source: Graur et al., "Cachew: Machine Learning Input Data Processing as a Service", USENIX ATC'22.
Its scaler adds a worker while that shortens a batch by more than 7 %, and so never has more than 14
of a job whose input takes t_in of one worker: 14 to 15 gain 1/15. From ceil(t_in / t_train) workers
on training waits for no input.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import SCALE, WORKER, positive, whole, workers

INPUT_WORKER = TaskGroup(name="input", gpu=0, cpu=1)
"""A worker that prepares input, on one core."""

MAX_WORKERS = 64
"""As many options a job may have."""

LEAST_GAIN = Fraction(7, 100)
"""Of a batch's time, by which a further worker has to shorten it in Cachew's scaler."""


def workers_needed(input_s: float, train_s: float) -> int:
    """Return how many workers keep up with training: ceil(t_in / t_train).

    `input_s`: seconds in which one worker prepares a batch. `train_s`: seconds in which a batch is
    trained.
    """
    positive(input_s, ("input_s",))
    return ceil(Fraction(input_s) / Fraction(positive(train_s, ("train_s",))))


def workers_of_scaler(input_s: float, train_s: float) -> int:
    """Return where Cachew's scaler stops, which adds one worker at a time."""
    needed = workers_needed(input_s, train_s)
    input_, train = Fraction(input_s), Fraction(train_s)
    number = 1
    while number < needed:
        now, then = input_ / number, max(train, input_ / (number + 1))
        if (now - then) / now <= LEAST_GAIN:
            break
        number += 1
    return number


def options(
    input_s: float,
    train_s: float,
    *,
    trainer: TaskGroup = WORKER,
    worker: TaskGroup = INPUT_WORKER,
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per number of workers; the value is `scale` times the speed of training.

    A batch takes max(t_train, t_in / w) with w workers; a speed of 1 waits for no input.

    `input_s`, `train_s`: as `workers_needed` has them. `trainer`, `worker`: what training takes,
    and what one worker takes. Raises InvalidInputError if a time is not above 0, or more than 64
    workers are needed.
    """
    most = workers_needed(input_s, train_s)
    if most > MAX_WORKERS:
        raise InvalidInputError(
            f"needs {most} workers; expected at most {MAX_WORKERS}", ("input_s",), input_s
        )
    speeds = {n: min(1.0, n * train_s / input_s) for n in range(1, most + 1)}
    return tuple(
        Option(
            name=f"w{n}",
            groups=(trainer, workers(worker, n)),
            value=whole(scale * speed, ("input_s",)),
        )
        for n, speed in speeds.items()
    )
