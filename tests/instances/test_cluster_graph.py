"""Cluster documents as graphs, and back: nothing of what a document says is lost."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from examples import examples
from placewright import ClusterDocument, InvalidInputError, load_round
from placewright.instances.checks.cluster import check_cluster
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.generators.fabrics import generate_fabric
from placewright.instances.generators.gang import generate_cluster
from placewright.instances.io.files import parse_cluster
from placewright.instances.io.graph_files import load_graph, write_graph
from placewright.topology import CATALOGUE, Cluster, GraphError

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
BUNDLED = [
    pytest.param(path.stem, marks=[pytest.mark.nightly] if path.stem == "megatron" else [])
    for path in sorted(LIBRARY.glob("*.yaml"))
]


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_clusters_come_back_from_their_graphs(name):
    document = load_round(LIBRARY / f"{name}.yaml").cluster
    arrays = build_cluster(document)
    for detail in ("host", "gpu"):
        assert ClusterDocument.from_graph(document.to_graph(detail)) == document
        assert Cluster.from_graph(arrays.to_graph(detail)) == arrays
        if not document.pools and all(host.healthy for host in document.hosts):
            assert Cluster.from_graph(document.to_graph(detail)) == arrays
            assert build_cluster(ClusterDocument.from_graph(arrays.to_graph(detail))) == arrays


def comes_back(document: ClusterDocument) -> None:
    arrays = build_cluster(document)
    for detail in ("host", "gpu"):
        graph = document.to_graph(detail)
        assert ClusterDocument.from_graph(graph) == document
        assert Cluster.from_graph(graph) == Cluster.from_graph(arrays.to_graph(detail)) == arrays


@pytest.mark.parametrize("fabric", [None, "fat-tree", "rail", "dragonfly"])
def test_generated_clusters_come_back_from_their_graphs(fabric):
    comes_back(generate_cluster(96) if fabric is None else generate_fabric(fabric, 256))


@pytest.mark.parametrize("model", CATALOGUE)
def test_hosts_of_each_model_come_back_from_their_graphs(model):
    few = [{"name": f"few{n}", "model": model, "gpus": n} for n in range(CATALOGUE[model].gpus)]
    bare = {"name": "n[0-1]", "gpus": CATALOGUE[model].gpus, "gpu_model": "x", "gpu_links": model}
    for hosts in ([{"name": "h[0-1]", "model": model}], few[:2], few[2:], [bare]):
        if hosts:
            comes_back(parse_cluster({"hosts": hosts}))


@pytest.mark.parametrize("word", ["N", "-"])
def test_hosts_of_many_gpus_come_back_from_their_graphs(word):
    rows = [" ".join("X" if i == j else word for j in range(40)) for i in range(40)]
    classes = {"N": {"kind": "xgmi", "bandwidth_mbps": 900}}
    links = {"name": "all", "classes": classes, "gpus": rows}
    hosts = [{"name": "h[0-1]", "gpus": 40, "gpu_model": "x", "gpu_links": "all"}]
    document = parse_cluster({"hosts": hosts, "gpu_links": [links]})
    comes_back(document)
    assert document.to_graph("gpu").size() <= 2 * (40 + 40 + 1)


def test_arrays_refuse_what_they_do_not_say():
    unhealthy = {"name": "h", "gpus": 1, "gpu_model": "x", "healthy": False}
    graph = parse_cluster({"hosts": [unhealthy]}).to_graph()
    with pytest.raises(GraphError, match=r"node \('host', 'h'\): healthy is False, arrays do not"):
        Cluster.from_graph(graph)
    pooled = {"hosts": [unhealthy], "pools": [{"resource": "power", "capacity": 1}]}
    with pytest.raises(GraphError, match="graph: has pools, arrays have none; expected ClusterD"):
        Cluster.from_graph(parse_cluster(pooled).to_graph())


LEVELS = ("region", "zone", "switch", "gpu", "nic", "cluster", "rail", "numa")
KINDS = ("nvlink", "xgmi", "pcie", "numa", "system")
MODELS = (None, *CATALOGUE)


def matrix(name: str, gpus: int, rng: random.Random) -> dict[str, Any]:
    classes = {
        f"W{i}": {"kind": rng.choice(KINDS), "bandwidth_mbps": rng.choice((1, 50, 400_000))}
        for i in range(rng.randint(1, 5))
    }
    words = [*classes, "-"]
    drawn = {(i, j): rng.choice(words) for i in range(gpus) for j in range(i)}
    rows = [
        " ".join("X" if i == j else drawn[max(i, j), min(i, j)] for j in range(gpus))
        for i in range(gpus)
    ]
    nics = [" ".join(rng.choices(words, k=gpus)) for _ in range(rng.randint(0, 2))]
    numa = [rng.choice((0, 3)) for _ in range(gpus)] if rng.random() < 0.5 else []
    return {"name": name, "classes": classes, "gpus": rows, "nics": nics, "numa": numa}


def host(number: int, innermost: list[str], matrices: list[Any], rng: random.Random) -> Any:
    """Return an entry of a host, or of a range, with few fields or many."""
    entry: dict[str, Any] = {"name": f"h{number}-" + rng.choice(("[08-11]", "[0-0]", "x", "7"))}
    model, fitting = rng.choice(MODELS), [m for m in matrices if rng.random() < 0.5]
    if innermost:
        entry["parent"] = rng.choice(innermost)
    if model is not None:
        entry["model"] = model
    if model is None or rng.random() < 0.3:
        entry["gpus"] = rng.choice((0, 1, 4))
        entry["gpu_model"] = rng.choice(("A100-SXM4-80GB", "H100", "x"))
    if fitting:
        entry["gpu_links"] = fitting[0]["name"]
        most = 8 if model is None else CATALOGUE[model].gpus
        entry["gpus"] = rng.choice((min(len(fitting[0]["gpus"]), most), 1))
        entry.setdefault("gpu_model", "H200")
    extra = {
        "gpu_memory": rng.choice(("80Gi", "0", "40960Mi")),
        "mig": rng.random() < 0.5,
        "cpu": rng.choice((0, 96, "1500m")),
        "memory": rng.choice(("1Ti", "1537Mi", 0)),
        "resources": {"nvme": rng.randint(0, 4), "a.b/c": 1},
        "healthy": rng.random() < 0.8,
        "annotations": {"slurm.name": 'ä <&> "quoted"', "empty": ""},
    }
    return entry | {name: value for name, value in extra.items() if rng.random() < 0.3}


def drawn_document(seed: int) -> ClusterDocument:
    """Return a document with anything that one can say."""
    rng = random.Random(seed)
    levels = rng.sample(LEVELS, rng.randint(0, 3))
    above: list[str] = []
    outermost: list[str] = []
    domains: list[dict[str, Any]] = []
    for level in levels:
        names = [f"{level}-{i}" for i in range(rng.randint(1, 3))]
        domains += [
            {"name": name, "level": level, "parent": rng.choice(above) if above else None}
            for name in names
        ]
        outermost, above = outermost or names, names
    rng.shuffle(domains)
    matrices = [matrix(f"m{i}", rng.randint(1, 5), rng) for i in range(rng.randint(0, 2))]
    links = {
        level: {"bandwidth_mbps": rng.choice((1, 400_000)), "latency_us": rng.choice((0.0, 1.5))}
        for level in (*levels, "host")
        if rng.random() < 0.5
    }
    pairs = list(combinations(outermost, 2)) if levels else []
    wan = [
        {"between": rng.sample(pair, 2), "bandwidth_mbps": 9, "latency_us": 30.0}
        for pair in rng.sample(pairs, rng.randint(0, len(pairs)))
    ]
    pools = [
        {"resource": "licence", "capacity": 3},
        {"resource": "power", "level": "host", "capacity": 5, "per": "job"},
    ]
    hosts = [host(i, above, matrices, rng) for i in range(rng.randint(1, 5))]
    for one in (*domains, *hosts):
        level = one.get("level", "host")
        linked = level in links and "model" not in one and level != [*levels, "host"][0]
        if linked and rng.random() < 0.4:
            one["uplink_mbps"] = rng.choice((1, 7, 400_000))
    return parse_cluster(
        {
            "name": "drawn",
            "levels": levels,
            "domains": domains,
            "hosts": hosts,
            "links": links,
            "wan": wan,
            "pools": rng.sample(pools, rng.randint(0, 2)),
            "gpu_links": matrices,
        }
    )


def test_anything_that_a_document_says_comes_back(tmp_path):
    for seed in range(examples(day=25, nightly=100)):
        document = drawn_document(seed)
        arrays = build_cluster(document)
        for detail in ("host", "gpu"):
            graph = document.to_graph(detail)
            assert ClusterDocument.from_graph(graph) == document, seed
            assert Cluster.from_graph(arrays.to_graph(detail)) == arrays, seed
            for suffix in ("json", "graphml") if seed % 4 == 0 else ():
                write_graph(graph, tmp_path / f"g.{suffix}")
                read = load_graph(tmp_path / f"g.{suffix}")
                assert ClusterDocument.from_graph(read) == document, seed
            if not document.pools and all(entry.healthy for entry in document.hosts):
                assert Cluster.from_graph(graph) == arrays, seed


VALUES = (None, -1, 0, 1, 2.5, "x", "", "host", True, [], {}, [1], {"a": 1}, float("nan"), ("a",))
NAMES = ("kind", "level", "name", "index", "bandwidth_mbps", "latency_us", "gpus", "first", "numa")
EDGES = ("contains", "nvlink", "pcie", "uplink", "rail", "wan", "system")


def spoil(graph: Any, rng: random.Random) -> None:
    """Change one thing of a graph."""
    nodes = list(graph)
    at = graph.nodes[rng.choice(nodes)]
    edges = list(graph.edges)
    change = rng.randrange(8)
    if change == 0:
        at[rng.choice((*NAMES, *at))] = rng.choice(VALUES)
    elif change == 1:
        at.pop(rng.choice([*at, "kind"]), None)
    elif change == 2 and edges:
        edge = graph.edges[rng.choice(edges)]
        edge[rng.choice((*NAMES, *edge))] = rng.choice(VALUES)
    elif change == 3 and edges:
        graph.remove_edge(*rng.choice(edges))
    elif change == 4 and len(nodes) > 1:
        graph.remove_node(rng.choice(nodes))
    elif change == 5:
        graph.graph[rng.choice(("levels", "links", "pools", "gpu_links", "name"))] = rng.choice(
            (*VALUES, [{}], [{"name": "m", "classes": {}, "gpus": [3]}], {"host": 1}, ["a", "a"])
        )
    elif change == 6 and edges:
        graph.edges[rng.choice(edges)]["kind"] = rng.choice((*EDGES, 3))
    else:
        wire = {"bandwidth_mbps": rng.choice((5, 400_000))} if rng.random() < 0.8 else {}
        graph.add_edge(*rng.choices(nodes, k=2), kind=rng.choice(EDGES), **wire)


def test_a_spoiled_graph_is_refused_or_is_a_cluster():
    refused, number = 0, examples(day=150, nightly=600)
    for seed in range(number):
        rng = random.Random(seed)
        graph = drawn_document(seed % 60).to_graph(rng.choice(("host", "gpu")))
        for _ in range(rng.randint(1, 3)):
            spoil(graph, rng)
        try:
            document = ClusterDocument.from_graph(graph)
            check_cluster(document)
        except InvalidInputError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            again = document.to_graph("gpu")
            assert ClusterDocument.from_graph(again) == document, seed
    assert number / 3 < refused < 5 * number / 6
