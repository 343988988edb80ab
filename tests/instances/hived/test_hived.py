"""HiveD's scheduler configuration as a round with cells."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import yaml

from placewright.cli.app import main
from placewright.instances.checks.round import check_round
from placewright.instances.converters import read_hived
from placewright.instances.derived.cell_trees import chains_of
from placewright.instances.errors import InvalidInputError

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "tests" / "data" / "hived" / "hivedscheduler.yaml"
REAL = ROOT.parent / "shared" / "data" / "topology" / "hived"

TYPES = """
CT-NODE: {childCellType: CT, childCellNumber: 2, isNodeLevel: true}
NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}
2-NODE: {childCellType: NODE, childCellNumber: 2}
3-NODE: {childCellType: NODE, childCellNumber: 3}
4-NODE: {childCellType: 2-NODE, childCellNumber: 2}
"""


def read(folder, cells, clusters=None, types=TYPES, skus=None):
    file = folder / "hived.yaml"
    physical = {"cellTypes": yaml.safe_load(types), "physicalCells": cells, "skuTypes": skus}
    file.write_text(yaml.safe_dump({"physicalCluster": physical, "virtualClusters": clusters}))
    return read_hived(file)


def own(**cells):
    """Return virtual clusters that own cells by type, and pinned ones by id."""
    return {
        name: {
            "virtualCells": [
                {"cellType": kind, "cellNumber": number}
                for kind, number in owned.items()
                if number is not None
            ],
            "pinnedCells": [
                {"pinnedCellId": pin} for pin, number in owned.items() if number is None
            ],
        }
        for name, owned in cells.items()
    }


def owned(made):
    return [
        (tenant.name, cell.level, cell.gpu_model, cell.within, cell.count)
        for tenant in made.round.tenants
        for cell in tenant.cells
    ]


def test_cells_above_nodes_are_domains_and_virtual_clusters_tenants():
    made = read_hived(SAMPLE)
    assert made.round.cluster.levels == ("cell-1",)
    assert [(h.name, h.parent, h.gpus, h.cpu, h.memory) for h in made.round.cluster.hosts] == [
        *((name, "3-T4-NODE/0", 4, 16_000, 32 * 1024) for name in ("a1", "a2", "a3")),
        # Nodes without an address have their chain in their name: HiveD's "2" may be there twice.
        *((f"2-T4-NODE/1/{i}", "2-T4-NODE/1", 4, 16_000, 32 * 1024) for i in (2, 3)),
    ]
    assert owned(made) == [
        ("vc1", "host", "T4", None, 1),
        ("vc2", "host", "T4", None, 1),
        ("vc2", "host", "T4", "a2", 1),
        ("default", "cell-1", "T4", "2-T4-NODE/1", 1),
    ]
    assert made.book.lines() == [
        "cells: 4 of 5 in the round",
        "left out: 1 cell: smaller than a host: vc1/1",
    ]


def test_the_example_of_hived():
    file = REAL / "example__feature__file__hived-config-1.yaml"
    if not file.exists():
        pytest.skip("no data")
    made = read_hived(file)
    assert owned(made) == [
        ("vc1", "host", "K80", None, 1),
        ("vc2", "host", "K80", None, 1),
        ("vc2", "host", "K80", "10.151.41.25", 1),
        ("default", "cell-1", "K80", "2-K80-NODE/1", 1),
    ]
    assert made.book.lines() == ["cells: 4 of 4 in the round"]


def test_chains_of_one_model_are_kept_apart(tmp_path):
    cells = [
        *({"cellType": "NODE", "cellAddress": f"n{i}"} for i in range(2)),
        {"cellType": "3-NODE", "cellChildren": [{"cellAddress": f"r{i}"} for i in range(3)]},
        {"cellType": "4-NODE", "cellAddress": "x"},
        {"cellType": "4-NODE", "cellAddress": "y", "cellChildren": [{"pinnedCellId": "P"}, {}]},
    ]
    # The hosts of 3-NODE are nobody's, so that no chain can be all that is left.
    clusters = own(a={"4-NODE.2-NODE.NODE": 2, "NODE": 1}, b={"4-NODE.2-NODE": 1, "P": None})
    made = read(tmp_path, cells, clusters)
    assert made.round.cluster.levels == ("chain", "4-NODE", "cell-1")
    assert owned(made) == [
        ("a", "host", "V100", "chain:4-NODE", 2),
        ("a", "host", "V100", "chain:NODE", 1),
        ("b", "cell-1", "V100", "chain:4-NODE", 1),
        ("b", "cell-1", "V100", "chain:4-NODE", 1),
    ]
    assert "not said by the round: which of its chain a pinned cell is: b/P" in made.book.lines()
    clusters["a"]["virtualCells"].append({"cellType": "3-NODE", "cellNumber": 1})
    made = read(tmp_path, cells, clusters)
    assert [(level, within) for _, level, _, within, _ in owned(made)] == [
        ("host", None),
        ("host", "chain:NODE"),
        ("cell-1", "3-NODE/2"),
        ("cell-1", None),
        ("cell-1", "4-NODE/y/8"),
    ]


def test_a_pinned_cell_smaller_than_others_of_its_chain_is_any(tmp_path):
    cells = [
        {"cellType": "2-NODE", "cellChildren": [{"cellAddress": 1, "pinnedCellId": "P"}, {}]},
        {"cellType": "2-NODE", "cellAddress": "x"},
    ]
    made = read(tmp_path, cells, own(a={"2-NODE": 1, "P": None}))
    assert owned(made) == [("a", "2-NODE", "V100", None, 1), ("a", "host", "V100", None, 1)]
    assert "not said by the round: which of its chain a pinned cell is: a/P" in made.book.lines()


def test_a_node_with_two_models_is_two_hosts(tmp_path):
    cells = [{"cellType": kind, "cellAddress": "n"} for kind in ("CT-NODE", "NODE")]
    made = read(tmp_path, cells, own(a={"CT-NODE": 1}), skus={"CT": {"cpu": 4}})
    assert [(h.name, h.gpus, h.gpu_model) for h in made.round.cluster.hosts] == [
        ("n", 0, None),
        ("n:V100", 8, "V100"),
    ]
    assert made.book.lines() == [
        "cells: 0 of 1 in the round",
        "left out: 1 cell: no GPU in them: a/0",
        "not said by the round: cores and memory of cells without a skuType: V100",
        "not said by the round: that hosts with GPUs of different models are one node: n:V100",
    ]


NODE = {"cellType": "NODE", "cellAddress": "n"}


@pytest.mark.parametrize(
    ("cells", "clusters", "types", "said"),
    [
        ([], None, TYPES, "physicalCells: expected at least one cell"),
        ([{}], None, TYPES, "physicalCells[0].cellType: missing"),
        ([{"cellType": "RACK"}], None, TYPES, "physicalCells[0].cellType: 'RACK': unknown"),
        ([NODE, {**NODE}], None, TYPES, "physicalCells[1].cellAddress: 'n': is the node of two"),
        ([{**NODE, "cellAddress": "a[1-2]"}], None, TYPES, "expected only letters"),
        (
            [{"cellType": "3-NODE", "cellChildren": [{}]}],
            None,
            TYPES,
            "cellChildren: has 1 cells; expected 3 in a 3-NODE",
        ),
        (
            [{"cellType": "2-NODE", "cellChildren": [{"cellType": "3-NODE"}, {}]}],
            None,
            TYPES,
            "cellChildren[0].cellType: '3-NODE': expected NODE",
        ),
        (
            [{"cellType": "A"}],
            None,
            "A: {childCellType: A, childCellNumber: 1}",
            "cellTypes.A.childCellType: 'A': expected a cell type that is not inside itself",
        ),
        (
            [{"cellType": "A"}],
            None,
            "A: {childCellType: B, childCellNumber: 1}",
            "has 0 node levels in it",
        ),
        ([NODE], own(a={"3-NODE": 1}), TYPES, "virtualCells[0].cellType: '3-NODE': unknown chain"),
        ([NODE], own(a={"NODE.CT": 1}), TYPES, "'NODE.CT': expected NODE.V100, or its beginning"),
        ([NODE], own(a={"P": None}), TYPES, "pinnedCells[0].pinnedCellId: 'P': unknown pinned"),
        (
            [{**NODE, "pinnedCellId": "P"}],
            own(a={"P": None}, b={"P": None}),
            TYPES,
            "virtualClusters.b.pinnedCells[0].pinnedCellId: 'P': owned twice",
        ),
        (
            [NODE],
            own(a={"NODE": 1}, b={"NODE": 1}),
            TYPES,
            "virtualClusters.b.virtualCells[0]: 1: with the cells of the tenants before, more than",
        ),
    ],
)
def test_a_wrong_value_is_one_line(tmp_path, cells, clusters, types, said):
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path, cells, clusters, types)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_no_configuration(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("- 1\n")
    with pytest.raises(InvalidInputError, match="expected the configuration of HiveD"):
        read_hived(file)


@pytest.mark.parametrize("seed", range(60))
def test_what_lies_in_the_cluster_can_be_owned(tmp_path, seed):
    """Cells taken from the physical ones, each once, are a round, in hosts of their chain."""
    rng = random.Random(seed)
    inside = {"4-NODE": "2-NODE", "2-NODE": "NODE", "3-NODE": "NODE"}
    sizes = {"4-NODE": 2, "2-NODE": 2, "3-NODE": 3}
    wanted, specs = {"a": {}, "b": {}}, []

    def claim(kind, path):
        spec = {"cellAddress": f"{path.partition('.')[0]}@{rng.getrandbits(60)}"}
        if rng.random() < 0.5 or kind not in inside:
            fate, owner = rng.random(), wanted[rng.choice("ab")]
            if fate < 0.2:
                spec["pinnedCellId"] = f"{path.partition('.')[0]}@{rng.getrandbits(60)}"
                owner[spec["pinnedCellId"]] = None
            elif fate < 0.8:
                owner[path] = owner.get(path, 0) + 1
        else:
            spec["cellChildren"] = [
                claim(inside[kind], f"{path}.{inside[kind]}") for _ in range(sizes[kind])
            ]
        return spec

    for _ in range(rng.randint(1, 5)):
        kind = rng.choice(["NODE", "2-NODE", "3-NODE", "4-NODE"])
        specs.append({"cellType": kind, **claim(kind, kind)})
    made = read(tmp_path, specs, own(**wanted))
    check_round(made.round)
    kinds = [
        sorted(mine, key=lambda kind, mine=mine: mine[kind] is None) for mine in wanted.values()
    ]
    for (t, c), chain in chains_of(made.round.cluster, made.round.tenants).items():
        of = kinds[t][c].partition(".")[0].partition("@")[0]
        assert {re.split("[@/]", host)[0] for host in chain.names[0]} == {of}
    assert sum(cell[-1] for cell in owned(made)) == made.book.total("cells")
    assert made.book.total("cells") == sum(
        n or 1 for mine in wanted.values() for n in mine.values()
    )


def test_from_the_configuration_to_a_plan(tmp_path, capsys):
    round_ = str(tmp_path / "round.yaml")
    assert main(["convert", "hived", str(SAMPLE), "-o", round_]) == 0
    assert "hived: 5 hosts, 20 GPUs; 3 virtual clusters own 4 cells" in capsys.readouterr().err
    assert main(["validate", round_]) == 0
    job = tmp_path / "job.yaml"
    job.write_text("{name: new, tenant: vc2, options: [{groups: [{gpu: 4, count: 2}]}]}\n")
    capsys.readouterr()
    assert main(["whatif", round_, "-e", str(job), "--time-limit", "5"]) == 0
    assert "Jobs: 1 of 1 new jobs run." in capsys.readouterr().out
