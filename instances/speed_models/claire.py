"""CLAIRE: an image of N^3 points on P GPUs, whose memory has to hold its fields.

Source: Brunn, Himthani, Biros, Mehl and Mang, "Multi-Node Multi-GPU Diffeomorphic Image
Registration for Large-Scale Imaging Problems", SC'20: slabs of the image, one per GPU, and
all-to-all exchanges in each Fourier transform, so that a job belongs under one switch; 2048^3
points on 256 GPUs of 16 GiB.
"""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import whole

BYTES = 4
"""Of a point of a field, in single precision."""


def memory_mib(points: int, fields: int, gpus: int) -> int:
    """Return MiB of each GPU that fields of points^3 take on so many GPUs, rounded up."""
    return -(-fields * BYTES * points**3 // (gpus << 20))


def options(
    points: int,
    fields: int,
    gpus: Sequence[int],
    *,
    switch: str,
    worker: TaskGroup,
) -> tuple[Option, ...]:
    """Return an option per number of GPUs, all under one switch; the value is that number.

    `points`: N, points along an edge of the image. `fields`: how many numbers there are of each
    point. `gpus`: the numbers of GPUs, at most N: each has a slab of one point or more. `switch`:
    the level of which one domain holds all. `worker`: what a worker takes, some whole GPUs of a
    host. Raises InvalidInputError if a number of GPUs is no multiple of a worker's, or is above N.
    """
    each = worker.gpu // 1000
    for number in gpus:
        if not each or number % each or not each <= number <= points:
            raise InvalidInputError(
                f"expected a multiple of {each} up to {points:,}", ("gpus",), number
            )
    return tuple(
        Option(
            name=f"p{number}",
            value=whole(number, ("gpus",)),
            groups=(
                worker.model_copy(
                    update={
                        "count": number // each,
                        "gpu_memory": memory_mib(points, fields, number),
                        "required": switch,
                    }
                ),
            ),
        )
        for number in sorted(gpus)
    )
