"""The time of a collective equals that of messages routed one by one on the NetworkX graph."""

from __future__ import annotations

import copy
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

import networkx as nx
import numpy as np
import pytest

from examples import examples
from placewright.instances.checks.round import check_round
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.instances.verify.reading import read
from placewright.instances.verify.rules.gang.collectives import collectives
from placewright.topology import CATALOGUE, Cluster, nvl72_racks, tree
from placewright.topology.collectives import bottleneck, edges, time_us

Raw = dict[str, Any]
Graph = Any


class Wires:
    """The graph of a cluster in two parts: inside NVLink domains, and between them.

    Nothing is known of the inside of a host without NICs: its GPUs reach its port at no cost.
    """

    def __init__(self, cluster: Cluster) -> None:
        graph = cluster.to_graph("gpu")
        self.inside, self.outside = nx.Graph(), nx.Graph()
        for x, y, wire in graph.edges(data=True):
            kinds = {graph.nodes[x]["kind"], graph.nodes[y]["kind"]}
            if wire["kind"] == "contains":
                gpu = next((n for n in (x, y) if n[0] == "gpu"), None)
                host = ("host", gpu[1]) if gpu else None
                if gpu and not any(n[0] == "nic" for n in graph[host]):
                    self.outside.add_edge(host, gpu, width=None)
            elif wire["kind"] in ("nvlink", "xgmi") or kinds & {"nvswitch", "pcie"}:
                self.inside.add_edge(x, y, width=wire["bandwidth_mbps"])
            else:
                self.outside.add_edge(x, y, width=wire["bandwidth_mbps"])
        self.domain = {
            gpu: number
            for number, part in enumerate(nx.connected_components(self.inside))
            for gpu in part
        }

    def slowest(self, ranks: list[Any], sends: list[tuple[int, int]]) -> Fraction | None:
        """Send each message over all its shortest paths in equal parts; least width per message."""
        load: defaultdict[tuple[Any, Any], Fraction] = defaultdict(Fraction)
        width: dict[tuple[Any, Any], int | None] = {}
        for i, j in sends:
            source, target = ranks[i], ranks[j]
            near = self.domain.get(source, source) == self.domain.get(target, target)
            graph = self.inside if near else self.outside
            if not near and source[1] == target[1]:
                continue  # in a host of which nothing is known
            paths = list(nx.all_shortest_paths(graph, source, target))
            for path in paths:
                for link in pairwise(path):
                    load[link] += Fraction(1, len(paths))
                    width[link] = graph.edges[link]["width"]
        speeds = [w / load[link] for link, w in width.items() if w is not None]
        return min(speeds, default=None)


def document_of(cluster: Cluster) -> Raw:
    """Write a cluster as a document."""
    domains = [
        {
            "name": name,
            "level": cluster.levels[level],
            "parent": cluster.names[level - 1][cluster.parent[level][i]] if level else None,
        }
        for level in range(len(cluster.levels) - 1)
        for i, name in enumerate(cluster.names[level])
    ]
    hosts = [
        {
            "name": name,
            "parent": cluster.names[-2][cluster.parent[-1][h]],
            "model": cluster.host_models[cluster.host_model[h]].name,
        }
        for h, name in enumerate(cluster.hosts)
    ]

    def wire(link: Any) -> Raw:
        return {"bandwidth_mbps": link.bandwidth_mbps, "latency_us": link.latency_us}

    return {
        "levels": cluster.levels[:-1],
        "domains": domains,
        "hosts": hosts,
        "links": {level: wire(link) for level, link in cluster.links.items()},
        "wan": [{"between": pair, **wire(link)} for pair, link in cluster.wan.items()],
    }


def random_cluster(rng: np.random.Generator) -> Raw:
    """2 to 4 levels, hosts included, of mixed hosts; some with a WAN, some of NVL72 racks."""
    kind = rng.integers(6)
    if kind == 0:
        return document_of(nvl72_racks("n", int(rng.integers(1, 4)), racks_per_block=2))
    if kind == 1:
        models = [CATALOGUE[m] for m in rng.choice(list(CATALOGUE), 8)]
        made = tree("t", regions=2, blocks=1, racks=2, hosts=2, host_model=models)
        return document_of(made)
    above = ["zone", "block", "rack"][-int(rng.integers(1, 4)) :]
    domains: list[Raw] = []
    parents: list[str | None] = [None]
    for level in above:
        made_here: list[str | None] = []
        for parent in parents:
            for _ in range(int(rng.integers(1, 4))):
                made_here.append(f"{level}-{len(made_here)}")
                domains.append({"name": made_here[-1], "level": level, "parent": parent})
        parents = made_here
    hosts = []
    for parent in parents:
        for _ in range(int(rng.integers(1, 4))):
            model = [*CATALOGUE, None][rng.integers(len(CATALOGUE) + 1)]
            most = CATALOGUE[model].gpus if model else 8
            gpus = int(rng.integers(1, most + 1)) if rng.random() < 0.3 else most
            host = {"name": f"h{len(hosts)}", "parent": parent, "gpus": gpus, "gpu_model": "G"}
            hosts.append({**host, "model": model})
    links = {
        level: {"bandwidth_mbps": int(rng.integers(1, 30)) * 50_000, "latency_us": 1.0}
        for level in (*above, "host")
    }
    return {"levels": above, "domains": domains, "hosts": hosts, "links": links}


def random_gang(rng: np.random.Generator, cluster: Cluster) -> list[tuple[str, list[int]]]:
    """Tasks of equal GPUs on random free GPUs, in random order or in that of the hosts."""
    each = int(rng.choice([1, 1, 2, 4]))
    free = {h: rng.permutation(int(n)).tolist() for h, n in enumerate(cluster.gpu_count)}
    tasks = []
    for _ in range(int(rng.integers(1, 9))):
        roomy = [h for h, gpus in free.items() if len(gpus) >= each]
        if not roomy:
            break
        h = int(rng.choice(roomy))
        tasks.append((cluster.hosts[h], [free[h].pop() for _ in range(each)]))
    if rng.random() < 0.5:
        tasks.sort()
    return tasks


def started(cluster: Raw, tasks: list[tuple[str, list[int]]], asked: Raw) -> tuple[Round, Plan]:
    group = {"gpu": len(tasks[0][1]), "count": len(tasks), "communication": asked}
    round_ = Round.model_validate(
        {
            "cluster": cluster,
            "jobs": [{"name": "gang", "options": [{"groups": [group]}]}],
            "policy": {"terms": ["value", "bottleneck"]},
        }
    )
    check_round(round_)
    places = [{"index": i, "host": h, "gpus": gpus} for i, (h, gpus) in enumerate(tasks)]
    decision = {"job": "gang", "decision": "start", "option": 0, "tasks": places}
    return round_, Plan.model_validate({"decisions": [decision]})


def test_the_time_in_the_plan_equals_that_of_routed_messages_for_1000_random_gangs() -> None:
    rng = np.random.default_rng(0)
    limited, patterns, levels = 0, set(), set()
    for _ in range(examples(day=10, nightly=100)):
        document = random_cluster(rng)
        cluster = build_cluster(Round.model_validate({"cluster": document}).cluster)
        wires = Wires(cluster)
        for _ in range(10):
            tasks = random_gang(rng, cluster)
            if not tasks:
                continue
            data = int(rng.integers(1, 50_000))
            pattern: Any = rng.choice(["ring", "tree"])
            ranks = [("gpu", host, gpu) for host, gpus in tasks for gpu in gpus]
            n = len(ranks)
            sends = [(i, (i + 1) % n) for i in range(n)] if n > 1 else []
            if pattern == "tree":
                sends = list(zip(*(side.tolist() for side in edges("tree", n)), strict=True))
            slowest = wires.slowest(ranks, sends)
            time = 0
            if slowest is not None:
                share = Fraction(n - 1, n) if pattern == "ring" else 1
                time = ceil(2 * share * data * 2**20 * 8 / slowest)
            asked = {"pattern": str(pattern), "data_mib": data}
            round_, plan = started(document, tasks, asked)
            whole = None if slowest is None else int(slowest)
            (found,) = collectives(read(round_, plan))
            assert found == ("gang", 0, whole, time)
            hosts = np.array([cluster.host_index[host] for _, host, _ in ranks])
            ours = bottleneck(cluster, hosts, np.array([gpu for _, _, gpu in ranks]), pattern)
            assert ours == slowest
            assert time_us(pattern, n, data, ours) == time
            limited += slowest is not None
            patterns.add(pattern)
            levels.add(len(cluster.levels))
    assert limited > examples(day=70, nightly=800)
    assert patterns == {"ring", "tree"}
    assert levels >= {2, 3, 4}


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 64, 1001])
def test_a_tree_joins_all_ranks_and_each_of_its_subtrees_is_a_span(ranks: int) -> None:
    child, parent = edges("tree", ranks)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(ranks))
    graph.add_edges_from(zip(parent.tolist(), child.tolist(), strict=True))
    assert nx.is_arborescence(graph)
    assert max(degree for _, degree in graph.out_degree()) <= 2
    for rank in range(ranks):
        below = sorted({rank, *nx.descendants(graph, rank)})
        assert below == list(range(below[0], below[-1] + 1))


HOST = {"model": "dgx-h100", "parent": "r"}
FLAT: Raw = {
    "levels": ["rack"],
    "domains": [{"name": "r", "level": "rack"}],
    "hosts": [{**HOST, "name": "a"}, {**HOST, "name": "b"}],
}
TASKS = [("a", [0, 1]), ("b", [0, 1])]
RING = {"pattern": "ring", "data_mib": 1000}
SECTION: Raw = {
    "kind": "communication",
    "groups": [
        # 2 * 3/4 * 1000 MiB at the 400 Gbit/s of one NIC
        {"job": "gang", "group": 0, "bottleneck_mbit": 400_000, "time_us": 31_458}
    ],
}


def rules_broken_by(*sections: Raw) -> list[tuple[str, str]]:
    round_, plan = started(FLAT, TASKS, RING)
    plan = plan.model_copy(update={"sections": sections})
    return [(v.rule, v.where) for v in verify(round_, plan).violations]


def test_the_figures_of_a_ring_between_two_hosts() -> None:
    assert rules_broken_by(SECTION) == []
    round_, plan = started(FLAT, TASKS, RING)
    assert verify(round_, plan).terms["bottleneck"] == ceil(1.5 * 1000 * 2**20 * 8 / 400_000)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_us", 31_457),
        ("time_us", 31_458.0),
        ("bottleneck_mbit", 400_001),
        ("bottleneck_mbit", None),
        ("job", "other"),
        ("group", 1),
    ],
)
def test_a_wrong_figure_is_found(field: str, value: object) -> None:
    section = copy.deepcopy(SECTION)
    section["groups"][0][field] = value
    assert rules_broken_by(section) == [("communication", f"sections[0].groups[0].{field}")]


def test_the_section_is_given_once_with_every_group() -> None:
    assert rules_broken_by() == [("communication", "sections")]
    assert rules_broken_by(SECTION, SECTION) == [("communication", "sections[1]")]
    empty = {"kind": "communication", "groups": []}
    assert rules_broken_by(empty) == [("communication", "sections[0].groups")]


@pytest.mark.parametrize(
    ("section", "where"),
    [
        ({**SECTION, "note": 1}, "sections[0].note"),
        ({"kind": "communication"}, "sections[0].groups"),
        ({"kind": "communication", "groups": [{"job": "gang"}]}, "sections[0].groups[0]"),
    ],
)
def test_a_section_of_another_form_is_found(section: Raw, where: str) -> None:
    assert ("section", where) in rules_broken_by(section)
