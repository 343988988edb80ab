"""Clusters from names."""

from typing import Any

import numpy as np
import pytest

from placewright.topology import CATALOGUE, Cluster, Link, assemble


def build(**changes: Any) -> Cluster:
    """Assemble two blocks with two racks and one rack, three hosts, with some arguments changed."""
    arguments: dict[str, Any] = {
        "name": "named",
        "levels": ["block", "rack"],
        # A rack may come before its block.
        "domains": [
            ("r2", "rack", "b1"),
            ("b0", "block", None),
            ("b1", "block", None),
            ("r0", "rack", "b0"),
            ("r1", "rack", "b0"),
        ],
        "hosts": [("z", "r1"), ("y", "r2"), ("x", "r0")],
        "gpu_count": [8, 0, 4],
        "gpu_model": ["P100", None, "G2"],
        "resources": ["cpu"],
        "capacity": [[1], [2], [3]],
    }
    return assemble(**(arguments | changes))


def test_domains_and_hosts_keep_their_order_and_find_their_parents() -> None:
    cluster = build()
    assert cluster.levels == ("block", "rack", "host")
    assert cluster.names == (("b0", "b1"), ("r2", "r0", "r1"), ("z", "y", "x"))
    assert cluster.domain.tolist() == [[0, 1, 0], [2, 0, 1], [0, 1, 2]]
    assert cluster.gpu_models == ("P100", "G2")
    assert cluster.gpu_model.tolist() == [0, -1, 1]
    assert cluster.host_models == ()
    assert cluster.host_model.tolist() == [-1, -1, -1]


def test_host_models_come_from_the_catalogue_and_links_are_kept() -> None:
    uplink, wan = Link(100, 1.0), Link(10, 9.0)
    cluster = build(
        host_model=["dgx-a100", None, "gb200-nvl72-tray"],
        links={"rack": uplink},
        wan={("b0", "b1"): wan},
    )
    assert cluster.host_models == (CATALOGUE["dgx-a100"], CATALOGUE["gb200-nvl72-tray"])
    assert cluster.host_model.tolist() == [0, -1, 1]
    assert (cluster.links, cluster.wan) == ({"rack": uplink}, {("b0", "b1"): wan})


def test_hosts_need_no_level_above() -> None:
    cluster = build(levels=[], domains=[], hosts=[("z", None), ("y", None), ("x", None)])
    assert cluster.levels == ("host",)
    assert cluster.domain.tolist() == [[0, 1, 2]]


def test_the_same_name_may_occur_on_different_levels() -> None:
    cluster = build(
        domains=[("n", "block", None), ("n", "rack", "n")],
        hosts=[(h, "n") for h in ("n", "y", "x")],
    )
    assert cluster.domain.tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 2]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": ["rack", "rack"]}, "level 'rack' occurs twice"),
        ({"levels": ["block", "rack", "host"]}, "level 'host' occurs twice"),
        ({"domains": [("b0", "row", None)]}, "level 'row' of domain 'b0' is unknown"),
        ({"domains": [("b0", "block", "b0")]}, "parent 'b0' of block 'b0' is not allowed"),
        (
            {"domains": [("b0", "block", None), ("r0", "rack", "b7")]},
            "parent 'b7' of rack 'r0' is unknown; expected the name of a block",
        ),
        (
            {"domains": [("b0", "block", None), ("r0", "rack", None)]},
            "parent None of rack 'r0' is unknown",
        ),
        (
            {"hosts": [("z", "b0"), ("y", "r2"), ("x", "r0")]},
            "parent 'b0' of host 'z' is unknown; expected the name of a rack",
        ),
        ({"hosts": [("z", "r0"), ("z", "r2"), ("x", "r0")]}, "host 'z' occurs twice"),
        ({"host_model": ["dgx-2", None, None]}, "host model 'dgx-2' is unknown; expected one of"),
        ({"gpu_model": ["P100", "P100", "G2"]}, "host 'y' has 0 GPUs"),
        ({"gpu_count": [8, 0]}, r"gpu_count has shape \(2,\)"),
        ({"capacity": [[1], [2], [-3]]}, "cpu -3 of host 'x' is negative"),
    ],
)
def test_wrong_names_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_twelve_thousand_hosts_assemble_into_consistent_arrays() -> None:
    racks = [(f"r{i}", "rack", "b0") for i in range(1_250)]
    hosts = [(f"h{i}", f"r{i // 10}") for i in range(12_500)]
    cluster = build(
        domains=[("b0", "block", None), *racks],
        hosts=hosts,
        gpu_count=np.full(12_500, 8),
        gpu_model=["x"] * 12_500,
        capacity=np.ones((12_500, 1), dtype=np.int64),
    )
    assert cluster.num_gpus == 100_000
    assert (cluster.domain[1] == np.arange(12_500) // 10).all()
