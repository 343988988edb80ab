"""Regular clusters: counts, names and hardware."""

import numpy as np
import pytest

from placewright.topology import CATALOGUE, Link, nvl72_racks, tree


def test_a_tree_has_the_asked_counts_at_every_level() -> None:
    cluster = tree("t", regions=2, datacenters=3, blocks=2, racks=4, hosts=5)
    assert cluster.levels == ("region", "datacenter", "block", "rack", "host")
    assert [len(names) for names in cluster.names] == [2, 6, 12, 48, 240]
    assert cluster.num_gpus == 240 * 8
    for depth in range(1, 5):
        held = np.bincount(cluster.parent[depth])
        assert (held == (0, 3, 2, 4, 5)[depth]).all()


def test_names_are_unique_and_say_where_a_domain_lies() -> None:
    cluster = tree("t", regions=2, datacenters=2, blocks=2, racks=12, hosts=2)
    assert cluster.hosts[-1] == "r1-d1-b1-k11-h1"
    assert cluster.names[3][1] == "r0-d0-b0-k1"
    every = [name for names in cluster.names for name in names]
    assert len(set(every)) == len(every)
    for depth in range(1, len(cluster.levels)):
        for name, parent in zip(cluster.names[depth], cluster.parent[depth], strict=True):
            assert name.rpartition("-")[0] == cluster.names[depth - 1][parent]


def test_hosts_take_capacity_and_gpus_from_their_model() -> None:
    h100, v100 = CATALOGUE["dgx-h100"], CATALOGUE["hgx-v100-8"]
    cluster = tree("t", blocks=1, racks=2, hosts=2, host_model=[h100, h100, v100, h100])
    assert cluster.resources == ("cpu", "memory")
    assert cluster.capacity[2].tolist() == [v100.cpu_milli, v100.memory_mib]
    assert cluster.capacity[3].tolist() == [h100.cpu_milli, h100.memory_mib]
    assert cluster.gpu_models == (h100.gpu_model, v100.gpu_model)
    assert cluster.gpu_model.tolist() == [0, 0, 1, 0]
    assert cluster.host_models == (h100, v100)
    assert cluster.host_model.tolist() == [0, 0, 1, 0]


def test_every_two_regions_have_one_wan_link() -> None:
    wan = Link(40_000, 45_000.0)
    cluster = tree("t", regions=3, blocks=1, racks=1, hosts=1, wan=wan)
    assert cluster.wan == {("r0", "r1"): wan, ("r0", "r2"): wan, ("r1", "r2"): wan}
    assert tree("t", blocks=1, racks=1, hosts=1).wan == {}


def test_nvl72_racks_have_18_trays_of_4_gpus() -> None:
    cluster = nvl72_racks("n", 10)
    assert cluster.levels == ("datacenter", "block", "rack", "host")
    assert [len(names) for names in cluster.names] == [1, 2, 10, 180]
    assert np.bincount(cluster.parent[2]).tolist() == [8, 2]
    assert (np.bincount(cluster.domain[2], weights=cluster.gpu_count) == 72).all()
    assert cluster.hosts[-1] == "d0-b1-k1-h17"


def test_counts_below_one_and_wrong_numbers_of_models_are_refused() -> None:
    with pytest.raises(ValueError, match="number of racks 0 is too small; expected at least 1"):
        tree("t", blocks=1, racks=0, hosts=1)
    with pytest.raises(ValueError, match="1 host models do not fit; expected 2, one per host"):
        tree("t", blocks=1, racks=1, hosts=2, host_model=[CATALOGUE["dgx-h100"]])
    with pytest.raises(ValueError, match="number of racks 0 is too small"):
        nvl72_racks("n", 0)
    with pytest.raises(ValueError, match="number of racks per block 0 is too small"):
        nvl72_racks("n", 1, racks_per_block=0)
