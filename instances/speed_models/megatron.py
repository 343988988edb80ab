"""Megatron-LM: tensor, pipeline and data parallel shapes of a transformer.

A shape (t, p, d) trains on t p d GPUs. This module says which shapes are valid and what they cost;
where their GPUs go (tensor groups inside one NVLink domain, stages close, data-parallel rings
across) is a matter of task groups.

Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM", SC'21: sections 2.2 (bubble), 3 (rules for t, p, d, b) and 5.1, table 1; equations 2
to 4. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys'23,
equation 2 (activations of a layer).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MIB = 1 << 20
SECONDS_PER_DAY = 86_400

STATE_BYTES = 18
"""Per parameter: weight 2, gradient 4, and for Adam a copy and two moments of 4 bytes each."""


@dataclass(frozen=True, slots=True)
class Transformer:
    """A model of `layers` equal layers of width `hidden`, trained on `sequence` tokens at a time.

    The vocabulary and sequence length default to those of the published table.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary: int = 51_200
    sequence: int = 2_048

    @property
    def parameters(self) -> int:
        """12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)), a whole number."""
        per_layer = 12 * self.hidden**2 + 13 * self.hidden
        return self.layers * per_layer + (self.vocabulary + self.sequence) * self.hidden

    def flops(self, batch: int) -> float:
        """Return the operations of one iteration of `batch` sequences, activations recomputed.

        96 B s l h^2 (1 + s / (6 h) + V / (16 l h)).
        """
        tokens = batch * self.sequence
        factor = (
            1
            + self.sequence / (6 * self.hidden)
            + self.vocabulary / (16 * self.layers * self.hidden)
        )
        return 96 * tokens * self.layers * self.hidden**2 * factor


@dataclass(frozen=True, slots=True)
class Shape:
    """Tensor, pipeline and data parallel sizes; sequences per microbatch; chunks per stage."""

    tensor: int
    pipeline: int
    data: int
    microbatch: int = 1
    interleave: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of the shape."""
        return self.tensor * self.pipeline * self.data

    def bubble(self, batch: int) -> float:
        """Return the idle share of the ideal time of an iteration: (p - 1) / (v m).

        m = batch / (d b) microbatches pass each pipeline.
        """
        microbatches = batch / (self.data * self.microbatch)
        return (self.pipeline - 1) / (self.interleave * microbatches)


def memory_mib(model: Transformer, shape: Shape) -> int:
    """Return the memory that the fullest GPU of a shape needs, in MiB, rounded up.

    Its part of parameters and optimizer (the embedding is on the first stage and, tied, on the
    last), the inputs of its layers for as many microbatches as are in flight, and, since
    activations are recomputed, those of one layer: s b h (10 + 24 / t + 5 a s / (h t)) bytes.
    """
    t, p, b = shape.tensor, shape.pipeline, shape.microbatch
    s, h = model.sequence, model.hidden
    embedding = (model.vocabulary + s) * h
    of_layers = (model.parameters - embedding) / p
    states = STATE_BYTES * (of_layers + embedding) / t
    # The first stage holds p microbatches, 1 + (p - 1) / (p v) times that when interleaved.
    in_flight = p if shape.interleave == 1 else p + (p - 1) / shape.interleave
    inputs = 2 * s * b * h * (model.layers / p) * in_flight
    one_layer = s * b * h * (10 + 24 / t + 5 * model.heads * s / (h * t))
    return -int(-(states + inputs + one_layer) // MIB)


def faults(
    model: Transformer, shape: Shape, *, batch: int, domain_gpus: int, gpu_memory_mib: int
) -> tuple[str, ...]:
    """Return the rules that a shape breaks; empty for a valid one.

    `batch`: sequences of one iteration, over all data-parallel replicas. `domain_gpus`: GPUs that
    NVLink connects: a tensor group stays inside. `gpu_memory_mib`: memory of one GPU.
    """
    t, p, d, b, v = shape.tensor, shape.pipeline, shape.data, shape.microbatch, shape.interleave
    rules = (
        (model.heads % t == 0, f"{model.heads} heads are not divisible by tensor {t}"),
        (t <= domain_gpus, f"tensor {t} is more than the {domain_gpus} GPUs that NVLink connects"),
        (
            model.layers % (p * v) == 0,
            f"{model.layers} layers are not divisible by pipeline {p} times interleave {v}",
        ),
        (
            batch % (d * b) == 0,
            f"batch {batch} is not divisible by data {d} times microbatch {b}",
        ),
        (
            v == 1 or (batch // (d * b)) % p == 0,
            f"microbatches of an interleaved schedule are not divisible by pipeline {p}",
        ),
        (
            (need := memory_mib(model, shape)) <= gpu_memory_mib,
            f"{need} MiB per GPU are more than its {gpu_memory_mib}",
        ),
    )
    return tuple(text for kept, text in rules if not kept)


def shapes(
    model: Transformer,
    gpus: int,
    *,
    batch: int,
    domain_gpus: int,
    gpu_memory_mib: int,
    microbatch: int = 1,
) -> Iterator[Shape]:
    """Yield all valid shapes on exactly `gpus` GPUs, small tensor and then pipeline sizes first."""
    for t in _divisors(gpus):
        for p in _divisors(gpus // t):
            shape = Shape(t, p, gpus // t // p, microbatch)
            if not faults(
                model,
                shape,
                batch=batch,
                domain_gpus=domain_gpus,
                gpu_memory_mib=gpu_memory_mib,
            ):
                yield shape


def training_days(model: Transformer, tokens: float, gpus: int, flops_per_gpu: float) -> float:
    """Return the days that training takes: 8 T P / (n X) seconds.

    `tokens`: tokens to train on, T. `flops_per_gpu`: operations per second that each GPU reaches,
    X.
    """
    return 8 * tokens * model.parameters / (gpus * flops_per_gpu) / SECONDS_PER_DAY


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]


@dataclass(frozen=True, slots=True)
class Published:
    """A row of table 1: billions of parameters, the model, its shape and batch."""

    billions: float
    model: Transformer
    shape: Shape
    batch: int


PUBLISHED: tuple[Published, ...] = (
    Published(1.7, Transformer(24, 2_304, 24), Shape(1, 1, 32), 512),
    Published(3.6, Transformer(30, 3_072, 32), Shape(2, 1, 32), 512),
    Published(7.5, Transformer(36, 4_096, 32), Shape(4, 1, 32), 512),
    Published(18.4, Transformer(40, 6_144, 48), Shape(8, 1, 32), 1_024),
    Published(39.1, Transformer(48, 8_192, 64), Shape(8, 2, 32), 1_536),
    Published(76.1, Transformer(60, 10_240, 80), Shape(8, 4, 32), 1_792),
    Published(145.6, Transformer(80, 12_288, 96), Shape(8, 8, 24), 2_304),
    Published(310.1, Transformer(96, 16_384, 128), Shape(8, 16, 15), 2_160),
    Published(529.6, Transformer(105, 20_480, 128), Shape(8, 35, 9), 2_520),
    Published(1008.0, Transformer(128, 25_600, 160), Shape(8, 64, 6), 3_072),
)
"""Table 1 of the paper, smallest model first; 80 GB GPUs, 8 of them connected by NVLink."""
