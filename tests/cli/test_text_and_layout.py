"""Numbers and names as text, and where cells of pictures lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placewright.cli.format.text import (
    count,
    count_gpus,
    gpu_time,
    gpus,
    number,
    percent,
    place,
    short,
    shortened,
    spans,
    term_text,
)
from placewright.cli.views.gang.layout import layout_of
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.plan import Task
from placewright.instances.generators.gang import generate_cluster


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (gpus(8000), "8"),
        (gpus(250), "0.25"),
        (gpus(6_212_000), "6,212"),
        (count_gpus(1000), "1 GPU"),
        (count_gpus(250), "0.25 GPUs"),
        (gpus(1234.6), "1.235"),
        (gpu_time(0), "0 GPU-s"),
        (gpu_time(250), "0.25 GPU-s"),
        (gpu_time(3_599_000), "3,599 GPU-s"),
        (gpu_time(3_600_000), "1 GPU-h"),
        (gpu_time(9_000_000_000), "2,500 GPU-h"),
        (gpu_time(-1500), "-1.5 GPU-s"),
        (gpu_time(-9_000_000.0), "-2.5 GPU-h"),
        (count(1, "host"), "1 host"),
        (count(1213, "host"), "1,213 hosts"),
        (number(None), "-"),
        (number(5999.0), "5,999"),
        (number(5999.66), "5,999.66"),
        (term_text("disruption", 90_000), "90 GPU-s"),
        (term_text("freed", -7_200_000), "-2 GPU-h"),
        (term_text("remaining", 12_500.0), "12.5 GPUs"),
        (term_text("remaining", None), "-"),
        (term_text("value", 90_400), "90,400"),
        (term_text("weighted_throughput", 26_912_345), "26.912"),
        (term_text("efficiency", 7_100_000), "7.1"),
        (percent(None), "-"),
        (percent(0.0), "0 %"),
        (percent(0.00012), "0.012 %"),
        (percent(0.05), "5 %"),
        (percent(1e-7), "< 0.001 %"),
        (spans([]), ""),
        (spans([3, 0, 1, 2, 5]), "0-3,5"),
        (short("b0-r1-h3", "b0-r1"), "h3"),
        (short("a0", "a"), "a0"),
        (short("x", ""), "x"),
        (short("a-", "a"), "a-"),
        (shortened("n" * 50), "n" * 45 + "..."),
        (place([Task(host="h", gpus=(0, 1))]), "h:0-1"),
        (place([Task(host="h")]), "h"),
        (place([Task(host="h", gpus=(2,)), Task(host="h", gpus=(1,))]), "h:1-2"),
        (place([Task(host="h", gpus=(0,)), Task(host="i", gpus=(0,))]), "h:0 and 1 more host"),
        (
            place([Task(host="h", gpus=(1,), slot=0), Task(host="h", gpus=(0,), slot=4)]),
            "h:0@4,1@0",
        ),
    ],
)
def test_text(text, expected):
    assert text == expected


@pytest.mark.parametrize(
    ("num_gpus", "level", "cells"),
    [(64, "GPU", 64), (16_384, "GPU", 16_384), (32_768, "host", 4096), (800_000, "rack", 12_500)],
)
def test_a_cell_is_of_the_deepest_level_that_is_small_enough(num_gpus, level, cells):
    layout = layout_of(build_cluster(generate_cluster(num_gpus)))
    assert layout.level == level
    assert layout.x.size == layout.y.size == cells
    assert layout.cell_of_gpu.size == num_gpus
    assert 0.5 < layout.width / layout.height < 5


@pytest.mark.parametrize(
    ("hosts", "level", "cells"), [(20_000, "GPU", 20_000), (20_001, "run of 2 hosts", 10_001)]
)
def test_a_picture_of_hosts_without_levels_is_no_larger(hosts, level, cells):
    last = hosts - 1
    entry = {"name": f"h[00000-{last}]", "gpus": 1, "gpu_model": "A"}
    layout = layout_of(build_cluster(ClusterDocument.model_validate({"hosts": [entry]})))
    assert (layout.level, layout.x.size) == (level, cells)
    assert layout.cell_of_gpu.max() == cells - 1
    corners = np.stack([layout.x, layout.y], axis=1)
    assert len(np.unique(corners, axis=0)) == cells


@settings(max_examples=25)
@given(st.integers(1, 400))
def test_cells_never_overlap_and_racks_stay_together(hosts):
    cluster = build_cluster(generate_cluster(8 * hosts))
    layout = layout_of(cluster)
    cells = np.stack([layout.x, layout.y], axis=1)
    assert len(np.unique(cells, axis=0)) == len(cells)
    assert (layout.x >= 0).all()
    assert (layout.y >= 0).all()
    assert (layout.x + 1 <= layout.width + 1e-9).all()
    assert (layout.y + 1 <= layout.height + 1e-9).all()
    rack = np.repeat(cluster.domain[-2], cluster.gpu_count)
    for label, members in zip(layout.titles, np.arange(len(cluster.names[-2])), strict=True):
        assert label.text == cluster.names[-2][members]
        assert layout.x[rack == members].min() == label.x
        assert layout.y[rack == members].min() == label.y
