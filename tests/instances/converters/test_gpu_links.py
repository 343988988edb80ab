"""Links in a host, as tools print them and people paste them, become link matrices."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from examples import examples
from placewright.instances.converters import read_gpu_links
from placewright.instances.converters.gpu_links.convert import model_of_hosts, with_gpu_links
from placewright.instances.derived.hardware import link_matrix
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load, parse_cluster, parse_round, write
from placewright.topology import LINK_MATRICES
from placewright.topology.link_rates import link_rates

DATA = Path(__file__).parents[2] / "data"
SAMPLES = [*(DATA / "gpu-links").iterdir(), *(DATA / "nccl").glob("*.xml")]


def read(path: Path, text: str, **how: Any) -> Any:
    file = path / "topology.txt"
    file.write_text(text)
    return read_gpu_links(file, **how)


def refused(path: Path, text: str, **how: Any) -> str:
    with pytest.raises(InvalidInputError) as caught:
        read(path, text, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_sample_becomes_a_cluster_that_loads(sample, tmp_path):
    made = read_gpu_links(sample)
    write(made.cluster(), tmp_path / "links.yaml")
    loaded = load(tmp_path / "links.yaml")
    assert loaded.gpu_links == (made.matrix,)
    assert loaded.hosts[0].gpus == len(made.matrix.gpus)
    assert made.matrix.source.endswith("; ".join(made.book.lines()))


def test_pairs_across_as_one_host_has_them():
    made = read_gpu_links(DATA / "gpu-links" / "pairs.txt", gpu_model="NVIDIA A100-PCIE-40GB")
    links = link_matrix(made.matrix)
    joined = {(i, j) for i in range(8) for j in range(i, 8) if links.kind[i][j] == 5}
    assert joined == {(0, 2), (1, 3), (4, 5), (6, 7)}
    assert links.mbps[0][2] == 12 * 25 * 8000
    assert links.numa == (0, 0, 0, 0, 1, 1, 1, 1)
    (line,) = made.book.lines()
    assert line == (
        "rates as published of A100: 25 GB/s for each NVLink, 31.5 GB/s for PCI Express x16, at "
        "most 10 GB/s between sockets"
    )


def test_a_table_within_a_thread_and_nics_by_their_own_names():
    made = read_gpu_links(DATA / "gpu-links" / "half-paired.txt")
    assert made.matrix.name == "half-paired"
    assert made.matrix.gpus[:2] == ("X NV12 SYS SYS", "NV12 X SYS SYS")
    assert made.matrix.nics == ("NODE NODE SYS SYS",) * 2
    assert "guessed, GPU model not known" in made.matrix.source


def test_each_gpu_on_its_own_numa_node_beside_its_own_nic():
    made = read_gpu_links(DATA / "gpu-links" / "hgx-h100-4.txt", gpu_model="H100")
    links = link_matrix(made.matrix)
    assert links.kind == LINK_MATRICES["hgx-h100-4"].kind
    assert links.mbps == LINK_MATRICES["hgx-h100-4"].mbps
    assert links.numa == (3, 1, 7, 5)
    assert [row.split().index("PIX") for row in made.matrix.nics] == [0, 1, 2, 3]


def test_without_the_numa_column_cpu_affinities_tell_the_nodes():
    made = read_gpu_links(DATA / "gpu-links" / "pcie-2017.txt")
    assert made.matrix.numa == (0, 0, 0, 0, 1, 1, 1, 1)
    assert "NUMA nodes are not printed" in made.matrix.source
    kinds = {word: one.kind for word, one in made.matrix.classes.items()}
    assert kinds == {"PIX": "pcie", "PHB": "numa", "SYS": "system"}
    rates = [made.matrix.classes[word].bandwidth_mbps for word in ("SYS", "PHB", "PIX")]
    assert rates == sorted(set(rates))


TWO = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-3\nGPU1\tNV4\t X \t0-3\n"


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        TWO.replace("\t", "      "),
        TWO.replace("\n", "\r\n"),
        "\x1b[4m" + TWO.replace("GPU0\tGPU1", "GPU0\t\x1b[0mGPU1\x1b[0m"),
        "> " + TWO.replace("\n", "\n> "),
        "\ufeff" + TWO,
        "|" + TWO.replace("\t", " | ").replace("\n", " |\n|"),
        TWO.replace(" X ", "\xa0X\xa0"),
        "GPU0 and GPU1 are joined:\n" + TWO,
        TWO.replace("GPU0\t X", "GPU0\t X", 1) + "\nLegend:\n\n  X    = Self\n",
    ],
)
def test_what_terminals_and_quotations_add_says_nothing(text, tmp_path):
    made = read(tmp_path, text)
    assert made.matrix.gpus == ("X NV4", "NV4 X")
    assert made.matrix.numa == (0, 0)


def test_sixteen_gpus_of_one_switch_and_a_gpu_alone(tmp_path):
    names = [f"GPU{i}" for i in range(16)]
    rows = [" ".join([a, *("X" if a == b else "NV6" for b in names), "0-9", "0"]) for a in names]
    head = " ".join([*names, "CPU Affinity", "NUMA Affinity"])
    made = read(tmp_path, "\n".join([head, *rows]), gpu_model="Tesla V100-SXM3-32GB")
    assert link_matrix(made.matrix).is_uniform
    assert made.matrix.classes["NV6"].bandwidth_mbps == 6 * 25 * 8000
    alone = read(tmp_path, "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-3\t0\n")
    assert alone.matrix.gpus == ("X",)


def test_what_the_tool_does_not_know_is_no_link_and_one_way_is_the_worse_word(tmp_path):
    made = read(tmp_path, TWO.replace("NV4", "N/A"))
    assert made.matrix.gpus == ("X -", "- X")
    assert made.matrix.classes == {}
    made = read(tmp_path, TWO.replace("X \tNV4", "X \tSYS"))
    assert made.matrix.gpus == ("X SYS", "SYS X")
    assert "the worse word is taken of GPUs that have one each way: 0-1" in made.matrix.source


def test_topo_mp_is_told_to_leave_out_nvlink(tmp_path):
    legend = "\nLegend:\n  X    = Self\n  PIX  = Connection traversing at most a single bridge\n"
    made = read(tmp_path, TWO.replace("NV4", "PHB") + legend)
    assert made.matrix.source.startswith("nvidia-smi topo -mp; ")
    assert "topo -m shows it" in made.matrix.source


def test_a_table_that_is_cut_off_after_its_gpus_keeps_the_nics(tmp_path):
    text = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\tX\tNV4\tPIX\t0-3\nGPU1\tNV4\tX\tSYS\t0-3\n"
    assert read(tmp_path, text).matrix.nics == ("PIX SYS",)


def many_words() -> str:
    """Return a table of twelve GPUs, all of whose pairs are joined differently."""
    names = [f"GPU{i}" for i in range(12)]
    rows = [" ".join(names)]
    for i, name in enumerate(names):
        pairs = [(min(i, j), max(i, j)) for j in range(12)]
        rows.append(" ".join([name, *("X" if a == b else f"NV{1 + a * 12 + b}" for a, b in pairs)]))
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        ("nothing of the kind", "expected what nvidia-smi topo -m, rocm-smi"),
        ("[{}]", "expected what nvidia-smi topo -m, rocm-smi"),
        ('[1, {"gpu": 0, "links": [0]}]', "expected what nvidia-smi topo -m, rocm-smi"),
        ('{"system": {}}', "expected what nvidia-smi topo -m, rocm-smi"),
        (TWO.replace("GPU1\tNV4\t X ", "GPU2\tNV4\t X "), ":1: has no row of GPU1"),
        (TWO.replace("GPU1\tNV4\t X \t0-3", "GPU1\tNV4"), ":3: row of GPU1 has 1 words"),
        (TWO.replace("X \tNV4", "X \tNV"), ":2: 'NV': expected X, NV# or one of PIX"),
        (TWO.replace("X \tNV4", "X \tX"), ":2: 'X': expected X for the device itself"),
        (TWO.replace("\tGPU0\tGPU1", "\tGPU0\tGPU1\tGPU1"), ":1: names a device twice"),
        ("<!DOCTYPE system [<!ENTITY a 'b'>]><system>&a;</system>", "has a DOCTYPE"),
        ("<system><cpu></system>", "is no XML (mismatched tag)"),
        ("<system/>", "has 0 GPUs"),
        ("<html/>", "expected the element system"),
        (many_words(), "has 66 kinds of links; expected at most 64"),
        ("<a>" * 100, "64 inside each other"),
        ("<a>" + "<b/>" * 100_001 + "</a>", "at most 100,000 elements"),
    ],
)
def test_a_text_that_cannot_be_read_is_one_clear_error(text, told, tmp_path):
    assert told in refused(tmp_path, text)


def test_a_model_without_such_links_and_the_name_of_a_host_model_are_refused(tmp_path):
    assert "has no nvlink, and the text says NV4" in refused(tmp_path, TWO, gpu_model="L40S")
    assert "is the name of a host model" in refused(tmp_path, TWO, name="dgx-h100")


def test_rocm_pairs_without_a_known_link_have_none():
    made = read_gpu_links(DATA / "gpu-links" / "rocm-islands.json", gpu_model="MI250X")
    assert made.matrix.gpus == (
        "X XGMI PCIE-SYS -",
        "XGMI X - -",
        "PCIE-SYS - X XGMI",
        "- - XGMI X",
    )
    assert made.matrix.numa == (0, 0, 1, 1)
    assert made.matrix.classes["XGMI"].bandwidth_mbps == 50 * 8000
    assert made.matrix.classes["PCIE-SYS"].kind == "system"
    assert "3 pairs without a known type of link have none" in made.matrix.source


ROCM_TABLES = """
======================= ROCm System Management Interface =======================
=========================== Weight between two GPUs ============================
       GPU0         GPU1         GPU2         GPU3         
GPU0   0            15           40           72           
GPU1   15           0            40           72           
GPU2   40           40           0            72           
GPU3   72           72           72           0            

============================ Hops between two GPUs =============================
       GPU0         GPU1         GPU2         GPU3         
GPU0   0            1            2            3            
GPU1   1            0            2            3            
GPU2   2            2            0            3            
GPU3   3            3            3            0            

========================== Link Type between two GPUs ==========================
       GPU0         GPU1         GPU2         GPU3         
GPU0   0            XGMI         PCIE         PCIE         
GPU1   XGMI         0            PCIE         PCIE         
GPU2   PCIE         PCIE         0            PCIE         
GPU3   PCIE         PCIE         PCIE         0            

================================== Numa Nodes ==================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 0
GPU[2]\t\t: (Topology) Numa Node: 1
GPU[3]\t\t: (Topology) Numa Node: 4
============================= End of ROCm SMI Log ==============================
"""  # noqa: W291


def test_rocm_tables_as_text_whose_hops_tell_the_sockets(tmp_path):
    made = read(tmp_path, ROCM_TABLES, gpu_model="AMD Instinct MI210")
    assert made.matrix.gpus == (
        "X XGMI PCIE PCIE-SYS",
        "XGMI X PCIE PCIE-SYS",
        "PCIE PCIE X PCIE-SYS",
        "PCIE-SYS PCIE-SYS PCIE-SYS X",
    )
    assert made.matrix.numa == (0, 0, 1, 4)


def test_amd_smi_lists_the_links_of_each_gpu_and_how_wide_they_are(tmp_path):
    def link(gpu, kind, weight, bandwidth="N/A", status="ENABLED"):
        told = {"gpu": gpu, "weight": weight, "link_status": status, "link_type": kind}
        return {**told, "num_hops": 0 if kind == "SELF" else 1, "bandwidth": bandwidth}

    first = [link(0, "SELF", 0), link(1, "XGMI", 15, "50000-200000"), link(2, "XGMI", 30)]
    third = [link(2, "SELF", 0), link(1, "XGMI", 15, "50000-50000", "DISABLED")]
    listed = [{"gpu": 0, "bdf": "0:0", "links": first}, {"gpu": 2, "links": third}]
    made = read(tmp_path, f"WARNING: no NUMA\n{json.dumps(listed, indent=4)}\n", gpu_model="MI250X")
    assert made.matrix.gpus == ("X XGMI4 XGMI-2", "XGMI4 X -", "XGMI-2 - X")
    assert made.matrix.classes["XGMI4"].bandwidth_mbps == 200 * 8000


def test_rocm_warnings_around_the_object_and_xgmi_over_hops(tmp_path):
    text = (
        "WARNING: AMD GPU device(s) is/are in a low-power state.\n\n"
        '{"system": {"(Topology) Link type between DRM devices 0 and 1": "XGMI", '
        '"(Topology) Weight between DRM devices 0 and 1": "30"}}\n'
    )
    made = read(tmp_path, text, gpu_model="MI300X")
    assert made.matrix.gpus == ("X XGMI-2", "XGMI-2 X")
    assert made.matrix.classes["XGMI-2"].bandwidth_mbps == 64 * 8000 // 2
    assert made.matrix.numa == ()
    assert "NUMA nodes of GPUs are not known" in made.matrix.source


def test_a_dump_of_nccl_tells_switches_bridges_and_pcie_as_fast_as_it_is():
    made = read_gpu_links(DATA / "gpu-links" / "nccl-dump.xml")
    assert made.matrix.gpus == (
        "X NV10 SYS SYS",  # the one of 12 and the one of 10 lanes, in the order of dev
        "NV10 X SYS SYS",
        "SYS SYS X NV4",
        "SYS SYS NV4 X",
    )
    assert made.matrix.nics == ("PIX PIX SYS SYS",)
    assert made.matrix.numa == (0, 0, 1, 1)
    assert made.matrix.classes["NV10"].bandwidth_mbps == 10 * 25 * 8000
    assert made.matrix.classes["PIX"].bandwidth_mbps == 252_061
    assert "by the compute capability" in made.matrix.source


def test_files_for_nccl_that_leave_out_nvlink_say_so():
    made = read_gpu_links(DATA / "nccl" / "aws_p4d-24xl-topo.xml")
    assert made.matrix.gpus[0] == "X PIX PHB PHB SYS SYS SYS SYS"
    assert made.matrix.nics[1] == "PHB PHB PIX PIX SYS SYS SYS SYS"
    assert "no NVLink or XGMI in it" in made.matrix.source


@pytest.mark.parametrize(
    ("name", "lane", "generation"),
    [
        ("NVIDIA H100 80GB HBM3", 25, 5),
        ("NVIDIA-A100-SXM4-80GB", 25, 4),
        ("Tesla-V100-SXM2-32GB", 25, 3),
        ("NVIDIA B200", 50, 5),
        ("NVIDIA RTX A6000", 14.0625, 4),
        ("NVIDIA RTX 6000 Ada Generation", 0, 4),
        ("Quadro RTX 6000", 25, 3),
        ("NVIDIA L40S", 0, 4),
        ("AMD Instinct MI300X", 64, 5),
    ],
)
def test_rates_of_a_gpu_by_the_name_that_tools_print(name, lane, generation):
    rates = link_rates(name)
    assert rates.lane == lane * 8000
    assert rates.pcie == {3: 126_030, 4: 252_061, 5: 504_123}[generation]


CLUSTER = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Cluster",
    "hosts": [
        {"name": "a[00-03]", "gpus": 8, "gpu_model": "A100"},
        {"name": "b", "gpus": 8, "gpu_model": "L40S"},
    ],
}


def test_hosts_of_a_cluster_or_round_get_the_matrix_and_ranges_are_split():
    cluster = parse_cluster(CLUSTER)
    matrix = read_gpu_links(DATA / "gpu-links" / "pairs.txt").matrix
    made = with_gpu_links(cluster, matrix, "a[01-02],b")
    assert [(host.name, host.gpu_links) for host in made.hosts] == [
        ("a00", None),
        ("a[01-02]", "pairs"),
        ("a03", None),
        ("b", "pairs"),
    ]
    again = with_gpu_links(made, matrix, "a00")
    assert again.gpu_links == (matrix,)
    assert model_of_hosts(cluster, "b") == "L40S"
    round_ = parse_round({"kind": "Round", "cluster": {"hosts": CLUSTER["hosts"]}})
    of_round = with_gpu_links(round_, matrix, "b")
    assert of_round.cluster.hosts[1].gpu_links == "pairs"


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        ("c", "unknown host"),
        ("a[", "expected hosts, such as"),
        ("a[3-0]", "expected hosts, such as"),
        ("b", "has 8 GPUs; expected 4, as many as the links are of"),
    ],
)
def test_hosts_that_cannot_have_the_matrix_are_refused(hosts, told):
    matrix = read_gpu_links(DATA / "gpu-links" / "half-paired.txt").matrix
    with pytest.raises(InvalidInputError, match=told.replace("[", r"\[")):
        with_gpu_links(parse_cluster(CLUSTER), matrix, hosts)


@pytest.mark.parametrize(
    "text",
    [
        "=" * 10**6,
        "GPU0 " + "a1" * 10**6 + "!",
        "GPU0 " + " " * 10**6 + "!",
        "\x1b[" * 10**6,
        "{" * 10**6,
        "<a " + "b" * 10**6,
    ],
    ids=range(6),
)
def test_long_texts_are_refused_at_once(text, tmp_path):
    begin = time.process_time()
    refused(tmp_path, text)
    assert time.process_time() - begin < 5


def test_no_text_makes_a_reader_fail(tmp_path):
    """Of mutated samples each is read into a cluster that loads, or is one error of one line."""
    rng = random.Random(0)
    texts = [path.read_text() for path in SAMPLES]
    pieces = ["GPU0", "X", "NV12", "NV999", "\x1b[", "\t", "<", ">", '"', "{", "}", "-1", "0", ","]
    outcomes = set()
    for _ in range(examples(day=150, nightly=3000)):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 8)):
            at, to = sorted(rng.choices(range(len(text) + 1), k=2))
            to = min(to, at + rng.choice([0, 1, 5, 80]))
            how = rng.randrange(3)
            new = [rng.choice(pieces), "", text[at:to] * 2][how]
            text = text[:at] + new + text[to:]
        try:
            read(tmp_path, text, gpu_model=rng.choice([None, "A100", "L40S"])).cluster()
            outcomes.add("read")
        except InvalidInputError as error:
            outcomes.add("refused")
            assert all(line.startswith(str(tmp_path)) for line in str(error).splitlines())
    assert outcomes == {"read", "refused"}
