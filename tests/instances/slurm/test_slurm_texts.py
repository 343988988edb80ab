"""Host lists, GRES, TRES and features as Slurm writes them, and topologies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from slurm_dumps import convert

from placewright.instances.converters import read_slurm
from placewright.instances.converters.slurm.texts import (
    Gres,
    Tres,
    blocks,
    compress,
    expand,
    matches,
    read_gres,
    read_tres,
)
from placewright.instances.derived import ranges

DATA = Path(__file__).parents[2] / "data" / "slurm"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("h0", ("h0",)),
        ("h[0-2,7],a1", ("h0", "h1", "h2", "h7", "a1")),
        ("g[08-11]", ("g08", "g09", "g10", "g11")),
        ("r[1-2]n[0-1]", ("r1n0", "r1n1", "r2n0", "r2n1")),
        ("h[3]-ib", ("h3-ib",)),
    ],
)
def test_host_lists(text, names):
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["h[", "h]", "h[a]", "h[3-1]", "h[0-999999]", "a[0-9999],b[0-199999]", "a,,b", "[0]" * 9],
)
def test_what_is_no_host_list(text):
    with pytest.raises(ValueError, match="expected"):
        expand(text)


@pytest.mark.parametrize(
    "names",
    [("h0", "h1", "h2", "x"), ("g08", "g09", "g10"), ("h9", "h10", "h11"), ("n1", "n01", "n3")],
)
def test_compressed_lists_stand_for_the_same_hosts(names):
    found = [name for entry in compress(names) for name in ranges.expand(entry)]
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize(
    ("text", "gpus", "others", "indices"),
    [
        ("gpu:h100:8(S:0-1)", {"h100": 8}, (), ()),
        ("gres:gpu:8", {"": 8}, (), ()),
        ("gres/gpu:8", {"": 8}, (), ()),
        ("cpu=1,gres/gpu=2", {"": 2}, (), ()),
        ("gres/gpu:a100:2,gres/gpu:h100:1", {"a100": 2, "h100": 1}, (), ()),
        ("gpu:h100:4(IDX:0-2,5)", {"h100": 4}, (), (0, 1, 2, 5)),
        ("gpu:1g.10gb:7,nic:4", {"1g.10gb": 7}, ("nic",), ()),
        ("gpu:h100", {"h100": 1}, (), ()),
        ("(null)", {}, (), ()),
        ("gpu:0", {}, (), ()),
    ],
)
def test_gres(text, gpus, others, indices):
    read = read_gres(text)
    assert (dict(read.gpus), read.others, read.indices) == (gpus, others, indices)


def test_tres():
    assert read_tres("cpu=48,mem=384G,node=3,billing=48,gres/gpu=24") == (
        *(48, 384 * 1024, 3),
        Gres(Counter({"": 24})),
    )
    assert read_tres("gres/gpu=3,gres/gpu:a=3").gpus.gpus == {"a": 3}
    assert read_tres("gres/gpu=3,gres/gpu:a=2").gpus.gpus == {"": 3}
    assert read_gres("gres/gpu=3,gres/gpu:a=3").gpus == {"": 3, "a": 3}
    assert read_tres("mem=1.5T") == (0, 1536 * 1024, 0, Gres())
    assert read_tres("mem=1K") == (0, 1, 0, Gres())
    assert read_tres("") == Tres()


@pytest.mark.parametrize("text", ["shard:l40s:3(IDX:1)", "shard:3(0/4,3/4)"])
def test_parts_of_gpus_and_which_gpus_these_are(text):
    read = read_gres(text)
    assert (read.total, dict(read.parts), read.part_indices) == (0, {"shard": 3}, (1,))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a", True),
        ("a&b", True),
        ("a&c", False),
        ("a|c", True),
        ("c|d", False),
        ("b&(c|a)", True),
        ("(c|d)&a", False),
        ("c&a|b", True),
        ("a*2", None),
        ("[a|c]", None),
        ("a&", None),
        ("(a", None),
        ("a b", None),
    ],
)
def test_features(text, answer):
    assert matches(text, ("a", "b")) is answer


def test_switches_that_hang_higher_have_stand_ins(tmp_path):
    text = "SwitchName=l0 Nodes=h[0-1]\nSwitchName=l1 Nodes=h2\nSwitchName=s Switches=l0\n"
    cluster = convert(tmp_path, [], topology=f"{text}SwitchName=core Switches=s,l1\n").round.cluster
    assert cluster.levels == ("switch-2", "switch-1", "leaf")
    above = {domain.name: domain.parent for domain in cluster.domains}
    assert above == {
        "core": None,
        "s": "core",
        "l0": "s",
        "l1+1": "core",
        "l1": "l1+1",
        "h3+alone+2": None,
        "h3+alone+1": "h3+alone+2",
        "h3+alone": "h3+alone+1",
    }
    assert [host.parent for host in cluster.hosts] == ["l0", "l0", "l1", "h3+alone"]


@pytest.mark.parametrize("file", ["topology.txt", "topology.yaml"])
def test_blocks_and_segments(file):
    parts = [DATA / "block" / name for name in ("jobs.json", "nodes.json", file)]
    made = read_slurm(parts)
    cluster = made.round.cluster
    assert cluster.levels == ("aggregated-block", "block")
    above = {domain.name: domain.parent for domain in cluster.domains}
    assert above == {
        "b0+b1": None,
        "b2+b3": None,
        "b0": "b0+b1",
        "b1": "b0+b1",
        "b2": "b2+b3",
        "b3": "b2+b3",
    }
    slices = {job.name: job.options[0].groups[0].slices for job in made.round.jobs}
    assert (slices["5"].size, slices["5"].required) == (18, "block")
    assert slices["7"] is None


def test_text_of_22_05_says_the_same_as_json():
    parts = ["jobs.json", "nodes.json"]
    files = [DATA / "v0.0.38" / name for name in parts]
    plain = read_slurm([DATA / "v0.0.38"]).round
    text = read_slurm([*files, DATA / "text"]).round
    assert text.cluster == plain.cluster
    assert text.jobs == plain.jobs
    assert text.tenants == plain.tenants


def test_a_text_without_parents_is_noted_if_there_are_limits(tmp_path):
    table = "Cluster|Account|User|GrpTRES\nlab|{0}||gres/gpu=16\n"
    made = convert(tmp_path, [], associations=table.format("research"))
    assert any("ParentName" in line for line in made.book.lines())
    table = "Cluster|Account|User|ParentName|GrpTRES\nlab|research||root|gres/gpu=16\n"
    made = convert(tmp_path, [], associations=table)
    assert not any("ParentName" in line for line in made.book.lines())


def test_a_long_run_of_letters_takes_no_longer_than_it_is() -> None:
    """By backtracking from each of them this would take an hour."""
    assert blocks("JobId=1 " + "a" * 2_000_000, "JobId") == [{"JobId": "1"}]
