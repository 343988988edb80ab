"""The picture of a graph: every host, who has its GPUs, and the links between them."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.patches import Circle

from placewright import load_round, solve_round
from placewright.cli.views.gang.facts import occupancy_of
from placewright.cli.views.gang.graph_picture import MAX_HOSTS, draw_links
from placewright.instances.documents.round import Round
from placewright.instances.io.files import write
from tests.instances.test_library import LIBRARY


def test_a_picture_has_all_gpus_links_jobs_and_domains(tmp_path: Path) -> None:
    round_ = load_round(LIBRARY / "gpu-pairs.yaml")
    (axes,) = draw_links(occupancy_of(round_, solve_round(round_))).axes
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    assert len(circles) == 8
    assert len({circle.get_facecolor() for circle in circles}) == 6  # one colour for each job
    texts = [text.get_text() for text in axes.texts]
    assert {"h0", "double-0: 2 GPUs", "nvlink, 448 Gbit/s", "system, 176 Gbit/s"} <= set(texts)
    assert len(axes.lines) == 8 * 7 // 2 + 3  # links, and those of the legend


def test_domains_are_around_their_hosts_with_their_uplinks() -> None:
    document = {
        "cluster": {
            "levels": ["rack"],
            "domains": [
                {"name": "a", "level": "rack", "uplink_mbps": 25_000},
                {"name": "b", "level": "rack"},
            ],
            "hosts": [
                {"name": f"{r}[0-3]", "parent": r, "gpus": 4, "gpu_model": "X"} for r in "ab"
            ],
            "links": {"rack": {"bandwidth_mbps": 50_000, "latency_us": 1.0}},
        },
        "jobs": [],
    }
    (axes,) = draw_links(occupancy_of(Round.model_validate(document))).axes
    texts = {text.get_text() for text in axes.texts}
    assert {"rack a, uplink 25 Gbit/s", "rack b, uplink 50 Gbit/s", "a3", "b0"} <= texts
    assert not axes.lines  # nothing is known of links in hosts


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_show_draws_the_graph_of_a_plan(run, tmp_path: Path, suffix: str):
    source, plan = LIBRARY / "gpu-links-numa.yaml", tmp_path / "plan.json"
    write(solve_round(load_round(source)), plan)
    out = tmp_path / f"links.{suffix}"
    assert run("show", source, "--plan", plan, "--graph", "-o", out).code == 0
    assert out.stat().st_size > 5000


def test_more_hosts_than_can_be_read_are_refused(run, tmp_path: Path):
    cluster = {"hosts": [{"name": f"h[0-{MAX_HOSTS}]", "gpus": 1, "gpu_model": "X"}]}
    source = tmp_path / "round.json"
    write(Round.model_validate({"cluster": cluster, "jobs": []}), source)
    result = run("show", source, "--graph", "-o", tmp_path / "x.png")
    assert result.code == 2
    assert "257 hosts; expected at most 256" in " ".join(result.err.split())
