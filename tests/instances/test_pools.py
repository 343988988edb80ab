"""Pools in documents: what they say, and which rounds are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from placewright.instances.checks.round import check_round
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import UNLIMITED

Raw = dict[str, Any]

POWER = {"resource": "power_w", "level": "rack", "capacity": 100, "domains": {"r1": 50}}
TREES = {"resource": "trees", "level": "rack", "capacity": 2, "per": "job"}


def round_of(*pools: Raw, uses: Raw | None = None, formulation: str = "gang") -> Round:
    hosts = [
        {"name": "a", "parent": "r0", "gpus": 8, "gpu_model": "H100"},
        {"name": "b", "parent": "r1", "gpus": 8, "gpu_model": "H100", "resources": {"power_w": 40}},
    ]
    return Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{i}", "level": "rack"} for i in range(2)],
                "hosts": hosts,
                "pools": list(pools),
            },
            "jobs": [
                {
                    "name": "j",
                    "options": [
                        {"groups": [{"gpu": 1, "resources": {"power_w": 10}}], "uses": uses or {}}
                    ],
                }
            ],
            "policy": {"formulation": formulation},
        }
    )


def test_a_host_that_does_not_list_a_pooled_resource_has_no_limit_of_its_own() -> None:
    round_ = round_of(POWER, TREES, uses={"trees": 1})
    check_round(round_)
    cluster = build_cluster(round_.cluster)
    power = cluster.resources.index("power_w")
    assert cluster.capacity[:, power].tolist() == [UNLIMITED, 40]
    assert "trees" not in cluster.resources


@pytest.mark.parametrize(
    ("pools", "uses", "where", "what"),
    [
        ([{**POWER, "level": "row"}], {}, "cluster.pools[0].level", "unknown level"),
        ([{**POWER, "domains": {"r9": 1}}], {}, "cluster.pools[0].domains.r9", "unknown domain"),
        (
            [{"resource": "power_w", "capacity": 1, "domains": {"r0": 1}}],
            {},
            "cluster.pools[0].domains",
            "expected the level of these domains",
        ),
        ([POWER, POWER], {}, "cluster.pools[1].level", "given twice"),
        (
            [POWER, {"resource": "power_w", "capacity": 1, "per": "job"}],
            {},
            "cluster.pools[1].per",
            "expected task as in pools[0]",
        ),
        ([POWER], {"trees": 1}, "jobs[0].options[0].uses.trees", "unknown resource of a pool"),
        ([TREES], {"power_w": 1}, "jobs[0].options[0].uses.power_w", "expected trees"),
        (
            [POWER],
            {"power_w": 1},
            "jobs[0].options[0].uses.power_w: 1",
            "its pool has per: task; expected in resources of the task groups",
        ),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(
    pools: list[Raw], uses: Raw, where: str, what: str
) -> None:
    with pytest.raises(InvalidInputError) as found:
        check_round(round_of(*pools, uses=uses))
    assert what in str(found.value)
    assert where in str(found.value)


def test_what_hosts_have_for_themselves_is_no_pool() -> None:
    with pytest.raises(ValidationError, match="is a resource of hosts; expected one that hosts"):
        round_of({**POWER, "resource": "gpu"})


def test_a_policy_without_pools_refuses_them() -> None:
    with pytest.raises(InvalidInputError, match=r"cluster\.pools: not used by policy 'deadline'"):
        check_round(round_of(POWER, formulation="deadline"))
