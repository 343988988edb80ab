"""Links of gres.conf and of slurmd -G become link matrices of the hosts that have them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from examples import examples
from placewright.instances.converters import read_slurm
from placewright.instances.errors import InvalidInputError


def convert(path: Path, gres_conf: str, model: str = "a100", **how: Any) -> Any:
    node = {"state": ["IDLE"], "cpus": 64, "cores": 64, "real_memory": 512_000}
    names = ("n0", "n1", "n2")
    nodes = [{"name": name, "gres": f"gpu:{model}:4", **node} for name in names]
    nodes[2]["gres"] = "gpu:t4:2"
    (path / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    (path / "jobs.json").write_text(json.dumps({"jobs": []}))
    (path / "gres.conf").write_text(gres_conf)
    return read_slurm([path], **how)


def links(made: Any) -> dict[str, str | None]:
    return {host.name: host.gpu_links for host in made.round.cluster.hosts}


PAIRS = """\
# Two pairs, each on a socket of its own.
AutoDetect=off
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-31 Links=-1,12,0,0
NodeName=n[0-1] name=GPU Type=a100 File=/dev/nvidia1 CPUs=0-31 links=12,-1,0,0
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia2 Cores=32-63 Links=0,0,-1,12  # the other
NodeName=n[0-1] Name=gpu Type=a100 File=/dev/nvidia3 Cores=32-63 Links=0,0,12,-1
NodeName=n2 Name=gpu Type=t4 File=/dev/nvidia[0-1] Cores=0-31
NodeName=n2 Name=shard Count=8
"""


def test_links_are_nvlinks_and_cores_tell_where_the_others_meet(tmp_path):
    made = convert(tmp_path, PAIRS)
    assert links(made) == {"n0": "gres-1", "n1": "gres-1", "n2": "gres-2"}
    a100, t4 = made.round.cluster.gpu_links
    assert a100.gpus == ("X NV12 SYS SYS", "NV12 X SYS SYS", "SYS SYS X NV12", "SYS SYS NV12 X")
    assert a100.numa == (0, 0, 1, 1)
    assert a100.classes["NV12"].bandwidth_mbps == 12 * 25 * 8000
    assert t4.gpus == ("X NODE", "NODE X")  # a T4 has no NVLink: its cores tell all
    assert any("links gres-1 of 4 GPUs: rates as published of A100" in n for n in made.book.notes)
    assert "fields of gres.conf: 5 read, 1 of no effect on placement" in made.book.fields


def test_what_slurmd_prints_of_nodes_by_a_parallel_shell_in_any_order(tmp_path):
    line = "slurmd: Gres Name=gpu Type=a100 Count=1 Index={} ID=7696487 File=/dev/nvidia{} Links={}"
    rows = ["0,0,4,-1", "-1,4,0,0", "4,-1,0,0", "0,0,-1,4"]
    text = [f"n1: {line.format(i, i, row)}" for i, row in enumerate(rows)]
    made = convert(tmp_path, "\n".join(text))
    assert links(made) == {"n0": None, "n1": "gres-1", "n2": None}
    (matrix,) = made.round.cluster.gpu_links
    assert matrix.gpus == ("X NV4 - -", "NV4 X - -", "- - X NV4", "- - NV4 X")
    assert "NUMA nodes of GPUs are not known" in matrix.source


def test_lines_without_a_node_are_of_all_that_have_so_many(tmp_path):
    made = convert(
        tmp_path, PAIRS.replace("NodeName=n[0-1] ", "").replace("NodeName=n2", "NodeName=x")
    )
    assert links(made) == {"n0": "gres-1", "n1": "gres-1", "n2": None}
    assert made.book.unsaid["links between GPUs, as gres.conf has another number of them"] == ["n2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("AutoDetect=nvml\n", "which AutoDetect finds: slurmd -G prints them"),
        ("Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-31\n", "has no Links="),
        (PAIRS.replace("12", "0"), "has none, as of GPUs that NVSwitches join"),
        (PAIRS.replace("-1,12,0,0", "-1,12,0"), "is no number for each GPU"),
        (PAIRS.replace("-1,12,0,0", "-1,many,0,0"), "is no number for each GPU"),
        (PAIRS.replace("-1,12,0,0", "-1,-1,0,0"), "is no number for each GPU"),
    ],
)
def test_links_that_are_not_there_or_make_no_sense_are_told(text, told, tmp_path):
    made = convert(tmp_path, text)
    assert links(made)["n0"] is None
    assert any(told in what for what in made.book.unsaid)


def test_a_model_without_nvlink_has_none(tmp_path):
    made = convert(tmp_path, PAIRS, model="l40s")
    assert links(made)["n0"] is None
    assert any("l40s has no nvlink" in what for what in made.book.unsaid)


def test_a_list_that_is_none_is_an_error_or_told(tmp_path):
    wrong = PAIRS.replace("n[0-1]", "n[0-", 1)
    with pytest.raises(InvalidInputError, match=r"gres.conf: NodeName: 'n\[0-': expected a list"):
        convert(tmp_path, wrong)
    made = convert(tmp_path, wrong, lenient=True)
    assert any("links between GPUs, which cannot be read" in what for what in made.book.unsaid)


def test_no_text_makes_the_reader_fail(tmp_path):
    """Of mutated texts each gives links, or a line or one error that says why there are none."""
    rng = random.Random(0)
    pieces = [
        "-1",
        "0",
        ",",
        "=",
        "[",
        "]",
        "n0",
        "Name=gpu",
        "Links=",
        "\n",
        "File=/dev/nvidia[0-9]",
    ]
    linked = set()
    for _ in range(examples(day=60, nightly=1000)):
        text = PAIRS
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(pieces) + text[at + rng.choice([0, 1, 4, 40]) :]
        try:
            linked.add(links(convert(tmp_path, text))["n0"] is not None)
        except InvalidInputError as error:
            assert "\n" not in str(error)
            assert "gres.conf" in str(error)
    assert linked == {True, False}


def test_a_text_about_other_things_is_no_gres_conf(tmp_path):
    made = convert(tmp_path, "ClusterName=c\nGresTypes=gpu\n")
    assert "gres.conf" in made.ignored
