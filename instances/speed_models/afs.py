"""AFS: sizes of a job that stretches, by how much faster each is than one GPU.

Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI'21, its rule
AFS-L: a GPU goes to the job whose speed grows most in proportion, of two jobs by (p' - p) / p of
the one that ends sooner against (p' - p) / p' of the other. What such a rule climbs is the sum of
the logarithms of the speeds; here that sum is the term `progress`, to be maximised as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import SCALE, WORKER, positive, whole, workers


def options(
    speeds: Mapping[int, float],
    *,
    worker: TaskGroup = WORKER,
    value: int = 1,
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per number of workers; progress is `scale` times log2 of its speed-up.

    `speeds`: speed with each number of workers, in any unit, from the least number on; no larger
    number may be slower than the least. `worker`: what one worker takes. `value`: the same for all
    options: that the job runs at all. Raises InvalidInputError if a speed is not above 0, or below
    that of the least number; the path begins with `speeds`.
    """
    if not speeds:
        raise InvalidInputError("expected at least one speed", ("speeds",), speeds)
    slowest = positive(speeds[min(speeds)], ("speeds", min(speeds)))
    return tuple(
        Option(
            name=f"x{n}",
            groups=(workers(worker, n),),
            value=value,
            progress=whole(scale * log2(positive(s, ("speeds", n)) / slowest), ("speeds", n)),
        )
        for n, s in sorted(speeds.items())
    )
