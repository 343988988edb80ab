"""COMET: memory configurations that trade speed for bytes.

Source: Jin et al., "COMET: A Novel Memory-Efficient Deep Learning Training Framework by Using
Error-Bounded Lossy Compression", PVLDB 15(4), 2022: what a layer saves for the backward pass is
kept, compressed, recomputed or swapped; memory that this frees lets the batch grow. Which to choose
per job is a multiple choice under the memory of the GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import memory_text, whole_units
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import SCALE, positive, whole
from placewright.topology.units import WHOLE_GPU


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

    `states_mib`: weights, gradients and optimizer. `sample_mib`: activations of one sample.
    `step_s`: seconds of a step whatever the batch. `sample_s`: seconds more for each sample.
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
    gpus: int,
    *,
    per: float,
    most_batch: int,
    share: int = WHOLE_GPU,
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per configuration and batch that none of less memory matches in speed.

    Batches per GPU are powers of two up to `most_batch`. What an option needs of the memory of each
    GPU is `gpu_memory` of its tasks: a GPU that has less is none for it, and jobs that share a GPU
    share its memory.

    `gpus`: GPUs of the job, each a task. `per`: samples per second of one GPU that are worth
    `scale`. `most_batch`: largest batch per GPU that still trains as well. `share`: milli-GPU of
    each task; the training's seconds are those on such a share. Raises InvalidInputError if a
    number is out of range, or there is no configuration.
    """
    positive(per, ("per",))
    if not configurations or most_batch < 1:
        name, value = ("most_batch", most_batch) if configurations else ("configurations", 0)
        raise InvalidInputError("expected at least one", (name,), value)
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
        if -rate > fastest:
            fastest = -rate
            group = TaskGroup(count=gpus, gpu=whole_units(share), gpu_memory=memory_text(need))
            value = whole(scale * gpus * fastest / per, ("configurations",))
            found.append(Option(name=f"{chosen.name}-{batch}", groups=(group,), value=value))
    return tuple(found)


def _batches(most: int) -> list[int]:
    return [1 << k for k in range(most.bit_length())]
