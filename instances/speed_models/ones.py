"""ONES: all GPUs in use, by jobs of which as little as possible remains.

Source: Bian et al., "Online Evolutionary Batch Size Orchestration for Scheduling Deep Learning
Workloads in GPU Clusters", SC'21, the score by which it selects (module `scheduler` of its
artifact): with Y samples done of a predicted share rho of all, Y (1 / rho - 1) remain, and a
schedule scores the sum over its jobs of Y (1 / rho - 1) c / X(c), c GPUs at a throughput of X(c):
the GPU-seconds that remain. The least wins.
"""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import WORKER, positive, whole, workers


def remaining_s(samples_done: float, progress: float, throughput: float) -> float:
    """Return the seconds that a job still runs: Y (1 / rho - 1) / X.

    `samples_done`: Y, samples that the job has processed. `progress`: rho, the predicted share of
    all its samples that this is, above 0 and at most 1. `throughput`: X, samples per second. Raises
    InvalidInputError if one is out of range; the path is its name.
    """
    if positive(progress, ("progress",)) > 1:
        raise InvalidInputError("expected at most 1", ("progress",), progress)
    if samples_done:
        positive(samples_done, ("samples_done",))
    return samples_done * (1 / progress - 1) / positive(throughput, ("throughputs",))


def options(
    throughputs: Mapping[int, float],
    *,
    samples_done: float,
    progress: float,
    horizon_s: float,
    worker: TaskGroup = WORKER,
    scale: int = 1,
) -> tuple[Option, ...]:
    """Return an option per number of workers c, of progress c (horizon - remaining seconds).

    Under the terms `value, progress`, with the default value (the GPUs asked), as many GPUs as can
    be are in use. Their number times the horizon is then the same for all schedules, so that the
    largest progress is ONES's least score. A worker is one GPU.

    `throughputs`: samples per second with each number of workers. `horizon_s`: the same for all
    jobs of a round: at least the seconds that any option of any job remains. `scale`: what one
    GPU-second counts. Raises InvalidInputError if the horizon is shorter, or a number is out of
    range.
    """
    left = {n: remaining_s(samples_done, progress, x) for n, x in throughputs.items()}
    for n, seconds in left.items():
        if seconds > horizon_s:
            raise InvalidInputError(
                f"expected at least the {seconds:g} s that remain with {n} workers",
                ("horizon_s",),
                horizon_s,
            )
    return tuple(
        Option(
            name=f"x{n}",
            groups=(workers(worker, n),),
            progress=whole(scale * n * (horizon_s - seconds), ("throughputs", n)),
        )
        for n, seconds in sorted(left.items())
    )
