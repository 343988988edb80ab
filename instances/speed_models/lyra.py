"""Lyra: base demand first, then growth by the seconds that it saves.

Source: Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys'23 (as Aryl, arXiv
2202.07896), its two-phase allocation: base demands first; then a multiple-choice knapsack in which
an item is a job with k workers more, its weight their GPUs, its value the reduction of the job's
running time.
"""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import WORKER, positive, whole, workers


def options(
    work: float,
    base: int,
    most: int,
    *,
    worker: TaskGroup = WORKER,
    flexible: TaskGroup | None = None,
    speeds: Mapping[int, float] | None = None,
    value: int = 1,
    scale: int = 1,
) -> tuple[Option, ...]:
    """Return an option per number of workers; progress is the seconds saved, times `scale`.

    `work`: what is left to do, in worker-seconds, or in the unit of `speeds` times seconds. `base`,
    `most`: least and largest number of workers. `worker`, `flexible`: what a worker of the base
    demand takes, and one beyond it (as the former if not given): Lyra puts these on loaned hosts,
    which `TaskGroup.hosts` can name. `speeds`: speed with each number of workers; that number
    itself if not given. `value`: the same for all options: that the job runs at all. Raises
    InvalidInputError if `most` is below `base`, a speed is missing or not above 0, or growth makes
    it slower.
    """
    if not 1 <= base <= most:
        raise InvalidInputError(f"expected at least the base {base}", ("most",), most)
    seconds: dict[int, float] = {}
    for n in range(base, most + 1):
        speed = float(n) if speeds is None else speeds.get(n, 0.0)
        seconds[n] = positive(work, ("work",)) / positive(speed, ("speeds", n))
    more = worker if flexible is None else flexible
    return tuple(
        Option(
            name=f"x{n}",
            groups=(
                workers(worker, base),
                *([_named(workers(more, n - base))] if n > base else []),
            ),
            value=value,
            progress=whole(scale * (seconds[base] - seconds[n]), ("speeds", n)),
        )
        for n in range(base, most + 1)
    )


def _named(group: TaskGroup) -> TaskGroup:
    return group.model_copy(update={"name": "flexible"})
