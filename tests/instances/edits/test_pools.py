"""Edits of pools: of the whole cluster, of each domain of a level, of some."""

from __future__ import annotations

import re
from typing import Any

import pytest

from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_edits, parse_round

RACK = {"level": "rack"}


RACKS = {"resource": "power_w", "level": "rack", "capacity": 40, "domains": {"r1": 30}}


@pytest.fixture
def base() -> Round:
    return with_pools([RACKS, {"resource": "power_w", "capacity": 90}])


def with_pools(pools: list[dict[str, Any]]) -> Round:
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{i}", "level": "rack"} for i in range(3)],
                "hosts": [
                    {"name": f"h{i}", "parent": f"r{i}", "gpus": 8, "gpu_model": "X"}
                    for i in range(3)
                ],
                "pools": pools,
            },
        }
    )


def edited(base: Round, resource: str, **change: Any) -> Round:
    return apply_edits(base, parse_edits({"edits": [{"pool": {resource: change}}]}))


def amounts(round_: Round) -> tuple[list[int], int]:
    """What each rack has, and the whole cluster."""
    racks, whole = round_.cluster.pools
    return [racks.domains.get(f"r{i}", racks.capacity) for i in range(3)], whole.capacity


@pytest.mark.parametrize(
    ("change", "racks", "whole"),
    [
        ({"to": 100}, [40, 30, 40], 100),
        ({"more": 5}, [40, 30, 40], 95),
        ({"less": 90}, [40, 30, 40], 0),
        ({**RACK, "to": 50}, [50, 50, 50], 90),
        ({**RACK, "more": 5}, [45, 35, 45], 90),
        ({**RACK, "less": 30}, [10, 0, 10], 90),
        ({**RACK, "domains": ["r1", "r2"], "more": 5}, [40, 35, 45], 90),
        ({**RACK, "domains": ["r0"], "to": 7}, [7, 30, 40], 90),
    ],
)
def test_pools_are_set_raised_and_lowered(
    base: Round, change: dict[str, Any], racks: list[int], whole: int
) -> None:
    assert amounts(edited(base, "power_w", **change)) == (racks, whole)


def test_copies_of_a_domain_have_as_much() -> None:
    raw = parse_edits({"edits": [{"add": {"like": "r1", "count": 2}}, {"add": {"like": "r0"}}]})
    host = {"resource": "heat", "level": "host", "capacity": 5, "domains": {"h1": 3, "h2": 4}}
    round_ = with_pools([RACKS, host])
    racks, hosts = apply_edits(round_, raw).cluster.pools
    assert racks.domains == {"r1": 30, "new1-r1": 30, "new2-r1": 30}
    assert hosts.domains == {"h1": 3, "h2": 4, "new1-h1": 3, "new2-h1": 3}
    assert apply_edits(with_pools([]), raw).cluster.pools == ()


def test_an_edit_that_changes_nothing_leaves_the_round(base: Round) -> None:
    assert edited(base, "power_w", to=90) is base


@pytest.mark.parametrize(
    ("resource", "change", "says"),
    [
        ("heat", {"to": 1}, "edits[0].pool.heat: 'heat': unknown resource of a pool"),
        (
            "power_w",
            {"level": "host", "to": 1},
            "pool.power_w.level: 'host': no pool of power_w of this level; expected rack or none",
        ),
        ("power_w", {**RACK, "domains": ["r9"], "to": 1}, "unknown domain of level rack"),
        ("power_w", {**RACK, "less": 31}, "expected at most what a domain has, 30"),
        ("power_w", {"to": 1, "more": 1}, "expected exactly one of to, more and less"),
        ("power_w", {}, "expected exactly one of to, more and less"),
        ("power_w", {"domains": ["r1"], "to": 1}, "given without a level"),
        ("power_w", {**RACK, "domains": ["r1", "r1"], "to": 1}, "domain 'r1' given twice"),
    ],
)
def test_what_makes_no_sense_is_refused(
    base: Round, resource: str, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(says)):
        edited(base, resource, **change)


@pytest.mark.parametrize(
    ("pools", "change", "says"),
    [
        (
            [RACKS],
            {"to": 1},
            "level: missing; the whole cluster has no pool of power_w",
        ),
        (
            [{"resource": "power_w", "capacity": 90}],
            {**RACK, "to": 1},
            "level: 'rack': no pool of power_w of this level; expected none",
        ),
    ],
)
def test_a_wrong_level_is_told_which_are_right(
    pools: list[dict[str, Any]], change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(f"edits[0].pool.power_w.{says}")):
        edited(with_pools(pools), "power_w", **change)
