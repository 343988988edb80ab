"""`placewright show`: regions and links, in the terminal and in a picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from placewright.cli.views.geo import chart
from placewright.cli.views.geo.chart import print_regions
from placewright.cli.views.geo.picture import positions
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.io.files import write
from placewright.instances.verify import verify
from placewright.report.facts.regions import RegionPlan, region_plan_of, regions_of
from tests.cli import regional

LIBRARY = Path(__file__).parents[2] / "instances" / "library"


def facts_of(round_: Round, plan: Plan | None) -> RegionPlan:
    facts = region_plan_of(round_, plan)
    assert facts is not None
    return facts


def drawn(round_: Round, plan: Plan | None, width: int = 100, **console: object) -> list[str]:
    """Print regions on a console of this width."""
    made = Console(width=width, highlight=False, markup=False, **console)
    with made.capture() as capture:
        print_regions(made, facts_of(round_, plan))
    return capture.get().splitlines()


@pytest.fixture(params=["slow", "fast"])
def files(request, tmp_path: Path) -> tuple[Path, Path]:
    """A round and a plan of each policy."""
    paths = tmp_path / "round.json", tmp_path / "plan.json"
    for found, path in zip(getattr(regional, request.param)(), paths, strict=True):
        write(found, path)
    return paths


@pytest.mark.parametrize("made", ["slow", "fast"])
def test_the_plans_that_are_drawn_here_are_valid(made):
    assert verify(*getattr(regional, made)()).violations == ()


def test_regions_have_a_bar_before_and_after():
    lines = drawn(*regional.slow(), 80)
    assert lines[0] == "Load of regions, GPUs asked over GPUs there"
    assert lines[4:7] == [
        "  east        8     2.75 ███████│▓▓▓▓▓▓▓▓▓▓▓▓▓     1.00 ███████│",
        "  south       8     0.00        │                  0.38 ███    │",
        "  west       16     0.00        │                  0.75 █████  │",
    ]


def test_a_round_alone_has_what_is_asked_and_how_wide_links_are():
    lines = drawn(regional.fast()[0], None)
    assert lines[0] == "Load of regions, GPUs asked over GPUs there"
    assert not any("after" in line for line in lines)
    # Running and waiting jobs ask 30 GPUs of the region that has their data.
    assert "  east        8     3.75 ████████│▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓" in lines
    assert "Bandwidth of links, as a part of 1,000 Mbit/s" in lines
    assert lines[-4:-1] == ["  1 east        █ ▒", "  2 south     █   █", "  3 west"]


def test_links_are_a_grid_of_the_budgets_that_copies_take():
    lines = drawn(*regional.slow())
    assert "Copies over links (1.75 TiB), as a part of their budgets" in lines
    assert lines[-5:-1] == [
        "              1 2 3",
        "  1 east        ▒ ▓",
        "  2 south     ·   ░",
        "  3 west",
    ]


def test_reads_are_a_grid_of_their_own():
    lines = drawn(*regional.fast())
    assert "Reads over links (512 GiB), as a part of what they carry" in lines
    assert lines[-3] == "  2 south     ·   ░"


def test_more_read_than_a_link_carries_stands_out():
    round_, plan = regional.fast()
    raw = round_.model_dump()
    raw["geo"]["links"][2]["bandwidth"] = 1
    lines = drawn(Round.model_validate(raw), plan)
    assert any("! above 100 %" in line for line in lines)
    assert lines[-3] == "  2 south     ·   !"


def test_a_region_without_gpus_has_a_bar_that_never_ends():
    round_, plan = regional.slow()
    raw = round_.model_dump()
    raw["cluster"]["hosts"][0]["healthy"] = False
    lines = drawn(Round.model_validate(raw), plan)
    east = next(line for line in lines if line.startswith("  east"))
    assert east.count("no GPUs") == 2
    assert east.count("›") == 2


@pytest.mark.parametrize("width", [30, 44, 60, 80, 200])
def test_rows_fit_the_terminal(width):
    rounds = (regional.slow(), regional.fast(), (regional.slow()[0], None))
    for round_, plan in rounds:
        lines = [line for line in drawn(round_, plan, width) if line.startswith("  ")]
        assert len(lines) >= 6
        assert all(len(line) <= width for line in lines)
    many = generate(regions=30, datasets=60, jobs=400, gpus=960)
    lines = [line for line in drawn(many, None, width) if line.startswith("  ")]
    assert all(len(line) <= width for line in lines)
    assert any("too many regions to draw here" in line for line in drawn(many, None, width)) == (
        width < 50
    )


def test_more_regions_than_rows_are_counted(monkeypatch):
    monkeypatch.setattr(chart, "MAX_REGIONS", 2)
    lines = drawn(*regional.slow())
    assert "... and 1 more region" in lines
    assert not any(line.startswith("  west") for line in lines)


@pytest.mark.parametrize("bare", [False, True])
def test_colours_go_with_no_color(monkeypatch, bare):
    if bare:
        monkeypatch.setenv("NO_COLOR", "1")
    lines = drawn(*regional.slow(), force_terminal=True, color_system="truecolor")
    assert any("\x1b[38;2;213;94;0m" in line for line in lines) is not bare


def test_show_prints_regions_and_tables(run, files):
    result = run("show", files[0], "--plan", files[1])
    assert (result.code, result.err) == (0, "")
    slow = "1 replica created" in result.out or "replicas created" in result.out
    assert slow or "1 waiting for data" in result.out
    # Where data lives says nothing of hosts.
    assert ("held by nobody" in result.out) is not slow
    places = [result.out.index(text) for text in ("Load of regions", "GPUs by region")]
    assert places == sorted(places)
    alone = run("show", files[0])
    assert (alone.code, alone.err) == (0, "")
    assert "4 datasets of" in alone.out
    assert "Bandwidth of links" in alone.out


def test_a_round_names_its_regions_and_datasets(run, tmp_path):
    round_, _ = regional.fast()
    raw = round_.model_dump()
    raw["geo"]["datasets"][1]["regions"] = ("east", "south")
    write(Round.model_validate(raw), tmp_path / "round.json")
    lines = [
        " ".join(line.split()) for line in run("show", tmp_path / "round.json").out.splitlines()
    ]
    for row in (
        "region A100 H100 asked load replicas stored limit",
        "east 0 8 30 3.75 2 1.5 TiB 4 TiB",
        # A copy under way takes storage already.
        "west 0 16 0 0.00 0 1 TiB -",
        "web 1 TiB east west - 3 22 1.5 TiB",
        "code 512 GiB east - east and south 1 8 100 GiB",
        "lost 64 GiB - - - 0 0 0 GiB",
    ):
        assert row in lines


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mast-replicas", "1 web created 10 GiB west east > west and 1 more now"),
        ("mast-regions", "nightly 4 west +1h00 news"),
    ],
)
def test_a_round_is_checked_solved_verified_and_drawn(run, tmp_path, name, says):
    round_, plan, picture = LIBRARY / f"{name}.yaml", tmp_path / "plan.json", tmp_path / "plan.svg"
    assert "3 regions" in run("validate", round_).out
    solved = run("solve", round_, "-o", plan)
    assert (solved.code, solved.err) == (0, f"wrote {plan}\n")
    shown = run("show", plan, "--round", round_)
    assert (shown.code, shown.err) == (0, "")
    for printed in (solved.out, shown.out):
        assert any(" ".join(line.split()).startswith(says) for line in printed.splitlines())
    assert run("verify", round_, plan).code == 0
    assert run("show", round_, "--plan", plan, "-o", picture) == (0, "", f"wrote {picture}\n")
    assert "after: at most 1.00" in picture.read_text()


def test_json_is_the_plan_and_nothing_else(run):
    result = run("solve", LIBRARY / "mast-replicas.yaml", "--format", "json")
    assert result.code == 0
    assert {section["kind"] for section in json.loads(result.out)["sections"]} == {
        "replicas",
        "flows",
    }


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_regions_are_part_of_the_picture(run, files, tmp_path, suffix):
    pictures = [tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"]
    for picture in pictures:
        assert run("show", files[0], "--plan", files[1], "-o", picture).code == 0
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    if suffix == ".svg":
        # Text is drawn as outlines, which come with the text as a comment.
        for text in (b"before: at most", b"after: at most 1.00", b"widest links", b"load up to"):
            assert text in first
        assert (b"a cell is one GPU" in first) is (b"GPUs held over" in first)
    assert run("show", files[0], "-o", pictures[0]) == (0, "", f"wrote {pictures[0]}\n")
    assert b"after: at most" not in pictures[0].read_bytes()


def boxes_of(count: int) -> np.ndarray:
    return np.tile([0.8, 0.7], (count, 1))


@pytest.mark.parametrize("seed", range(3))
def test_thirty_regions_do_not_overlap(seed):
    round_ = generate(regions=30, datasets=60, jobs=400, gpus=960, seed=seed)
    regions, boxes = regions_of(round_), boxes_of(30)
    centres = positions(regions, 9.0, 7.5, boxes)
    apart = np.abs(centres[:, None] - centres[None, :])
    overlap = (apart < boxes - 1e-3).all(axis=2)
    np.fill_diagonal(overlap, False)
    assert not overlap.any()
    assert (centres >= boxes / 2 - 1e-9).all()
    assert (centres <= [9.0, 7.5] - boxes / 2 + 1e-9).all()


def test_regions_far_from_each_other_lie_far_apart():
    raw = regional.slow()[0].model_dump()
    for link in raw["geo"]["links"]:
        link["rtt_us"] = 1000 if "west" not in (link["source"], link["target"]) else 200_000
    regions = regions_of(Round.model_validate(raw))
    east, south, west = positions(regions, 9.0, 9.0, boxes_of(3))
    near, *far = (np.linalg.norm(a - b) for a, b in ((east, south), (east, west), (south, west)))
    assert near < min(far)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_regions_without_times_lie_on_a_circle(count):
    names = [f"r{i}" for i in range(count)]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"level": "region", "name": name} for name in names],
                "hosts": [{"name": f"{name}-h", "parent": name, "gpus": 0} for name in names],
            },
            "policy": {"formulation": "replicas"},
        }
    )
    centres = positions(regions_of(round_), 6.0, 6.0, boxes_of(count))
    assert len({tuple(centre) for centre in centres.round(3)}) == count
    assert drawn(round_, None)[0].startswith("Load of regions")
