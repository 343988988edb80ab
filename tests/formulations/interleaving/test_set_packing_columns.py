"""Columns of the grouping problem and the classes of which they are made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placewright.formulations.interleaving.problem.packing_problem import ALONE, UNLIMITED_US, Rules
from placewright.formulations.interleaving.set_packing.columns import (
    count_columns,
    enumerate_columns,
    merge_classes,
    single_values,
    with_values,
)
from tests.formulations.interleaving import packings


def test_eight_types_of_jobs_make_494_columns() -> None:
    packing = packings.packing_of(Rules(spanning=True), 8, stages=np.arange(24).reshape(8, 3) + 1)
    assert count_columns(packing) == 494


def test_a_class_of_few_jobs_is_in_no_column_more_often() -> None:
    packing = packings.packing_of(
        Rules("throughput"), 2, stages=[[3, 3, 3, 3]] * 2, iteration=[12] * 2, count=[3, 1]
    )
    members = enumerate_columns(packing).members
    assert (members == 0).sum(axis=1).max() == 3
    assert (members == 1).sum(axis=1).max() == 1


def test_groups_are_of_one_bucket_and_of_as_many_as_the_rules_say() -> None:
    packing = packings.packing_of(
        Rules("efficiency", max_members=2),
        5,
        stages=[[9, 1, 1], [1, 9, 1]] * 2 + [[1, 1, 9]],
        iteration=[11] * 5,
        bucket=[0, 0, 1, 1, ALONE],
        gpu_memory=[0, 0],
    )
    groups = [m for m in enumerate_columns(packing).members.tolist() if m[1] != ALONE]
    assert groups == [[0, 1, ALONE, ALONE], [2, 3, ALONE, ALONE]]


def test_two_resources_make_groups_of_two() -> None:
    packing = packings.packing_of(
        Rules("efficiency"), 4, stages=[[9, 1], [1, 9]] * 2, iteration=[10] * 4
    )
    assert packing.max_members == 2
    assert (enumerate_columns(packing).members != ALONE).sum(axis=1).max() == 2


def test_a_group_that_is_worth_no_more_than_a_part_is_left_out() -> None:
    given = {
        "stages": [[60, 20, 20], [20, 60, 20]],
        "iteration": [100, 100],
        "weight": [10, 1],
    }
    rules = Rules("weighted_throughput", contention=(1_200_000,) * 3)
    packing = packings.packing_of(rules, 2, **given)
    assert len(enumerate_columns(packing)) == 2
    # But one whose other member must be covered is needed.
    assert len(enumerate_columns(replace(packing, must_cover=np.array([False, True])))) == 3


def test_jobs_alone_are_worth_their_best_option() -> None:
    given = {"best": [1_500_000], "weight": [3], "stages": [[1, 2, 3]], "iteration": [12]}
    assert single_values(packings.packing_of(Rules("throughput"), 1, **given)).tolist() == [
        1_500_000
    ]
    assert single_values(packings.packing_of(Rules(), 1, **given)).tolist() == [4_500_000]
    assert single_values(packings.packing_of(Rules("efficiency"), 1, **given)).tolist() == [
        10**6 * 6 // 36
    ]
    # Without a profile nothing is known to be busy.
    given |= {"stages": [[0, 0, 0]], "iteration": [0]}
    assert single_values(packings.packing_of(Rules("efficiency"), 1, **given)).tolist() == [0]


def test_slowdown_caps_are_rounded_down_and_do_not_overflow() -> None:
    packing = packings.packing_of(Rules(), 3, iteration=[3, 10**10, 1], slowdown=[1500, 10**12, 0])
    assert packing.max_period().tolist() == [4, UNLIMITED_US, UNLIMITED_US]


@pytest.mark.parametrize("objective", ["throughput", "weighted_throughput", "efficiency"])
def test_what_columns_are_worth_does_not_depend_on_how_they_are_made(objective: str) -> None:
    for seed in range(20):
        packing = packings.random_packing(seed, 6, objective)
        columns = enumerate_columns(packing)
        assert (with_values(packing, columns.members).value == columns.value).all()


def test_classes_are_merged_where_nothing_that_counts_differs() -> None:
    base = packings.packing_of(Rules("throughput"), 4, weight=[1, 2, 3, 4], limit=[9])
    assert merge_classes(base).packing.count.tolist() == [4]
    weighted = merge_classes(replace(base, rules=Rules("weighted_throughput")))
    assert weighted.packing.count.tolist() == [1, 1, 1, 1]
    assert weighted.family.tolist() == [0, 0, 0, 0]
    assert merge_classes(replace(base, conflicts=np.array([[0, 1]]))).packing.count.tolist() == [
        2,
        1,
        1,
    ]
    other_row = replace(base, per_member=np.array([[0, 0, 0, 1]]))
    assert merge_classes(other_row).packing.count.tolist() == [3, 1]
    for name in ("memory", "best", "speed", "bucket", "must_cover"):
        values = getattr(base, name).copy()
        values[2] = 0 if name == "best" else 1
        changed = replace(base, gpu_memory=np.zeros(2, np.int64), per_group=np.zeros((1, 2)))
        assert len(merge_classes(replace(changed, **{name: values})).packing.count) == 2, name
