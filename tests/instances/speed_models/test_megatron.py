"""Megatron's published shapes are valid, and its formulas give the published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placewright.instances.speed_models.megatron import (
    PUBLISHED,
    Published,
    Shape,
    Transformer,
    faults,
    memory_mib,
    shapes,
    training_days,
)

A100_80GB_MIB = 80 * 1024
TABLE = {
    # parameters in billions: tensor, pipeline, data, GPUs
    1.7: (1, 1, 32, 32),
    3.6: (2, 1, 32, 64),
    7.5: (4, 1, 32, 128),
    18.4: (8, 1, 32, 256),
    39.1: (8, 2, 32, 512),
    76.1: (8, 4, 32, 1024),
    145.6: (8, 8, 24, 1536),
    310.1: (8, 16, 15, 1920),
    529.6: (8, 35, 9, 2520),
    1008.0: (8, 64, 6, 3072),
}


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.billions}B")
def test_a_published_row_is_a_valid_shape_of_its_model(row: Published) -> None:
    shape = row.shape
    assert (shape.tensor, shape.pipeline, shape.data, shape.gpus) == TABLE[row.billions]
    assert row.model.parameters == pytest.approx(row.billions * 1e9, rel=0.03)
    limits = {"batch": row.batch, "domain_gpus": 8, "gpu_memory_mib": A100_80GB_MIB}
    assert faults(row.model, shape, **limits) == ()
    assert shape in set(shapes(row.model, shape.gpus, **limits))
    # Tensor parallelism first: a pipeline has stages only where NVLink's GPUs do not suffice.
    assert shape.pipeline == 1 or shape.tensor == 8


def test_published_training_times_follow_from_the_parameters() -> None:
    gpt3 = Transformer(layers=96, hidden=12_288, heads=96)
    assert round(training_days(gpt3, 300e9, 1_024, 140e12)) == 34
    assert round(training_days(PUBLISHED[-1].model, 450e9, 3_072, 163e12)) == 84


def test_operations_per_gpu_are_within_the_peak_of_an_a100() -> None:
    """The paper reports 52 % of 312 teraFLOP/s for the largest model: 502 petaFLOP/s in all."""
    largest = PUBLISHED[-1]
    seconds = largest.model.flops(largest.batch) / 502e15
    assert largest.batch * largest.model.sequence / seconds == pytest.approx(
        502e15 / (8 * largest.model.parameters), rel=0.02
    )


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"tensor": 16}, "tensor 16 is more than the 8 GPUs"),
        ({"tensor": 7}, "160 heads are not divisible by tensor 7"),
        ({"pipeline": 60}, "128 layers are not divisible by pipeline 60 times interleave 1"),
        ({"data": 7}, "batch 3072 is not divisible by data 7 times microbatch 1"),
        ({"microbatch": 5}, "batch 3072 is not divisible by data 6 times microbatch 5"),
        ({"interleave": 4}, "128 layers are not divisible by pipeline 64 times interleave 4"),
        ({"pipeline": 16}, "MiB per GPU are more than its 81920"),
    ],
)
def test_a_shape_that_breaks_a_rule_is_refused_by_name(change: dict[str, int], rule: str) -> None:
    row = PUBLISHED[-1]
    broken = faults(
        row.model,
        replace(row.shape, **change),
        batch=row.batch,
        domain_gpus=8,
        gpu_memory_mib=A100_80GB_MIB,
    )
    assert any(rule in text for text in broken), broken


def test_microbatches_must_fill_the_rounds_of_an_interleaved_schedule() -> None:
    model = Transformer(layers=48, hidden=8_192, heads=64)
    limits = {"domain_gpus": 8, "gpu_memory_mib": A100_80GB_MIB}
    shape = Shape(8, 4, 3, interleave=2)
    assert faults(model, shape, batch=24, **limits) == ()
    assert faults(model, shape, batch=18, **limits) == (
        "microbatches of an interleaved schedule are not divisible by pipeline 4",
    )


def test_every_shape_on_a_few_gpus_is_found_by_trying_all() -> None:
    model = Transformer(layers=12, hidden=1_024, heads=12)
    limits = {"batch": 24, "domain_gpus": 4, "gpu_memory_mib": 4_000}
    every = [
        Shape(t, p, d)
        for t in range(1, 13)
        for p in range(1, 13)
        for d in range(1, 13)
        if t * p * d == 12 and not faults(model, Shape(t, p, d), **limits)
    ]
    assert list(shapes(model, 12, **limits)) == every
    assert every
    assert all(memory_mib(model, shape) <= 4_000 for shape in every)


def test_the_bubble_shrinks_with_chunks_and_microbatches() -> None:
    assert Shape(1, 8, 1).bubble(64) == 7 / 64
    assert Shape(1, 8, 1, interleave=2).bubble(64) == 7 / 128
    assert Shape(1, 8, 2, microbatch=4).bubble(64) == 7 / 8
