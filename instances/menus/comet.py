"""COMET: memory configurations that trade speed for bytes.

References
----------
Jin et al., "COMET: A Novel Memory-Efficient Deep Learning Training Framework by Using Error-Bounded
Lossy Compression", PVLDB 15(4), 2022: what a layer saves for the backward pass is kept, compressed,
recomputed or swapped; memory that this frees lets the batch grow. Which to choose per job is a
multiple choice under the memory of the GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from placewright.instances.errors import InvalidInputError
from placewright.instances.job import Option, TaskGroup
from placewright.instances.menus.amounts import SCALE, positive, whole


@dataclass(frozen=True, slots=True)
class Configuration:
    """What of the activations stays in memory (a share above 0), and how much slower a sample is.

    `slowdown` multiplies the time of a sample: 1 for none, above 1 for compression, recomputation
    or swapping.
    """

    name: str
    kept: float
    slowdown: float = 1.0


@dataclass(frozen=True, slots=True)
class Training:
    """What a job needs on each of its GPUs.

    Attributes
    ----------
    states_mib : weights, gradients and optimizer
    sample_mib : activations of one sample
    step_s : seconds of a step whatever the batch
    sample_s : seconds more for each sample
    """

    states_mib: int
    sample_mib: float
    step_s: float
    sample_s: float


def memory_needed(training: Training, configuration: Configuration, batch: int) -> int:
    """Return the MiB that a batch per GPU needs, rounded up."""
    each = positive(training.sample_mib * configuration.kept, ("kept",))
    return training.states_mib + ceil(each * batch)


def samples_per_s(training: Training, configuration: Configuration, batch: int) -> float:
    """Return the samples per second of one GPU at a batch."""
    each = training.sample_s * positive(configuration.slowdown, ("slowdown",))
    return batch / positive(training.step_s + each * batch, ("step_s",))


def options(
    training: Training,
    configurations: Sequence[Configuration],
    gpu_memory_mib: Mapping[str, int],
    gpus: int,
    *,
    per: float,
    most_batch: int,
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per configuration and batch that none of less memory matches in speed.

    Batches per GPU are powers of two up to `most_batch`. An option allows the GPU models whose
    memory suffices; what fits none is no option.

    Parameters
    ----------
    gpu_memory_mib
        Memory of a GPU of each model.
    gpus
        GPUs of the job, each a task.
    per
        Samples per second of one GPU that are worth `scale`.
    most_batch
        Largest batch per GPU that still trains as well.

    Raises
    ------
    InvalidInputError
        If a number is out of range, or no configuration fits any model.
    """
    positive(per, ("per",))
    points = sorted(
        (
            (memory_needed(training, c, batch), -samples_per_s(training, c, batch), c, batch)
            for c in configurations
            for batch in _batches(most_batch)
        ),
        key=lambda point: point[:2],
    )
    found: list[Option] = []
    fastest = 0.0
    for need, rate, chosen, batch in points:
        models = tuple(m for m, memory in gpu_memory_mib.items() if memory >= need)
        if models and -rate > fastest:
            fastest = -rate
            found.append(
                Option(
                    name=f"{chosen.name}-{batch}",
                    groups=(TaskGroup(count=gpus, gpu=1000, gpu_models=models),),
                    value=whole(scale * gpus * fastest / per, ("configurations",)),
                )
            )
    if not found:
        raise InvalidInputError(
            "expected one that fits the memory of some GPU",
            path=("configurations",),
            value=[c.name for c in configurations],
        )
    return tuple(found)


def _batches(most: int) -> list[int]:
    return [1 << k for k in range(most.bit_length())]
