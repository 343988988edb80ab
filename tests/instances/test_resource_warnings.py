"""Resources that nobody has, of which a job may ask and never starts."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.magnitudes import resource_warnings
from placewright.instances.documents.round import Round

Raw = dict[str, Any]
POWER = {"resource": "power_w", "capacity": 9000}


def warned(asked: Raw, *pools: Raw) -> list[str]:
    round_ = {
        "cluster": {
            "hosts": [{"name": "h", "gpus": 8, "gpu_model": "H100", "resources": {"nvme": 4}}],
            "pools": list(pools),
        },
        "jobs": [
            {"name": f"j{i}", "options": [{"groups": [{"gpu": 8, "resources": asked}]}]}
            for i in range(2)
        ],
    }
    return list(resource_warnings(Round.model_validate(round_)))


AT = "jobs[0].options[0].groups[0].resources"
PER_JOB = "no host has any, and its pool is per job; is uses of the option meant?"


@pytest.mark.parametrize(
    ("asked", "pools", "expected"),
    [
        ({"nvme": 1, "power_w": 5000}, [POWER], []),
        ({"powr_w": 0}, [POWER], []),
        (
            {"powr_w": 5000},
            [POWER],
            [f"{AT}.powr_w: 5000: no host and no pool has any; is power_w meant?"],
        ),
        ({"fpga": 2}, [POWER], [f"{AT}.fpga: 2: no host and no pool has any"]),
        (
            {"power_w": 5000},
            [{**POWER, "per": "job"}],
            [f"{AT}.power_w: 5000: {PER_JOB}"],
        ),
    ],
)
def test_a_resource_that_nobody_has_is_named_once(
    asked: Raw, pools: list[Raw], expected: list[str]
) -> None:
    assert warned(asked, *pools) == expected
