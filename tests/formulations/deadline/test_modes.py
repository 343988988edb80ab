"""On how many hosts a job is equally fast, and what that leaves for later leases."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.formulations.deadline.models.integrated import (
    NOT_NOW,
    equal_speed_ranges,
    modes_of,
)
from placewright.formulations.deadline.problem.compile import compile_admission
from placewright.instances.derived.leases import relative_speed
from placewright.instances.documents.deadline import Pace
from placewright.instances.documents.round import Round


@pytest.mark.parametrize(
    ("spanning", "most", "ranges"),
    [
        ((), 4, [(1, 4)]),
        (((2, 700),), 1, [(1, 1)]),
        (((2, 700),), 5, [(1, 1), (2, 5)]),
        (((2, 1000), (4, 900)), 6, [(1, 2), (3, 6)]),
        (((3, 800), (5, 900), (8, 900)), 4, [(1, 1), (2, 3), (4, 4)]),
    ],
)
def test_ranges_of_hosts_are_those_of_one_speed(
    spanning: tuple[tuple[int, int], ...], most: int, ranges: list[tuple[int, int]]
) -> None:
    pace = Pace(spanning=spanning)
    assert equal_speed_ranges(pace, most) == ranges
    for fewest, last in ranges:
        assert len({relative_speed(pace, hosts) for hosts in range(fewest, last + 1)}) == 1


def test_a_mode_says_what_is_needed_after_the_current_lease() -> None:
    job: dict[str, Any] = {
        "name": "j",
        "options": [{"groups": [{"gpu": 1, "count": 2}]}],
        "deadline": {
            "work_s": 1500,
            "due": [{"at": 2600, "value": 7}],
            "paces": [{"spanning": [[2, 500]]}],
        },
    }
    round_ = Round.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "now": 0,
            "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 2, "gpu_model": "A"}]},
            "jobs": [job],
            "leases": {"length_s": 600, "horizon": 5},
            "policy": {"formulation": "deadline"},
        }
    )
    modes = modes_of(compile_admission(round_), 2)
    found = zip(modes.fewest, modes.most, modes.need, modes.first, modes.end, strict=True)
    # 600 s of work now and 900 later; 300 now and 1,200 later; or all of it after this lease.
    assert [tuple(map(int, one)) for one in found] == [
        (1, 1, 2, 1, 4),
        (2, 2, 2, 1, 4),
        (NOT_NOW, NOT_NOW, 3, 1, 4),
    ]
