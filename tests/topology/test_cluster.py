"""The arrays of a cluster: shapes, derived arrays, immutability, and what is refused."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from placewright.topology import CATALOGUE, WHOLE_GPU, Cluster, Link, State, tree


@pytest.fixture
def cluster() -> Cluster:
    """Two racks with two hosts and one host, the second host without GPUs."""
    return Cluster(
        name="small",
        levels=("rack", "host"),
        names=(("east", "west"), ("a", "b", "c")),
        parent=(np.array([0, 0]), np.array([0, 0, 1])),
        resources=("cpu", "memory"),
        capacity=np.array([[1000, 10], [2000, 20], [3000, 30]]),
        gpu_count=np.array([2, 0, 3]),
        gpu_models=("x", "y"),
        gpu_model=np.array([1, -1, 0]),
        host_models=(),
        host_model=np.array([-1, -1, -1]),
        links={"rack": Link(100, 1.0)},
        wan={("east", "west"): Link(10, 50.0)},
    )


def test_derived_arrays_have_the_promised_shapes_types_and_values(cluster: Cluster) -> None:
    assert cluster.domain.dtype == np.int32
    assert cluster.domain.tolist() == [[0, 0, 1], [0, 1, 2]]
    assert cluster.gpu_start.dtype == np.int64
    assert cluster.gpu_start.tolist() == [0, 2, 2, 5]
    assert cluster.capacity.dtype == np.int64
    assert cluster.gpu_count.dtype == cluster.gpu_model.dtype == np.int32
    assert [parent.dtype for parent in cluster.parent] == [np.int32, np.int32]
    assert (cluster.num_hosts, cluster.num_gpus, cluster.hosts) == (3, 5, ("a", "b", "c"))
    assert cluster.host_index == {"a": 0, "b": 1, "c": 2}


def test_queries_find_levels_and_hosts_by_name(cluster: Cluster) -> None:
    assert cluster.level_index("host") == 1
    assert cluster.hosts_of("rack", "east").tolist() == [0, 1]
    assert cluster.hosts_of("host", "c").tolist() == [2]
    with pytest.raises(ValueError, match=r"level 'row' is unknown; expected one of"):
        cluster.level_index("row")
    with pytest.raises(ValueError, match="rack 'north' is unknown"):
        cluster.hosts_of("rack", "north")


def test_every_array_is_read_only_and_the_callers_array_is_copied(cluster: Cluster) -> None:
    arrays = (
        *cluster.parent,
        *(cluster.capacity, cluster.gpu_count, cluster.gpu_model, cluster.host_model),
        *(cluster.domain, cluster.gpu_start),
    )
    assert not any(array.flags.writeable for array in arrays)
    capacity = np.ones((3, 2), dtype=np.int64)
    copied = replace(cluster, capacity=capacity)
    capacity[0, 0] = 7
    assert copied.capacity[0, 0] == 1


def test_a_cluster_survives_pickling(cluster: Cluster) -> None:
    copy = pickle.loads(pickle.dumps(cluster))
    assert copy.hosts == cluster.hosts
    assert copy.domain.tolist() == cluster.domain.tolist()
    assert copy.links == cluster.links


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": ("host", "rack")}, "do not end with 'host'"),
        ({"levels": ()}, "do not end with 'host'"),
        ({"names": (("a", "b", "c"),)}, "names for 1 levels and parents for 2"),
        ({"names": (("east", "east"), ("a", "b", "c"))}, "rack 'east' occurs twice"),
        ({"names": (("east", "west"), ("a", "b", "a"))}, "host 'a' occurs twice"),
        ({"parent": ([0, 0], [0, 0, 2])}, "parent of host 2 is out of range; expected 0 to 1"),
        ({"parent": ([0, 1], [0, 0, 1])}, "parent of rack 1 is out of range; expected 0 to 0"),
        ({"parent": ([0, 0], [0, 0])}, r"parent of host has shape \(2,\); expected \(3,\)"),
        ({"resources": ("cpu", "cpu")}, "resource 'cpu' occurs twice"),
        ({"capacity": [[1, 2]]}, r"capacity has shape \(1, 2\); expected \(3, 2\)"),
        ({"capacity": [[1, 2], [1, -2], [1, 2]]}, "memory -2 of host 'b' is negative"),
        ({"capacity": [[1.5, 2], [1, 2], [1, 2]]}, "capacity has type float64"),
        ({"capacity": np.full((3, 2), 2**63, np.uint64)}, "capacity 9223372036854775808 is too"),
        ({"gpu_count": [2, -1, 3]}, "gpu_count -1 is out of range"),
        ({"gpu_count": [2, 0, 2**40]}, "gpu_count 1099511627776 is out of range"),
        ({"gpu_models": ("x", "x")}, "GPU model 'x' occurs twice"),
        ({"gpu_model": [2, -1, 0]}, "gpu_model 2 is out of range; expected -1 to 1"),
        ({"gpu_model": [-1, -1, 0]}, "host 'a' has 2 GPUs and GPU model index -1"),
        ({"gpu_model": [0, 0, 0]}, "host 'b' has 0 GPUs and GPU model index 0"),
        ({"host_model": [0, -1, -1]}, "host_model 0 is out of range; expected -1 to -1"),
        ({"links": {"row": Link(1, 0)}}, "level 'row' is unknown"),
        ({"wan": {("east", "north"): Link(1, 0)}}, "WAN link end 'north' is not a rack"),
        ({"wan": {("east", "east"): Link(1, 0)}}, "joins a domain to itself"),
        (
            {"wan": {("east", "west"): Link(1, 0), ("west", "east"): Link(1, 0)}},
            "occurs twice; expected each pair of domains once",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_value(
    cluster: Cluster, change: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(cluster, **change)  # type: ignore[arg-type]


def test_a_host_with_more_gpus_than_its_model_is_refused(cluster: Cluster) -> None:
    tray = CATALOGUE["gb200-nvl72-tray"]
    with pytest.raises(ValueError, match="host 'c' has 5 GPUs, more than its model"):
        replace(
            cluster,
            host_models=(tray,),
            host_model=np.array([-1, -1, 0]),
            gpu_count=np.array([2, 0, 5]),
        )


def test_a_cluster_without_hosts_or_resources_is_legal() -> None:
    nothing = np.array([], dtype=np.int64)
    empty = Cluster(
        "e", ("host",), ((),), (nothing,), (), nothing, nothing, (), nothing, (), nothing
    )
    assert empty.capacity.shape == (0, 0)
    assert empty.domain.shape == (1, 0)
    assert State.empty(empty).whole_free(empty).tolist() == []


def test_an_empty_state_is_all_free_and_its_copy_shares_nothing() -> None:
    cluster = tree("t", blocks=1, racks=2, hosts=2, host_model=CATALOGUE["hgx-v100-8"])
    state = State.empty(cluster)
    assert (state.free == cluster.capacity).all()
    assert state.healthy.all()
    assert not state.busy.any()
    copy = state.copy()
    for field in ("free", "gpu_free", "healthy", "busy"):
        assert not np.shares_memory(getattr(state, field), getattr(copy, field))
        getattr(copy, field)[...] = 0
    assert (state.gpu_free == WHOLE_GPU).all()


def test_whole_free_counts_untouched_gpus_per_host(cluster: Cluster) -> None:
    state = State.empty(cluster)
    state.gpu_free[:] = [1000, 500, 0, 1000, 1000]
    whole = state.whole_free(cluster)
    assert whole.dtype == np.int32
    assert whole.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("bandwidth", "latency", "message"),
    [
        (0, 1.0, "link bandwidth 0 is too small"),
        (1, -1.0, "link latency -1.0 is out of range"),
        (1, float("inf"), "link latency inf"),
        (1, float("nan"), "link latency nan"),
    ],
)
def test_links_refuse_nonsense(bandwidth: int, latency: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Link(bandwidth, latency)


def test_an_uplink_of_its_own_is_of_a_domain_whose_level_has_links(cluster: Cluster) -> None:
    links = {"rack": Link(9, 1.0)}
    known = replace(cluster, links=links, own_uplinks={("rack", "east"): 5})
    assert known.uplink_mbps(0).tolist() == [5, 9]
    for own in ({("rack", "north"): 5}, {("host", "a"): 5}):
        with pytest.raises(ValueError, match="expected a domain of a level in links"):
            replace(cluster, links=links, own_uplinks=own)
