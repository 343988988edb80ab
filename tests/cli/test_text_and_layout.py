"""Numbers and names as text."""

from __future__ import annotations

import pytest

from placewright.instances.derived.phrases import count
from placewright.instances.documents.plan import Task
from placewright.report.text import (
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
        (shortened("n" * 40), "n" * 40),
        (shortened("a" * 30 + "z" * 30), "a" * 19 + "..." + "z" * 18),
        (shortened("experiment-3", 8), "exp...-3"),
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
