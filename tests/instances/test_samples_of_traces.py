"""Real rows of each published trace (tests/data) become rounds that have plans."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from placewright.cli.verbs.convert import convert
from placewright.instances.checks.round import check_round
from placewright.instances.converters import (
    Conversion,
    chronus_jobs,
    elasticflow_jobs,
    read_chronus,
    read_elasticflow,
    read_itp,
    read_muri,
    read_openb,
    read_synergy,
    read_wan,
)
from placewright.instances.verify import verify
from placewright.rounds import solve_round

DATA = Path(__file__).parents[1] / "data"
OPENB = DATA / "openb" / "nodes.csv", DATA / "openb" / "pods.csv"
MURI = DATA / "muri" / "trace3.csv", DATA / "muri" / "n8g8.csv"
CHRONUS = DATA / "chronus" / "MIX2.csv"
ELASTICFLOW = DATA / "elasticflow" / "cluster10.csv"
ITP = tuple(DATA / "itp" / f"cluster{number}.csv" for number in ("03", "06", "10"))
SYNERGY = DATA / "synergy" / "cpu_mem_sensitivity_1gpu.json"
WAN = tuple(
    DATA / "wan" / f"skyplane_{name}.csv"
    for name in ("throughput_2022-01_gbps", "rtt_ms", "egress_usd_per_gb")
)
READ: dict[str, Callable[[], Conversion]] = {
    "openb": lambda: read_openb(*OPENB, running=0.5),
    "muri": lambda: read_muri(*MURI),
    "chronus": lambda: read_chronus(
        CHRONUS, gpus=64, locality=CHRONUS.with_name("model_info.json")
    ),
    "elasticflow": lambda: read_elasticflow(ELASTICFLOW, gpus=64, elastic=16),
    "itp": lambda: read_itp(ITP, regions=3, datasets=12, policy="geo"),
    "synergy": lambda: read_synergy(SYNERGY, servers=2, split=(1, 0, 0)),
    "wan": lambda: read_wan(*WAN),
}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_converter_of_the_command_line_has_a_sample() -> None:
    # Dumps of clusters, networks, links and graphs, and documents of other systems, have tests of
    # their own.
    others = {"slurm", "kubernetes", "ray", "hived", "manifest", "skypilot", "psplib"}
    others |= {"fabric", "gpu-links", "graph"}
    assert set(READ) | others == {command.name for command in convert.registered_commands}


@pytest.mark.parametrize("name", READ)
def test_a_sample_becomes_a_round_with_a_plan(name: str) -> None:
    round_ = READ[name]().round
    check_round(round_)
    plan = solve_round(round_, time_limit=0)
    assert verify(round_, plan).ok


@pytest.mark.parametrize("name", READ)
def test_the_same_seed_gives_the_same_round(name: str) -> None:
    assert READ[name]() == READ[name]()


def test_pods_of_openb_with_gpus_are_jobs() -> None:
    nodes, pods = (rows(path) for path in OPENB)
    made = read_openb(*OPENB)
    models = {node["model"] for node in nodes}
    asking = [
        pod
        for pod in pods
        if pod["num_gpu"] != "0"
        and (not pod["gpu_spec"] or models & set(pod["gpu_spec"].split("|")))
    ]
    assert 0 < len(asking) < len(pods)
    assert [job.name for job in made.round.jobs] == [pod["name"] for pod in asking]
    assert sum(host.gpus or 0 for host in made.round.cluster.hosts) == sum(
        int(node["gpu"]) for node in nodes
    )


def test_jobs_of_muri_ask_the_gpus_of_their_rows() -> None:
    asked = sum(int(row["num_gpu"]) for row in rows(MURI[0]))
    made = read_muri(*MURI)
    assert len(made.round.jobs) == 100
    assert sum(job.options[0].milli_gpu for job in made.round.jobs) == 1000 * asked


def test_jobs_of_chronus_have_deadlines_unless_they_are_best_effort() -> None:
    effort = [row["best_effort"] == "1" for row in rows(CHRONUS) if row["num_gpu"] != "0"]
    jobs = chronus_jobs(CHRONUS)
    assert sum(not job.due for job in jobs) == sum(effort) > 0
    assert len(jobs) == len(effort)


def test_deadlines_of_elasticflow_are_those_of_the_rows() -> None:
    due = sorted(int(row["deadline"]) for row in rows(ELASTICFLOW))
    assert sorted(job.due[0][0] for job in elasticflow_jobs(ELASTICFLOW)) == due


def test_links_between_regions_have_the_throughput_that_was_measured() -> None:
    made = read_wan(*WAN)
    assert made.round.geo is not None
    links = {(one.source, one.target): one for one in made.round.geo.links}
    assert len(links) == 6 * 5
    for row in rows(WAN[0]):
        link = links[row["src_region"], row["dst_region"]]
        assert link.bandwidth == pytest.approx(1000 * float(row["throughput_gbps"]), abs=1)
