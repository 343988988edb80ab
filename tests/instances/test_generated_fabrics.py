"""Clusters on fat trees, rails and dragonflies: as many switches as the sources say."""

from __future__ import annotations

from collections import Counter

import pytest

from placewright.instances.checks.round import check_cluster
from placewright.instances.derived import ranges
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.fabrics import generate_fabric
from placewright.topology.catalogue import CATALOGUE
from placewright.topology.collectives import nvlink_domains

NDR = 400_000


def number_of(cluster):
    return Counter(domain.level for domain in cluster.domains)


@pytest.mark.parametrize(
    ("units", "leaves", "spines", "cores"),
    [(2, 16, 8, 0), (4, 32, 16, 0), (8, 64, 32, 0), (16, 128, 128, 64), (64, 512, 512, 256)],
)
def test_rails_have_the_switches_of_a_superpod(units, leaves, spines, cores):
    """The table of larger deployments in the reference architecture of DGX SuperPOD."""
    cluster = generate_fabric("rail", units * 256)
    check_cluster(cluster)
    number = number_of(cluster)
    assert number["leaf"] == units
    assert units * 8 == leaves
    up = units * cluster.links["leaf"].bandwidth_mbps // NDR
    assert up == units * 256
    assert up == spines * (32 if cores else 64)
    if cores:
        assert number["spine"] == units // 4
        assert number["spine"] * cluster.links["spine"].bandwidth_mbps // NDR == cores * 64
    assert cluster.levels == ("core", "spine", "leaf")[0 if cores else 1 :]


def test_a_fat_tree_of_k_ports_holds_a_quarter_of_its_cube():
    """Hosts with one NIC would be k^3 / 4; here hosts have eight."""
    cluster = generate_fabric("fat-tree", 16**3 // 4, radix=16)
    check_cluster(cluster)
    assert number_of(cluster) == {"core": 1, "spine": 16, "leaf": 128}
    assert len(cluster.hosts) == 16**3 // 4 // 8
    assert cluster.links["leaf"].bandwidth_mbps == 8 * NDR
    assert cluster.links["spine"].bandwidth_mbps == 64 * NDR
    with pytest.raises(InvalidInputError, match="expected a multiple of 8 from 8 to 1,024"):
        generate_fabric("fat-tree", 1032, radix=16)


def test_a_dragonfly_is_balanced():
    """With p = h = 8: a = 16 routers a group, 129 groups, 31 ports of 32."""
    cluster = generate_fabric("dragonfly", 129 * 16 * 8, radix=32)
    check_cluster(cluster)
    assert number_of(cluster) == {"network": 1, "group": 129, "router": 129 * 16}
    assert cluster.links["router"].bandwidth_mbps == (15 + 8) * NDR
    assert cluster.links["group"].bandwidth_mbps == 16 * 8 * NDR
    with pytest.raises(InvalidInputError, match="from 8 to 16,512"):
        generate_fabric("dragonfly", 130 * 16 * 8, radix=32)


def test_uplinks_are_less_by_the_oversubscription():
    full = generate_fabric("rail", 4096)
    half = generate_fabric("rail", 4096, oversubscription=2)
    for level in ("leaf", "spine"):
        assert half.links[level].bandwidth_mbps * 2 == full.links[level].bandwidth_mbps
    assert half.links["host"] == full.links["host"]
    tapered = generate_fabric("dragonfly", 4096, oversubscription=4)
    assert tapered.links["group"].bandwidth_mbps == 128 * NDR
    assert tapered.links["router"].bandwidth_mbps == 47 * NDR


@pytest.mark.parametrize("fabric", ["fat-tree", "rail", "dragonfly"])
@pytest.mark.parametrize("gpus", [8, 264, 2056, 4104])
def test_any_number_of_hosts_fills_domains_one_after_another(fabric, gpus):
    cluster = generate_fabric(fabric, gpus)
    check_cluster(cluster)
    arrays = build_cluster(cluster)
    assert arrays.num_gpus == gpus
    sizes = [ranges.size(entry.name) for entry in cluster.hosts]
    assert set(sizes[:-1]) <= {sizes[0]}
    assert sizes[-1] <= sizes[0]
    assert len(set(arrays.domain[0].tolist())) == 1


def test_other_host_models():
    cluster = generate_fabric("rail", 64, model="hgx-v100-8")
    assert cluster.links["host"].bandwidth_mbps == 4 * 100_000


@pytest.mark.parametrize("model", CATALOGUE)
@pytest.mark.parametrize("fabric", ["fat-tree", "rail", "dragonfly"])
def test_each_host_model_has_a_network_or_is_refused(model, fabric):
    host = CATALOGUE[model]
    if host.nvlink_hosts > 1 and fabric != "rail":
        with pytest.raises(InvalidInputError, match="shares its NVLink"):
            generate_fabric(fabric, 576, model=model)
        return
    cluster = generate_fabric(fabric, 576, model=model)
    check_cluster(cluster)
    assert build_cluster(cluster).num_gpus == 576


def test_racks_with_nvlink_are_in_units_of_eight():
    """128 racks have 9,216 GPUs, says the reference architecture."""
    cluster = generate_fabric("rail", 9216, model="gb200-nvl72-tray")
    assert number_of(cluster) == {"spine": 1, "leaf": 16, "rack": 128}
    assert cluster.links["leaf"].bandwidth_mbps == 576 * NDR
    assert cluster.links["rack"].bandwidth_mbps == 72 * NDR
    assert {ranges.size(entry.name) for entry in cluster.hosts} == {18}
    assert len(set(nvlink_domains(build_cluster(cluster)).tolist())) == 128


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "dgx"}, "model: .*unknown host model"),
        ({"radix": 8}, "radix: 8: expected an even number"),
        ({"radix": 63}, "radix: 63: expected an even number"),
        ({"radix": 0}, "radix: 0: expected an even number"),
        ({"radix": 10**9}, "radix: .*expected an even number"),
        ({"oversubscription": 0.5}, "expected a number from 1"),
        ({"oversubscription": float("nan")}, "expected a number from 1"),
    ],
)
def test_arguments_out_of_range_are_named(fields, expected):
    with pytest.raises(InvalidInputError, match=expected):
        generate_fabric("fat-tree", 64, **fields)
