"""What `placewright solve` and `show` print of regions and data."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from placewright.cli.views.geo.chart import print_regions
from placewright.cli.views.geo.tables import print_region_tables
from placewright.cli.views.tables import document_text, print_plan
from placewright.instances.documents.plan import Certificate, Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.report.facts.regions import ChangeKind, RegionPlan, region_plan_of
from placewright.report.text import gib, load, percent, term_text
from tests.cli import promising, regional

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def facts_of(round_: Round, plan: Plan | None) -> RegionPlan:
    return region_plan_of(round_, plan)


def printed(round_: Round, plan: Plan, width: int = 120) -> str:
    """Print the tables of regions on a console of this width."""
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as capture:
        print_region_tables(console, facts_of(round_, plan))
    return capture.get()


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_round_of_another_policy_has_no_regions():
    round_, _ = promising.small()
    assert "region" not in document_text(round_)


def test_pending_jobs_are_counted_where_most_of_their_data_is():
    facts = facts_of(*regional.slow())
    names = [*facts.regions.names, None]
    counted = {place.job: (names[place.before], names[place.after]) for place in facts.places}
    assert counted == {
        "train": ("east", "west"),
        "tune": ("east", "west"),
        "serve": ("east", "east"),
        "read": ("east", "south"),  # Both hold as much of it: the first one.
        "orphan": (None, None),
        "free": (None, "south"),
    }
    assert facts.before.tolist() == [22_000, 0, 0]
    assert facts.after.tolist() == [8000, 3000, 12_000]


def test_unhealthy_and_reserved_gpus_are_no_supply():
    round_, _ = regional.fast()
    raw = round_.model_dump()
    raw["cluster"]["hosts"][1]["healthy"] = False
    raw["reservations"] = [{"host": "w0", "gpus": [0, 1]}, {"host": "w1"}]
    regions = facts_of(Round.model_validate(raw), None).regions
    assert regions.gpus.tolist() == [8000, 0, 6000]


def test_replicas_are_created_moved_and_dropped_in_order():
    facts = facts_of(*regional.slow())
    assert [(c.kind, c.dataset, c.region, c.other) for c in facts.changes] == [
        (ChangeKind.DROPPED, "books", "east", None),
        (ChangeKind.CREATED, "web", "west", None),
        (ChangeKind.MOVED, "code", "south", "east"),
        (ChangeKind.DROPPED, "code", "east", "south"),
    ]
    web = facts.changes[1]
    assert web.sources == ("east",)
    assert web.paths == (("east", "west"), ("east", "south", "west"))
    assert facts.stored.tolist() == [1024, 1024, 1024]
    lines = rows(printed(*regional.slow()))
    for row in (
        "created 1 1 TiB",
        "moved 1 512 GiB",
        "dropped 1 512 GiB",
        "1 books dropped 512 GiB east - now now",
        "2 web created 1 TiB west east > west and 1 more now +5h00",
        "3 code moved from east 512 GiB south east > south +2h00 +6h40",
        "4 code dropped, moved to south 512 GiB east - +6h40 +6h40",
    ):
        assert row in lines


def test_load_storage_and_links_have_a_row_each():
    lines = rows(printed(*regional.slow()))
    for row in (
        "east 8 22 8 2.75 1.00 0",
        "west 16 0 12 0.00 0.75 0",
        "all 3 32 22 23 0.69 0.72 0",
        "east 2 TiB 1 TiB 4 TiB 25 % 0 GiB",
        "west 0 GiB 1 TiB - - 512 GiB",
        "east west 1 768 GiB 1 TiB 75 %",
        "south west 1 256 GiB 9.82 TiB 2.55 %",
        "tune 4 east west H100 512 GiB",
    ):
        assert row in lines


def test_a_region_short_of_one_model_says_so():
    round_, plan = regional.slow()
    raw = plan.model_dump()
    for home in raw["sections"][0]["homes"]:
        home["region"], home["gpu_model"] = "east", "H100"
    lines = rows(printed(round_, Plan.model_validate(raw)))
    assert "east 8 22 23 2.75 2.88 15" in lines


def test_the_hottest_region_comes_with_its_bound():
    round_, plan = regional.slow()
    term = TermResult(
        name="hottest", sense="min", value=1000, bound=975.0, proof="certified", certified=975.0
    )
    certificate = Certificate(
        status="feasible", gap=None, terms=(term,), backend="none", versions={}, seed=0
    )
    text = printed(round_, plan.model_copy(update={"certificate": certificate}))
    line = (
        "2.75 in east before, 1.00 in east after; certified bound 0.975, given the terms before it"
    )
    assert f"Hottest region, GPUs asked over GPUs there: {line}\n" in text


def test_jobs_that_nothing_can_be_done_for_are_named():
    text = printed(*regional.slow())
    assert "Counted in no region before: 2 jobs asking 5 GPUs, since no region has" in text
    assert "Without a home, since they can run nowhere: orphan asking 4 GPUs" in text


def test_reads_over_links_are_counted_and_paid():
    facts = facts_of(*regional.fast())
    assert facts.remote.tolist() == [0, 0, 512]
    assert facts.cost.tolist() == [12_000_000, 12_000_000, 0]
    text = printed(*regional.fast())
    lines = rows(text)
    for row in (
        "south west 1 512 GiB 9.82 TiB 5.09 % $1.02",
        "east 8 30 6 6 0.75 24 0 GiB $12.00",
        "all 3 32 42 6 18 0.56 24 512 GiB $24.00",
    ):
        assert row in lines
    assert "Replicas" not in text


def test_a_job_that_waits_for_data_says_when_and_where():
    text = printed(*regional.fast())
    assert "Waiting for data: 1 job asking 8 GPUs" in text
    assert "soon 8 west +1h30 web" in rows(text)


def test_a_copy_that_is_complete_is_local_under_geo():
    round_, plan = regional.fast()
    raw = round_.model_dump()
    raw["geo"]["copying"] = [{"dataset": "books", "region": "west", "ready": regional.NOW}]
    assert facts_of(Round.model_validate(raw), plan).remote.tolist() == [0, 0, 0]


@pytest.mark.parametrize("made", ["slow", "fast"])
@pytest.mark.parametrize("width", [40, 80])
def test_the_whole_plan_fits_a_narrow_terminal(made, width):
    round_, plan = getattr(regional, made)()
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as capture:
        print_plan(console, round_, plan)
    lines = capture.get().splitlines()
    assert all(len(line) <= width for line in lines if "─" in line)
    # Nobody starts or waits where data is placed, so there are homes in place of jobs.
    for title in ("Decisions", "Waiting jobs", "Started and kept jobs"):
        assert any(line.startswith(title) for line in lines) == (made == "fast"), title


def test_long_lists_are_cut_with_a_count():
    names = [f"d{i}" for i in range(30)]
    round_ = regional.document(
        "replicas",
        [regional.job(f"j{i}", 1, name) for i, name in enumerate(names)],
        datasets=[{"name": name, "size": 1, "replicas": ["east"]} for name in names],
    )
    plan = Plan.model_validate(
        {
            "decisions": [{"job": j.name, "decision": "wait"} for j in round_.jobs],
            "sections": [
                {
                    "kind": "replicas",
                    "creates": [
                        {"dataset": name, "region": "west", "ready": regional.at(1)}
                        for name in names
                    ],
                    "homes": [
                        {"job": j.name, "region": "west", "gpu_model": "H100"} for j in round_.jobs
                    ],
                },
                {
                    "kind": "flows",
                    "flows": [
                        {
                            "dataset": name,
                            "path": ["east", "west"],
                            "gib": 1,
                            "start": regional.NOW,
                            "end": regional.at(1),
                        }
                        for name in names
                    ],
                },
            ],
        }
    )
    text = printed(round_, plan)
    assert "... and 10 more changes" in text
    assert "New homes: 30 jobs asking 30 GPUs" in text
    assert "... and 10 more jobs" in text


def test_the_page_shows_what_is_printed():
    section = PAGE.read_text().partition("### Regions\n")[2].partition("\n## ")[0]
    console = Console(width=100, highlight=False, markup=False)
    with console.capture() as capture:
        print_regions(console, facts_of(*regional.slow()))
    shown = {line.strip() for line in capture.get().splitlines()}
    assert {line.strip() for line in section.splitlines() if line.startswith("    ")} <= shown


def test_parts_beyond_a_thousand_percent_and_loads_are_plain_numbers():
    assert [percent(part) for part in (0.5, 9.9, 26.54)] == ["50 %", "990 %", "2,654 %"]
    assert [load(*pair) for pair in ((2630, 1000), (0, 5), (5, 0), (0, 0))] == [
        "2.63",
        "0.00",
        "no GPUs",
        "-",
    ]
    assert [gib(amount) for amount in (0, 1023, 1024, 190_331, 3 * 2**20)] == [
        "0 GiB",
        "1,023 GiB",
        "1 TiB",
        "186 TiB",
        "3 PiB",
    ]
    assert [term_text("hottest", 2630), term_text("gpu_cost", 1_234_560_000)] == [
        "2.630",
        "$1,234.56",
    ]
