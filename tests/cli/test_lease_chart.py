"""`placewright show`: the chart of leases, in the terminal and in a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from placewright.cli.views.deadline.chart import (
    Chart,
    Kind,
    chart_of,
    print_leases,
    ticks,
    unavailable_capacity,
)
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import write
from placewright.report.facts.promises import promises_of
from tests.cli import promising


def chart(round_: Round, plan: Plan) -> Chart:
    return chart_of(promises_of(round_, plan))


def drawn(shown: Chart, width: int = 80) -> list[str]:
    """Print a chart on a console of this width."""
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as capture:
        print_leases(console, shown)
    return capture.get().splitlines()


def test_a_job_has_a_row_with_its_leases_and_when_it_is_due():
    lines = drawn(chart(*promising.small()), 60)
    assert lines[0] == "6 leases of 20m from now; the cluster has 16 GPUs"
    assert [line.rstrip() for line in lines[-7:]] == [
        "                now         +1h00",
        "  soon        8 ████████████│",
        "  soft        8 ····▓▓▓▓····▓▓▓▓········│",
        "  batch       4 ▒▒▒▒",
        "  refused    16 ················│░░░░░░░",
        "  in use     16 ▆▆▆▆████▄▄▄▄▄▄▄▄",
        "  away        8         ▄▄▄▄▄▄▄▄",
    ]


def test_the_legend_names_what_is_drawn():
    legend = " ".join(" ".join(drawn(chart(*promising.small()))[1:3]).split())
    for kind in Kind:
        assert f" {kind}" in legend
    assert "│ due · waits" in legend
    round_, plan = promising.many(3)
    assert "later" not in " ".join(drawn(chart(round_, plan))[1:3])


def test_leases_too_many_for_a_line_share_cells_and_none_is_lost():
    round_ = promising.document(
        [promising.job("a", 8, 1, (2000, 9)), promising.job("b", 8, 99, (2000, 1))],
        leases={"horizon": 100},
    )
    plan = promising.planned(
        round_,
        {},
        jobs=[
            promising.promised("a", 2000, 9, 40, [1, 2]),
            promising.promised("b", 2000, 1, 2000, [1, 100]),
        ],
    )
    lines = drawn(chart(round_, plan), 60)
    assert "a cell is 2.33 leases" in lines[0]
    a, b = (next(line for line in lines if line.startswith(f"  {name} ")) for name in "ab")
    assert a.count("█") == 1
    assert b.count("█") == 43
    assert all(len(line) <= 60 for line in lines)


def test_the_last_lease_is_drawn_until_the_work_is_done():
    round_ = promising.document(
        [promising.job("a", 8, 1.5, (30, 9)), promising.job("b", 8, 3, (70, 9))]
    )
    plan = promising.planned(
        round_,
        {"a": ("a0", 0, 8)},
        jobs=[
            promising.promised("a", 30, 9, 30, [0, 2]),
            promising.promised("b", 70, 9, 60, [0, 3]),
        ],
    )
    lines = drawn(chart(round_, plan))
    assert "  a           8 ██████│" in [line.rstrip() for line in lines]
    assert "  b           8 ████████████··│" in [line.rstrip() for line in lines]


def test_due_times_far_beyond_the_last_lease_do_not_squeeze_the_chart():
    round_ = promising.document([promising.job("a", 8, 4, (900, 9))])
    plan = promising.planned(round_, {}, jobs=[promising.promised("a", 900, 9, 100, [1, 5])])
    shown = chart(round_, plan)
    assert shown.leases == 7
    assert any(line.endswith("████████████████········›") for line in drawn(shown))


@pytest.mark.parametrize("width", [30, 40, 80, 200])
def test_rows_fit_the_terminal(width):
    for round_, plan in (promising.small(), promising.many(300)):
        lines = drawn(chart(round_, plan), width)
        assert len(lines) > 8
        assert all(len(line) <= width for line in lines)


def test_many_jobs_become_a_stack_of_gpus_by_value():
    round_, plan = promising.many(320)
    shown = chart(round_, plan)
    assert shown.leases == 21
    assert [(band.least, band.most) for band in shown.bands] == [(6, 7), (4, 5), (2, 3), (1, 1)]
    total = sum(band.milli_gpu for band in shown.bands)
    assert total.tolist() == [0] + [16_000] * 20
    lines = drawn(shown, 100)
    assert "██ value 6 to 7   ▓▓ value 4 to 5   ▒▒ value 2 to 3   ░░ value 1   ··" in lines[1]
    grid = [line[6:] for line in lines[3:15]]
    # The first lease is free.
    assert all(line[:4] == "····" and "·" not in line[4:] for line in grid)
    assert grid[-1][4:12] == "████████"
    assert grid[0][4] in "▒░"
    assert any("promises due by time, at most 16 in a cell" in line for line in lines)


def test_a_stack_shows_who_is_away_and_best_effort_of_this_lease():
    round_, plan = promising.small()
    shown = chart(round_, plan)
    console = Console(width=80, highlight=False, markup=False)
    from placewright.cli.views.deadline import chart as lease_chart

    with console.capture() as capture, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease_chart, "MAX_JOBS", 1)
        print_leases(console, shown)
    lines = capture.get().splitlines()
    grid = [line[6:] for line in lines[-15:-3]]
    # Half of the cluster is away in two of six leases; a quarter of lease 0 is best effort.
    assert sum(line.count("×") for line in grid) == 6 * 8
    assert sum(line.count("+") for line in grid) == 3 * 4


def test_hosts_that_are_away_twice_are_counted_once():
    round_ = promising.document(
        [],
        leases={
            "horizon": 6,
            "outages": [
                {
                    "host": "a[0-1]",
                    "start": promising.NOW + promising.LEASE,
                    "end": promising.NOW + 3 * promising.LEASE,
                },
                {
                    "host": "a0",
                    "start": promising.NOW + 2 * promising.LEASE + 1,
                    "end": promising.NOW + 4 * promising.LEASE + 1,
                },
                {"host": "a0", "start": promising.NOW, "end": promising.NOW + promising.LEASE},
            ],
        },
    )
    total, away = unavailable_capacity(round_)
    assert total == 16_000
    assert away.tolist() == [8000, 16_000, 16_000, 8000, 8000, 0]


def test_times_are_round_and_far_enough_apart():
    shown = chart(*promising.many(320))
    assert ticks(shown, 1) == [1200 * i for i in range(21)]
    assert ticks(shown, 5) == [7200 * i for i in range(4)]
    assert ticks(shown, 100) == [0]


def test_a_plan_without_promises_has_a_chart_of_one_lease():
    round_ = promising.document([promising.job("batch", 4, 9)])
    plan = promising.planned(round_, {"batch": ("a0", 0, 4)})
    shown = chart(round_, plan)
    assert shown.leases == 1
    assert any(line.rstrip() == "  batch       4 ▒▒▒▒" for line in drawn(shown))
    empty = promising.document([])
    assert len(drawn(chart(empty, promising.planned(empty, {})))) >= 2


def test_where_there_are_no_gpus_only_due_times_are_stacked():
    round_ = promising.document(
        [promising.job(f"j{i}", 0, 1, (20 * i + 40, 1)) for i in range(50)],
        cluster={"hosts": [{"name": "a", "gpus": 0}]},
    )
    plan = promising.planned(
        round_,
        {},
        jobs=[
            promising.promised(f"j{i}", 20 * i + 40, 1, 20 * i + 40, [i + 1, i + 2])
            for i in range(49)
        ],
        refused=[{"job": "j49"}],
    )
    lines = drawn(chart(round_, plan))
    assert not any("×" in line for line in lines)
    assert lines[-1].endswith("at most 1 in a cell")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "round.json", tmp_path / "plan.json"
    for found, path in zip(promising.small(), paths, strict=True):
        write(found, path)
    return paths


def test_show_prints_map_chart_and_tables(run, files):
    result = run("show", files[0], "--plan", files[1])
    assert (result.code, result.err) == (0, "")
    places = [
        result.out.index(text)
        for text in ("2 promises, 1 refused", "6 leases of 20m", "Promises ", "Refused, and")
    ]
    assert places == sorted(places)
    assert "BROKEN" not in result.out


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_chart_is_part_of_the_picture(run, files, tmp_path, suffix):
    pictures = [tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"]
    for picture in pictures:
        assert run("show", files[0], "--plan", files[1], "-o", picture).code == 0
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    if suffix == ".svg":
        # Text is drawn as outlines, which come with the text as a comment.
        for text in (b"6 leases of 20m", b"soft  8", b"offered, but refused", b"+1h00"):
            assert text in first


def test_many_jobs_are_a_stack_in_the_picture(run, tmp_path):
    paths = tmp_path / "round.json", tmp_path / "plan.json", tmp_path / "plan.svg"
    for found, path in zip(promising.many(100), paths[:2], strict=True):
        write(found, path)
    assert run("show", paths[0], "--plan", paths[1], "-o", paths[2]).code == 0
    text = paths[2].read_text()
    for words in ("promised, value 6 to 7", "not promised", "promises due"):
        assert words in text


def test_a_large_round_is_laid_out_by_its_arrays():
    round_, plan = promising.many(4000)
    shown = chart(round_, plan)
    assert shown.leases == 251
    assert np.sum([band.milli_gpu.sum() for band in shown.bands]) == 4000 * 1000
    assert shown.due.sum() == 4000
