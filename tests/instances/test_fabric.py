"""Networks as levels: ibnetdiscover's graph, clouds' topologies, hosts that get them by name."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from examples import examples
from placewright.instances.converters import read_fabric
from placewright.instances.converters.fabric import MACHINES
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_cluster, parse_round, write
from placewright.topology.catalogue import CATALOGUE

DATA = Path(__file__).parents[1] / "data" / "fabric"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "topology" / "topograph"


def printed(links, names=None):
    """Return what ibnetdiscover prints of links: (switch, switch or adapter, rate)."""
    names = names or {}
    switches = {a for a, _, _ in links} | {b for _, b, _ in links if b.startswith("S")}
    rows = defaultdict(list)
    for a, b, rate in links:
        rows[a].append((b, rate))
        if b.startswith("S"):
            rows[b].append((a, rate))
    lines = ["#", "# Topology file: generated on Sun Nov 29 12:00:00 2026", "#"]
    for switch in sorted(switches):
        description = names.get(switch, f"MF0;{switch}:MQM9700/U1")
        lines += ["", f"switchguid=0x{switch}({switch})"]
        lines += [f'Switch\t64 "S-{switch}"\t\t# "{description}" enhanced port 0 lid 1 lmc 0']
        for port, (other, rate) in enumerate(rows[switch], 1):
            kind = "S" if other.startswith("S") else "H"
            guid = other.replace(" ", "-")
            text = names.get(other, f"MF0;{other}:MQM9700/U1" if kind == "S" else other)
            lines += [f'[{port}]\t"{kind}-{guid}"[1]({port:x})\t\t# "{text}" lid {port} {rate}']
    return "\n".join(lines) + "\n"


def rows(hosts, switch, device, rate="4xNDR"):
    return [(switch, f"{host} {device}", rate) for host in hosts]


def convert(tmp_path, text, name="fabric.txt", **options):
    (tmp_path / name).write_text(text)
    return read_fabric([tmp_path / name], **options)


def domains_of(cluster: ClusterDocument):
    """Return the domains around each host, the outermost first."""
    above = {domain.name: domain.parent for domain in cluster.domains}

    def path(name):
        return () if name is None else (*path(above[name]), name)

    return {name: path(entry.parent) for entry in cluster.hosts for name in expand(entry.name)}


def lines_of(made):
    return "\n".join(made.book.lines())


def fat_tree(k):
    """Return links of a k-ary fat tree: pods of k/2 edge and k/2 aggregation switches."""
    half, links = k // 2, []
    for pod in range(k):
        for edge in range(half):
            leaf = f"Se{pod}-{edge}"
            links += rows([f"p{pod}e{edge}h{h}" for h in range(half)], leaf, "mlx5_0")
            links += [(leaf, f"Sa{pod}-{agg}", "4xNDR") for agg in range(half)]
        for agg in range(half):
            for core in range(half):
                links.append((f"Sa{pod}-{agg}", f"Sc{agg}-{core}", "4xNDR"))
    return links


@pytest.mark.parametrize("k", [4, 8])
def test_a_fat_tree_has_its_edges_and_pods(tmp_path, k):
    made = convert(tmp_path, printed(fat_tree(k)))
    cluster = made.document
    assert cluster.levels == ("core", "spine", "leaf")
    half = k // 2
    places = domains_of(cluster)
    assert len(places) == k * half * half
    for host, (_, spine, leaf) in places.items():
        pod, edge = host[1:].split("h")[0].split("e")
        assert leaf == f"Se{pod}-{edge}"
        assert spine == f"Sa{pod}-0+Sa{pod}-{half - 1}"
    assert cluster.links["host"].bandwidth_mbps == 400_000
    assert cluster.links["leaf"].bandwidth_mbps == half * 400_000
    assert cluster.links["spine"].bandwidth_mbps == half * half * 400_000
    assert f"which of up to {half} spine switches carries what of a leaf" in lines_of(made)
    assert "guessed: 2.0 us" in lines_of(made)


def rails(units, hosts, number_of_rails, spines):
    links = []
    for unit in range(units):
        names = [f"u{unit}h{h}" for h in range(hosts)]
        for rail in range(number_of_rails):
            leaf = f"Sleaf-{unit}-{rail}"
            links += rows(names, leaf, f"mlx5_{rail}")
            links += [(leaf, f"Sspine-{s}", "4xNDR") for s in range(spines)]
    return links


def test_leaves_of_rails_with_the_same_hosts_are_one_domain(tmp_path):
    made = convert(tmp_path, printed(rails(3, 8, 4, 4)))
    assert made.document.levels == ("spine", "leaf")
    places = domains_of(made.document)
    assert {leaf for _, leaf in places.values()} == {f"Sleaf-{u}-0+Sleaf-{u}-3" for u in range(3)}
    assert all(f"-{host[1]}-" in leaf for host, (_, leaf) in places.items())
    assert made.document.links["host"].bandwidth_mbps == 1_600_000
    assert "which of up to 4 leaf switches carries what of a host (24 have several)" in lines_of(
        made
    )


def test_one_host_at_several_units_does_not_make_them_one(tmp_path):
    """A manager of the fabric is joined to leaves of two units, storage to a spine."""
    links = rails(2, 8, 4, 4)
    links += [("Sleaf-0-0", "ufm mlx5_0", "4xNDR"), ("Sleaf-1-0", "ufm mlx5_1", "4xNDR")]
    links += [("Sspine-0", "nas mlx5_0", "4xNDR")]
    made = convert(tmp_path, printed(links))
    places = domains_of(made.document)
    assert len({leaf for _, leaf in places.values()}) == 2
    assert "ufm" in places and "nas" not in places
    text = lines_of(made)
    assert "is at several leaf domains: it is in that of most links: ufm" in text
    assert "is at a spine, and no leaf: nas" in text


def test_adapters_that_name_no_host_are_counted(tmp_path):
    links = rails(1, 4, 2, 1)
    links += [
        ("Sleaf-0-0", "agg", "4xNDR"),
        ("Sleaf-0-0", "card", "4xNDR"),
        ("Sleaf-0-0", "twin1", "4xNDR"),
        ("Sleaf-0-1", "twin2", "4xNDR"),
    ]
    names = {
        "agg": "Mellanox Technologies Aggregation Node",
        "card": "MT4129 ConnectX7   Mellanox Technologies",
        "twin1": "ubuntu mlx5_0",
        "twin2": "ubuntu mlx5_0",
    }
    made = convert(tmp_path, printed(links, names))
    assert "is a switch's own: H-agg" in lines_of(made)
    assert "names no host: H-card" in lines_of(made)
    assert "several adapters are the same device of it: ubuntu" in lines_of(made)
    assert len(made.document.hosts) == 4


def test_adapters_stand_for_hosts_where_none_names_one(tmp_path):
    """The example in the manual page of ibnetdiscover, as it is pasted, with two ports of one."""
    text = """
       Switch  24 "S-005442ba00003080"         # "ISR9024 Voltaire" base port 0 lid 6 lmc 0
     [22]    "H-0008f10403961354"[1](8f10403961355) # "MT23108 Mellanox Technologies" lid 4 4xSDR
       [10]    "S-0008f10400410015"[1]         # "SW-6IB4 Voltaire" lid 3 4xSDR
     [8]     "H-0008f10403960558"[2](8f1040396055a) # "MT23108 Mellanox Technologies" lid 14 4xSDR
     [12]    "H-0008f10403960558"[1](8f10403960559) # "MT23108 Mellanox Technologies" lid 10 4xSDR

       Switch  8 "S-0008f10400410015"          # "SW-6IB4 Voltaire" base port 0 lid 3 lmc 0
     [6]     "H-0008f10403960984"[1](8f10403960985) # "MT23108 Mellanox Technologies" lid 16 4xSDR
       [1][ext 3] "S-005442ba00003080"[10]     # "ISR9024 Voltaire" lid 6 1xSDR
    """
    made = convert(tmp_path, text)
    assert domains_of(made.document) == {
        "H-0008f10403960558": ("S-005442ba00003080",),
        "H-0008f10403960984": ("S-0008f10400410015",),
        "H-0008f10403961354": ("S-005442ba00003080",),
    }
    assert "adapters: 3 of 3 in the round" in lines_of(made)
    assert "names of hosts, which no adapter has: each adapter is one" in lines_of(made)


def dragonfly():
    """Return links of three groups of four routers, with a link between each two groups."""
    links = []
    routers = [f"Sg{g}r{r}" for g in range(3) for r in range(4)]
    for i, router in enumerate(routers):
        links += rows([f"{router[1:]}h{h}" for h in range(2)], router, "mlx5_0")
        links += [(router, other, "4xHDR") for other in routers[i + 1 :] if other[:3] == router[:3]]
    groups = (("Sg0r0", "Sg1r0"), ("Sg1r1", "Sg2r1"), ("Sg0r2", "Sg2r2"))
    return links + [(a, b, "4xHDR") for a, b in groups]


def test_routers_of_a_dragonfly_are_a_graph_of_leaves(tmp_path):
    made = convert(tmp_path, printed(dragonfly()), model="dgx-h100")
    assert made.document.levels == ("leaf",)
    assert len(made.document.domains) == 12
    assert len(made.document.fabric) == 21
    assert "links between switches, as a graph: 21; guessed: 3.0 us" in lines_of(made)
    arrays = build_cluster(made.document)
    names = arrays.names[0]
    assert arrays.network.hops[names.index("Sg0r1")].tolist() == [
        1,
        0,
        1,
        1,
        2,
        3,
        3,
        3,
        3,
        3,
        2,
        3,
    ]
    assert arrays.uplink_mbps(0)[:2].tolist() == [4 * 200_000, 3 * 200_000]


def test_a_graph_goes_into_a_round_that_has_all_hosts_and_reads_it(tmp_path):
    (tmp_path / "ib.txt").write_text(printed(dragonfly()))
    names = [f"g{g}r{r}h{h}" for g in range(3) for r in range(4) for h in range(2)]
    hosts = [{"name": name, **HOST} for name in names]
    files = [tmp_path / "ib.txt"]
    assert len(into(tmp_path, {"hosts": hosts}, files).document.fabric) == 21
    missing = into(tmp_path, {"hosts": [*hosts, {"name": "other", **HOST}]}, files)
    assert missing.document.fabric == ()
    assert "links between switches: some hosts, or levels, are around" in lines_of(missing)


def test_leaves_at_different_spines_are_a_graph_and_leaves_apart_are_not(tmp_path):
    links = [(f"Sl{i}", f"Ss{s}", "4xNDR") for i in range(4) for s in {i // 2, min(1, i)}]
    for i in range(4):
        links += rows([f"h{i}a", f"h{i}b"], f"Sl{i}", "mlx5_0")
    joined = convert(tmp_path, printed(links)).document
    assert {frozenset(one.between) for one in joined.fabric} == {
        frozenset(pair)
        for pair in (("Sl0", "Ss0"), ("Sl1", "Ss0"), ("Sl1", "Ss1"), ("Sl2", "Ss1"), ("Sl3", "Ss1"))
    }
    links += [("Sx", "Sy", "4xNDR"), *rows(["xa"], "Sx", "mlx5_0"), *rows(["ya"], "Sy", "mlx5_0")]
    apart = convert(tmp_path, printed(links))
    assert apart.document.fabric == ()
    assert "links between leaf switches (1 pairs)" in lines_of(apart)


def test_what_has_more_or_less_links_than_others_has_an_uplink_of_its_own(tmp_path):
    """One leaf has lost a link, one host one of its adapters."""
    links = rails(3, 4, 2, 2)
    links.remove(("Sleaf-1-0", "Sspine-1", "4xNDR"))
    links.remove(("Sleaf-2-1", "u2h3 mlx5_1", "4xNDR"))
    (tmp_path / "ib.txt").write_text(printed(links))
    made = read_fabric([tmp_path / "ib.txt"]).document
    leaf, host = ("leaf", "Sleaf-1-0+Sleaf-1-1"), ("host", "u2h3")
    assert made.own_uplinks == {leaf: 1_200_000, host: 400_000}
    assert made.links["leaf"].bandwidth_mbps == 1_600_000
    assert made.links["host"].bandwidth_mbps == 800_000
    assert read_fabric([tmp_path / "ib.txt"], model="dgx-h100").document.own_uplinks.keys() == {
        leaf
    }
    cluster = {
        "levels": ["rack"],
        "domains": [
            {"name": "k0", "level": "rack", "uplink_mbps": 7},
            {"name": "k1", "level": "rack"},
        ],
        "hosts": [
            {"name": "u2h[2-3]", "parent": "k0", "uplink_mbps": 5, **HOST},
            {"name": "x", "parent": "k1", "uplink_mbps": 6, **HOST},
        ],
        "links": {level: {"bandwidth_mbps": 9, "latency_us": 1.0} for level in ("rack", "host")},
    }
    placed = into(tmp_path, cluster, [tmp_path / "ib.txt"]).document
    assert placed.own_uplinks == {("rack", "k0"): 7, host: 400_000}
    assert [entry.name for entry in placed.hosts] == ["u2h2", "u2h3", "x"]


def test_a_rate_that_is_not_known_leaves_uplinks_out(tmp_path):
    text = printed(rails(2, 4, 1, 2)).replace("4xNDR", "4xZDR", 1)
    made = convert(tmp_path, text)
    assert made.document.links == {}
    assert "bandwidth of uplinks: the rate of some link is not known" in lines_of(made)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Switch 64 S-1", "Switch PORTS"),
        ("[1] no port", "[PORT]"),
        ('Switch 64 "S-Sleaf-0-0" # "again" x', "each switch once"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, line, expected):
    text = printed(rails(1, 4, 1, 1))
    number = text.count("\n") + 1
    with pytest.raises(InvalidInputError) as error:
        convert(tmp_path, text + line + "\n")
    assert f"fabric.txt:{number}: " in str(error.value)
    assert expected in str(error.value)


def test_a_host_at_very_many_leaves_is_left_out(tmp_path):
    links = rails(1, 4, 1, 1) + [(f"Sx{i}", f"many mlx5_{i}", "4xNDR") for i in range(3_000)]
    made = convert(tmp_path, printed(links))
    assert "is at more than 64 leaves: many" in lines_of(made)


def test_a_chain_of_switches_ends(tmp_path):
    links = rows(["h0", "h1"], "Sx0", "mlx5_0")
    links += [(f"Sx{i}", f"Sx{i + 1}", "4xNDR") for i in range(100)]
    made = convert(tmp_path, printed(links))
    assert len(made.document.levels) == 8
    assert "more than 8 tiers above hosts" in lines_of(made)


def test_lines_without_end_take_no_time(tmp_path):
    """Each takes minutes if some part of a text is looked at again from each of its places."""
    block = 'Switch 64 "S-1" # "x" y\n'
    many = examples(day=1_500_000, nightly=5_000_000)
    for text in ("\n" * many + "x", "Switch" + " " * many, block + "[" * many):
        with pytest.raises(InvalidInputError):
            convert(tmp_path, text)


def test_long_names_and_more_levels_than_a_cluster_may_have(tmp_path):
    nodes = ["a" * 253, "b" * 253, "a" * 253]
    rows_ = [{"InstanceId": f"i-{i}", "NetworkNodes": nodes[: 3 - i]} for i in range(2)]
    made = convert(tmp_path, json.dumps(rows_), "x.json")
    assert len({path[-1] for path in domains_of(made.document).values()}) == 2
    outer = [f"l{i}" for i in range(15)]
    cluster = {
        "levels": outer,
        "domains": [
            {"name": f"d{i}", "level": level, **({"parent": f"d{i - 1}"} if i else {})}
            for i, level in enumerate(outer)
        ],
        "hosts": [{"name": "h[0-1]", "parent": "d14", **HOST}],
    }
    with pytest.raises(InvalidInputError, match="makes 18 levels with those of the network"):
        into(tmp_path, cluster)


def test_more_hosts_than_a_cluster_may_have_are_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr("placewright.instances.converters.fabric.MAX_HOSTS", 23)
    with pytest.raises(InvalidInputError, match="have more than 23 hosts; expected fewer"):
        convert(tmp_path, printed(rails(3, 8, 1, 1)))


def test_a_part_of_a_captured_fabric():
    made = read_fabric([DATA / "ibnetdiscover.txt"], model="dgx-h100")
    assert made.document.levels == ("spine", "leaf")
    assert {leaf for _, leaf in domains_of(made.document).values()} == {
        f"{side}09-P1-IBLEAF-01-0{unit}+{side}09-P1-IBLEAF-02-0{unit}"
        for side, unit in (("A", 1), ("B", 5))
    }


def test_a_captured_fabric_has_its_scalable_units(tmp_path):
    """Leaves are called IBLEAF-rail-unit there: eight units of hosts at four rails."""
    if not SHARED.exists():
        pytest.skip("needs captured fabrics")
    made = read_fabric([SHARED / "output__ibnetdiscover__example.out"])
    leaves = {leaf for _, leaf in domains_of(made.document).values()}
    assert len(leaves) == 8
    for leaf in leaves:
        first, last = leaf.split("+")
        assert first.split("-")[-2:] == ["01", last.split("-")[-1]]
    assert made.book.total("adapters") == 582


# Clouds.


def test_aws_instances_have_layers(tmp_path):
    made = read_fabric([DATA / "describe-instance-topology.json"])
    cluster = made.document
    assert cluster.levels == ("layer-1", "layer-2", "layer-3")
    leaves = {name: path[-1][3:5] for name, path in domains_of(cluster).items()}
    assert list(leaves.values()) == ["33", "33", "44"]
    assert [(host.gpus, host.gpu_model) for host in cluster.hosts] == [(8, "H100-SXM5-80GB")] * 3
    assert "it does not run, or its type has none: i-4444444444example" in lines_of(made)
    assert "further pages" in lines_of(made)


def test_aws_instances_of_three_and_four_layers(tmp_path):
    rows_ = [("i-1", "abc"), ("i-2", "abc"), ("i-3", "abcd"), ("i-4", "abce")]
    text = json.dumps(
        {"Instances": [{"InstanceId": i, "NetworkNodes": list(nodes)} for i, nodes in rows_]}
    )
    made = convert(tmp_path, text, "topology.json")
    leaves = {name: path[-1] for name, path in domains_of(made.document).items()}
    assert leaves == {"i-1": "c+layer-4", "i-2": "c+layer-4", "i-3": "d", "i-4": "e"}
    assert "one that stands for it is in its place: i-1, i-2" in lines_of(made)
    assert "no GPUs: i-1, i-2, i-3, i-4" in lines_of(made)


def test_an_aws_switch_under_two_others_is_told(tmp_path):
    rows_ = [{"InstanceId": f"i-{at}", "NetworkNodes": list(f"{at}bc")} for at in "12"]
    made = convert(tmp_path, json.dumps({"Instances": rows_}), "topology.json")
    assert len(set(domains_of(made.document).values())) == 2
    assert "parts of a network are under several: one domain in each: b" in lines_of(made)


def test_gcp_instances_have_blocks(tmp_path):
    made = read_fabric([DATA / "gcloud-instances.json"])
    assert made.document.levels == ("cluster", "block", "subblock")
    places = domains_of(made.document)
    assert places["a3-0"][:2] == places["a3-1"][:2]
    assert places["a3-0"][2] != places["a3-1"][2]
    assert made.document.hosts[0].gpu_model == "H200-SXM5-141GB"


def test_gcp_describes_one_instance_in_yaml_by_default(tmp_path):
    text = """
name: a3-7
machineType: zones/z/machineTypes/a3-megagpu-8g
resourceStatus:
  physicalHostTopology: {block: b, cluster: c, host: h, subblock: s}
"""
    made = convert(tmp_path, text, "instance.yaml")
    assert domains_of(made.document) == {"a3-7": ("c", "b", "s")}


def test_gpus_of_machine_types_are_called_as_in_the_catalogue():
    models = {model.gpu_model for model in CATALOGUE.values()} | {"A100-SXM4-40GB"}
    assert {model for _, model in MACHINES.values()} <= models


def test_oci_hosts_have_blocks_and_the_names_of_nodes(tmp_path):
    made = read_fabric([DATA / "oci-compute-hosts.json", DATA / "oci-nodes.json"])
    assert made.document.levels == ("hpc-island", "network-block", "local-block")
    places = domains_of(made.document)
    assert {name: path[-1][-1] for name, path in places.items()} == {
        "10.0.0.10": "a",
        "10.0.0.11": "b",
    }
    assert "runs no instance: computehost2" in lines_of(made)


def test_oci_metadata_by_host(tmp_path):
    data = {
        "customerHPCIslandId": "island",
        "customerHostId": "host",
        "customerLocalBlock": "local",
        "customerNetworkBlock": "block",
    }
    made = convert(tmp_path, json.dumps({"gpu-0": data, "gpu-1": data}), "hosts.json")
    assert domains_of(made.document) == dict.fromkeys(
        ("gpu-0", "gpu-1"), ("island", "block", "local")
    )


def test_labels_of_nodes_are_levels_where_nothing_else_is_said(tmp_path):
    nodes = [
        {
            "kind": "Node",
            "metadata": {
                "name": f"n{i}",
                "labels": {f"fabric.topograph.run/tier-{t}": f"t{t}-{i >> t}" for t in (0, 1)},
            },
        }
        for i in range(4)
    ]
    made = convert(tmp_path, json.dumps({"kind": "List", "items": nodes}), "nodes.json")
    assert made.document.levels == ("tier-1", "tier-0")
    assert domains_of(made.document)["n3"] == ("t1-1", "t0-3")


def test_topologies_of_slurm(tmp_path):
    text = (
        "SwitchName=top Switches=s[0-1]\nSwitchName=s0 Nodes=h[0-1]\nSwitchName=s1 Nodes=h[2-3]\n"
    )
    made = convert(tmp_path, text, "topology.conf", model="dgx-h100")
    assert domains_of(made.document)["h3"] == ("top", "s1")
    made = convert(tmp_path, text.replace("h[2-3]", "h[1-3]"), "topology.conf", model="dgx-h100")
    assert domains_of(made.document)["h1"] == ("top", "s0")
    assert "further leaf switches, or blocks, of a node: h1" in lines_of(made)
    rows_ = [{"topology": "t", "tree": {"switches": [{"switch": "s0", "nodes": "h[0-1]"}]}}]
    made = convert(tmp_path, json.dumps(rows_), "topology.yaml", model="dgx-h100")
    assert domains_of(made.document)["h1"] == ("s0",)


def test_a_name_that_no_host_can_have_is_left_out(tmp_path):
    text = 'SwitchName=s0 Nodes=h[0-1],x"y\n'
    made = convert(tmp_path, text, "topology.conf", model="dgx-h100")
    assert len(made.document.hosts) == 2
    assert "no host of a cluster can have its name" in lines_of(made)


# Into a cluster or a round.

HOST = {"gpus": 8, "gpu_model": "H100"}


def into(tmp_path, cluster, files=(), **fields):
    head = {"apiVersion": "placewright/v1alpha2"}
    if fields:
        write(
            parse_round({**head, "kind": "Round", "cluster": cluster, **fields}),
            tmp_path / "r.json",
        )
    else:
        write(parse_cluster({**head, "kind": "Cluster", **cluster}), tmp_path / "r.json")
    names = ("describe-instance-topology.json", "describe-instances.json")
    return read_fabric(files or [DATA / name for name in names], into=tmp_path / "r.json")


def test_hosts_of_a_round_get_levels_by_name(tmp_path):
    made = into(tmp_path, {"hosts": [{"name": "h[0-3]", **HOST}]}, name="now")
    round_ = made.document
    assert isinstance(round_, Round)
    assert round_.name == "now"
    assert [host.name for host in round_.cluster.hosts] == ["h[0-1]", "h2", "h3"]
    assert {name: path[-1] for name, path in domains_of(round_.cluster).items()} == {
        "h0": "nn-3333333333example",
        "h1": "nn-3333333333example",
        "h2": "nn-4444444444example",
        "h3": "h3+layer-3",
    }
    assert round_.policy.spread_weights == {"layer-1": 16, "layer-2": 4, "layer-3": 1}
    assert "that the network does not have: each is alone: h3" in lines_of(made)


def test_ranges_keep_their_zeros_and_their_order(tmp_path):
    (tmp_path / "ib.txt").write_text(
        printed(rows(["n08", "n09", "n11"], "Sa", "mlx5_0") + rows(["n10", "n12"], "Sb", "mlx5_0"))
    )
    made = into(tmp_path, {"hosts": [{"name": "n[08-12]", **HOST}]}, [tmp_path / "ib.txt"])
    assert [(host.name, host.parent) for host in made.document.hosts] == [
        ("n[08-09]", "Sa"),
        ("n10", "Sb"),
        ("n11", "Sa"),
        ("n12", "Sb"),
    ]


def test_levels_around_those_of_the_network_stay(tmp_path):
    cluster = {
        "levels": ["region", "rack"],
        "domains": [
            {"name": "us", "level": "region"},
            {"name": "k0", "level": "rack", "parent": "us"},
            {"name": "k1", "level": "rack", "parent": "us"},
        ],
        "hosts": [
            {"name": "h[0-1]", "parent": "k0", **HOST},
            {"name": "h[2-3]", "parent": "k1", **HOST},
        ],
        "links": {"rack": {"bandwidth_mbps": 1, "latency_us": 1.0}},
    }
    made = into(tmp_path, cluster)
    assert made.document.levels == ("region", "layer-1", "layer-2", "layer-3")
    assert domains_of(made.document)["h3"] == ("us", "h3+layer-1", "h3+layer-2", "h3+layer-3")
    assert made.document.links == {}
    assert "levels that make room for those of the network: rack" in lines_of(made)


def test_a_job_that_names_a_level_that_goes_is_named(tmp_path):
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": "k0", "level": "rack"}, {"name": "k1", "level": "rack"}],
        "hosts": [{"name": "h0", "parent": "k0", **HOST}, {"name": "h1", "parent": "k1", **HOST}],
    }
    group = {"count": 1, "gpu": 8, "required": "rack"}
    jobs = [{"name": "j", "options": [{"groups": [group]}]}]
    with pytest.raises(InvalidInputError) as error:
        into(tmp_path, cluster, jobs=jobs)
    assert "r.json" in str(error.value)
    assert "rack" in str(error.value)


def test_a_round_with_none_of_the_hosts_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"x0.*is no host of the network; expected names"):
        into(tmp_path, {"hosts": [{"name": "x0", **HOST}]})


def test_links_of_a_fabric_go_into_a_round(tmp_path):
    (tmp_path / "ib.txt").write_text(printed(rails(2, 2, 4, 2)))
    names = [f"u{u}h{h}.example.org" for u in range(2) for h in range(2)]
    cluster = {"hosts": [{"name": name, **HOST} for name in names]}
    made = into(tmp_path, cluster, [tmp_path / "ib.txt"])
    assert set(made.document.links) == {"host", "leaf"}
    assert made.document.levels == ("spine", "leaf")


# What is no network.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "expected what ibnetdiscover"),
        ("[1]", "expected what ibnetdiscover"),
        ("just words", "expected valid JSON"),
        ('{"Instances": [\n{"InstanceId": "i-1", "NetworkNodes": 5}]}', "x.json:2: "),
        ('{"Instances": [\n{"InstanceId": "i 1", "NetworkNodes": ["a"]}]}', "x.json:2: "),
        ('{"Instances": [\n{"InstanceId": "i-1", "NetworkNodes": [{}]}]}', "x.json:2: "),
        ('[{"name": "a", "resourceStatus": {}},\n 7]', "x.json:2: "),
        ('[{"id": "i", "networkNodes": ["a"]},\n{"id": "i", "networkNodes": "b"}]', "x.json:2: "),
        ('[{"id": "i", "networkNodes": ["a"]},\n{"id": "i", "networkNodes": ["b"]}]', "x.json:2: "),
        ('[{"name": "a", "resourceStatus": {"physicalHostTopology": 7}}]', "expected an object"),
        ("[" * 5_000 + "]" * 5_000, "nested too deeply"),
        ('[{"topology": "t", "tree": {"switches": [{"switch": "s"}]}}]', "has no host"),
        (
            '[{"name": "a", "resourceStatus": {"physicalHostTopology": {}}}]',
            "has no host with a place",
        ),
        (
            '{"kind": "Node", "metadata": {"name": "n", "labels": {}}}',
            "expected what ibnetdiscover",
        ),
    ],
)
def test_what_is_no_network_is_one_error(tmp_path, text, expected):
    with pytest.raises(InvalidInputError) as error:
        convert(tmp_path, text, "x.json")
    assert expected in str(error.value)
    assert "x.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_two_networks_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text(printed(rails(1, 2, 1, 1)))
    with pytest.raises(InvalidInputError, match="several networks; expected one"):
        read_fabric([tmp_path / "a.txt", DATA / "gcloud-instances.json"])
    with pytest.raises(InvalidInputError, match="of another cloud"):
        read_fabric([DATA / "gcloud-instances.json", DATA / "describe-instance-topology.json"])


def test_an_unknown_host_model_is_refused():
    with pytest.raises(InvalidInputError, match="unknown host model"):
        read_fabric([DATA / "gcloud-instances.json"], model="dgx")
