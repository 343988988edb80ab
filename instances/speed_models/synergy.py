"""Synergy: CPU and memory points, worth the speed that they give.

Source: Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI'22:
Synergy-OPT (a configuration (c, m) per GPU, its speed relative to the GPU-proportional share,
chosen to maximise the sum, none below that share), sensitivity matrices of its artifact: rows are
cores per GPU, columns GB of memory per GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import memory_text
from placewright.instances.documents.sensitivity import non_dominated
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import SCALE, whole

CORES = (1, 2, 3, 4, 5, 6, 9, 12, 24)
"""Cores per GPU of the artifact's rows."""

MEMORY_GB = (125 / 6, 62.5, 125.0, 187.5, 250.0)
"""GB per GPU of the artifact's columns."""

MIB_PER_GB = 1024


def options(
    speeds: Sequence[Sequence[float]],
    gpus: int,
    *,
    fair: tuple[int, float] = (3, 62.5),
    cores: Sequence[int] = CORES,
    memory_gb: Sequence[float] = MEMORY_GB,
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per point (c, m) that no smaller point matches, worth gpus times its speed.

    Points slower than the fair share are left out: a job never does worse than under
    GPU-proportional allocation. The job is one task on one host.

    `speeds`: relative speed per row of `cores` and column of `memory_gb`. `gpus`: GPUs of the job.
    `fair`: cores and GB per GPU of the proportional share; a point of the grid. `scale`: what one
    GPU at relative speed 1 is worth. Raises InvalidInputError if the matrix is not of the grid's
    shape, or the fair share no point of it.
    """
    if len(speeds) != len(cores) or any(len(row) != len(memory_gb) for row in speeds):
        raise InvalidInputError(
            f"expected {len(cores)} rows of {len(memory_gb)} speeds", ("speeds",), speeds
        )
    if fair[0] not in cores or fair[1] not in memory_gb:
        raise InvalidInputError("expected a point of the grid", ("fair",), fair)
    at_least = speeds[cores.index(fair[0])][memory_gb.index(fair[1])]
    return tuple(
        Option(
            name=f"{cores[c]}-cores-{memory_gb[m]:.0f}-gb",
            groups=(
                TaskGroup(
                    gpu=gpus,
                    cpu=gpus * cores[c],
                    memory=memory_text(gpus * round(memory_gb[m] * MIB_PER_GB)),
                ),
            ),
            value=whole(scale * gpus * speeds[c][m], ("speeds", c, m)),
        )
        for c, m in non_dominated(speeds, at_least)
    )
