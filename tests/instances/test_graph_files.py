"""Files of graphs: node-link JSON and GraphML, as we and others write them, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from examples import by_night
from placewright import ClusterDocument, InvalidInputError, load_cluster, load_plan, load_round
from placewright.cli.app import main
from placewright.instances.io import graph_files
from placewright.instances.io.graph_files import load_graph, write_graph

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
BUNDLED = [
    pytest.param(path.stem, marks=[pytest.mark.nightly] if path.stem == "megatron" else [])
    for path in sorted(LIBRARY.glob("*.yaml"))
]


@pytest.mark.parametrize("suffix", ["json", "graphml"])
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_clusters_come_back_from_files(name, suffix, tmp_path):
    document = load_round(LIBRARY / f"{name}.yaml").cluster
    for detail in ("host", "gpu"):
        write_graph(document.to_graph(detail), tmp_path / f"graph.{suffix}")
        assert ClusterDocument.from_graph(load_graph(tmp_path / f"graph.{suffix}")) == document


def test_networkx_reads_what_we_write(tmp_path):
    name = "megatron" if by_night() else "gpu-pairs"
    graph = load_round(LIBRARY / f"{name}.yaml").cluster.to_graph("gpu")
    write_graph(graph, tmp_path / "graph.json")
    read = nx.node_link_graph(json.loads((tmp_path / "graph.json").read_text()), edges="edges")
    assert nx.utils.graphs_equal(read, graph)
    write_graph(graph, tmp_path / "graph.graphml")
    read = nx.read_graphml(tmp_path / "graph.graphml")
    assert (len(read), read.size()) == (len(graph), graph.size())


def small() -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.Graph(name="small")
    graph.add_node(0, kind="host", gpu_model="A100", serial="x")
    graph.add_nodes_from([(i, {"kind": "gpu"}) for i in (1, 2)])
    graph.add_edges_from([(0, 1), (0, 2)])
    graph.add_edge(1, 2, kind="nvlink", bandwidth_mbps=400_000, latency_us=0.7)
    return graph


def written_by_networkx(graph, path):
    if path.suffix == ".json":
        key = "links" if path.stem == "old" else "edges"
        path.write_text(json.dumps(nx.node_link_data(graph, edges=key)))
    else:
        nx.write_graphml(graph, path, named_key_ids=True)


@pytest.mark.parametrize("name", ["new.json", "old.json", "graph.graphml", "graph.xml"])
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_convert_reads_what_networkx_writes(name, kind, tmp_path, capsys):
    graph = kind(small()) if kind is not nx.DiGraph else nx.DiGraph(small().edges(data=True))
    graph.add_nodes_from(small().nodes(data=True))
    written_by_networkx(graph, tmp_path / name)
    assert main(["convert", "graph", f"{tmp_path / name}", "-o", f"{tmp_path / 'c.yaml'}"]) == 0
    cluster = load_cluster(tmp_path / "c.yaml")
    assert cluster == ClusterDocument.from_graph(graph)
    assert cluster.gpu_links[0].gpus == ("X NV", "NV X")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "left out: attribute 'serial': 1"
    assert said[1] == "left out: latency_us of links in hosts: 1"
    assert said[2].startswith("graph: 2 GPUs (2 A100) on 1 host; wrote")


def test_show_writes_the_graph_that_convert_reads(tmp_path, capsys):
    round_file, graph, cluster = LIBRARY / "pools.yaml", tmp_path / "g.graphml", tmp_path / "c.json"
    assert main(["show", f"{round_file}", "--graph", "-o", f"{graph}"]) == 0
    assert main(["convert", "graph", f"{graph}", "-o", f"{cluster}"]) == 0
    assert load_cluster(cluster) == load_round(round_file).cluster
    assert main(["show", f"{cluster}", "--graph", "--detail", "host"]) == 0
    assert len(json.loads(capsys.readouterr().out)["nodes"]) < len(load_graph(graph))
    assert main(["show", f"{cluster}", "--graph", "-o", f"{tmp_path / 'g.txt'}"]) == 2
    assert "expected .json or .graphml with --graph" in capsys.readouterr().err


def test_a_plan_is_the_job_of_each_gpu_of_the_graph(tmp_path, capsys):
    round_file, plan, graph = LIBRARY / "quickstart.yaml", tmp_path / "p.json", tmp_path / "g.json"
    assert main(["solve", f"{round_file}", "-o", f"{plan}"]) == 0
    shown = ["show", f"{round_file}", "--plan", f"{plan}", "--graph"]
    assert main([*shown, "-o", f"{graph}"]) == 0
    jobs = nx.get_node_attributes(load_graph(graph), "job")
    held = {
        ("gpu", *place): job for job, at in load_plan(plan).assignment().items() for place in at
    }
    assert jobs == held != {}
    assert ClusterDocument.from_graph(load_graph(graph)) == load_round(round_file).cluster
    assert main([*shown, "--detail", "host"]) == 2
    assert "expected --detail gpu" in capsys.readouterr().err


LAUGHS = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(9))


def xml(body: str, document_type: str = "") -> str:
    names = "http://graphml.graphdrawing.org/xmlns"
    return f'{document_type}<graphml xmlns="{names}">{body}</graphml>'


def valued(element: str, name: str, kind: str, value: str) -> str:
    """Return a file in which an attribute of a node, or of the graph, has this text."""
    data = f'<data key="k">{value}</data>'
    inside = data if element == "graph" else f'<node id="a">{data}</node>'
    key = f'<key id="k" for="{element}" attr.name="{name}" attr.type="{kind}"/>'
    return xml(f"{key}<graph>{inside}</graph>")


def one_host(**attributes: object) -> object:
    return {"nodes": [{"id": "h", "kind": "host", "gpus": 1, **attributes}]}


REFUSED = {
    "laughs.xml": (
        xml("&l9;", f'<!DOCTYPE g [<!ENTITY l0 "lol">{LAUGHS}]>'),
        "has a document type, which may define entities; expected none",
    ),
    "external.xml": (
        xml("&e;", '<!DOCTYPE g [<!ENTITY e SYSTEM "file:///etc/passwd">]>'),
        "has a document type, which may define entities; expected none",
    ),
    "entity.xml": (xml("&e;"), "line 1, column 56: undefined entity; expected valid XML"),
    "deep.xml": (xml("<desc>" * 100_000), "nested too deeply; expected at most 64 levels"),
    "key.xml": (xml("<graph><data key='k'/></graph>"), "data: 'k': unknown; expected the id of"),
    "none.xml": (xml(""), "has no graph; expected GraphML"),
    "two.xml": (xml("<graph/><graph/>"), "has more than one graph; expected one"),
    "hyper.xml": (xml("<graph><hyperedge/></graph>"), "hyperedge: expected graphml, key, graph"),
    "edge.xml": (
        xml("<graph><node id='a'/><edge source='a' target='b'/></graph>"),
        "node: 'b': edge 'a' to 'b' ends at it; expected a node of the file",
    ),
    "type.xml": (valued("node", "gpus", "int", "x"), "gpus: 'x': expected a value of type int"),
    "digits.xml": (valued("node", "gpus", "int", "9" * 9_999), "expected a value of type int"),
    "structured.xml": (
        valued("graph", "levels", "string", "rack"),
        "levels: 'rack': expected a value of type JSON",
    ),
    "twice.json": ({"nodes": [{"id": 1}, {"id": 1}]}, "node: 1: given twice; expected each node"),
    "edge.json": (
        {"nodes": [{"id": [1, "a"]}], "edges": [{"source": [1, "a"], "target": 2}]},
        "node: 2: edge (1, 'a') to 2 ends at it; expected a node of the file",
    ),
    "half.json": ({"nodes": [{"id": 1}], "links": [{"source": 1}]}, "edges[0].target: missing"),
    "id.json": ({"nodes": [{"id": {}}]}, "nodes[0].id: {}: expected text, a number, or a list"),
    "noid.json": ({"nodes": [{"kind": "host"}]}, "nodes[0].id: missing; expected a node"),
    "null.json": ({"nodes": [{"id": None}]}, "nodes[0].id: None: expected text, a number, or a"),
    "adjacency.json": (
        {"nodes": [{"id": 1}], "adjacency": [[]]},
        "adjacency: unknown field; expected directed, multigraph, graph, nodes, edges, links",
    ),
    "doubled.json": (
        {
            "multigraph": False,
            "nodes": [{"id": 1}, {"id": 2}],
            "edges": [{"source": 1, "target": 2}, {"source": 2, "target": 1}],
        },
        "edges[1]: [2, 1]: given twice in a graph of multigraph: false; expected each edge once",
    ),
    "list.json": ([], "expected a node-link graph: a mapping with nodes and edges"),
    "name.json": (one_host(name="h x"), "node 'h': name: 'h x': expected only letters"),
    "range.json": (one_host(name="h[0-9]"), "node 'h': name: h[0-9] is a range; expected"),
    "many.json": (one_host(gpus=9_999), "node 'h': gpus: 9999: expected at most 1024"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_wrong_or_hostile_is_one_line(name, tmp_path, capsys):
    content, message = REFUSED[name]
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    assert main(["convert", "graph", f"{file}", "-o", f"{tmp_path / 'c.yaml'}"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert f"{file}" in line


def test_a_range_of_other_hosts_is_only_a_name(tmp_path):
    nodes = [{"id": f"h{i}", "kind": "host", "gpus": 1, "range": "h[0-999999999]"} for i in (0, 1)]
    (tmp_path / "g.json").write_text(json.dumps({"nodes": nodes}))
    document = ClusterDocument.from_graph(load_graph(tmp_path / "g.json"))
    assert [entry.name for entry in document.hosts] == ["h0", "h1"]


def test_a_file_with_too_many_nodes_is_refused_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_files, "MAX_ELEMENTS", 2)
    written_by_networkx(small(), tmp_path / "g.json")
    with pytest.raises(InvalidInputError, match="too large; expected at most 2 nodes and edges"):
        load_graph(tmp_path / "g.json")
