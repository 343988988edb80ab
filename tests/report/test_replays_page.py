"""The page of replays side by side: what stands on it, and that it loads and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placewright.report.replays import (
    distributions,
    interval_text,
    measure_text,
    nice_step,
    render_replays,
    series,
)
from placewright.rounds.replay.files import compare
from placewright.rounds.replay.measures import Interval
from tests.report import replayed

CHROMIUM = "/usr/bin/chromium"


def test_the_policy_of_the_page_allows_its_style_and_no_script(tmp_path):
    page = render_replays(replayed.compared(tmp_path, "fifo", "srsf"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    rules = policy[1].replace("&#39;", "'")
    assert f"style-src 'sha256-{digest}'" in rules
    assert "default-src 'none'" in rules
    assert "script-src" not in rules
    assert "<script" not in page
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\sstyle=|\son[a-z]+=", page)


def test_measures_charts_sizes_tenants_and_assumptions_stand_on_it(tmp_path):
    found = replayed.compared(tmp_path, "fifo", "srsf", "2d-las")
    page = render_replays(found)
    best = found.groups[1].value("jct_mean_s")
    assert best is not None
    assert f'<mark class="best">{best.mean:,.0f}<span' in page
    for text in (
        "Completion times",
        "Waiting times",
        "GPUs held",
        "Jobs waiting",
        "Finish-time fairness",
        "Fairness of shares",
        "Mean completion time by GPUs of a job",
        "Mean wait by tenant",
        "Assumptions of all",
        "first-fit",
    ):
        assert text in page
    assert page.count('<path class="line c2"') == 4 + 4
    assert "Assumptions that differ" not in page
    assert "paired by seed" not in page


def test_over_seeds_there_are_intervals_and_paired_differences(tmp_path):
    page = render_replays(replayed.compared(tmp_path, "fifo", "srsf", seeds=3))
    assert "Above fifo, paired by seed" in page
    assert " ± " in page
    assert "3 seeds" in page


def test_assumptions_that_differ_are_marked(tmp_path):
    one, other = (group.runs[0] for group in replayed.compared(tmp_path, "fifo", "srsf").groups)
    changed = replace(other, card={**other.card, "placer": "best-fit"})
    page = render_replays(compare([one, changed], any_card=True))
    assert '<mark class="differs">best-fit<' in page
    assert '<mark class="differs">srsf<' not in page


def test_hostile_names_are_text_and_nothing_else(tmp_path):
    hostile = replayed.HOSTILE
    page = render_replays(replayed.compared(tmp_path, "fifo", "srsf", name=hostile, tenant=hostile))
    plain = render_replays(replayed.compared(tmp_path / "plain", "fifo", "srsf"))
    tags = [re.findall(r"<[a-z/!]+", one) for one in (page, plain)]
    assert tags[0] == tags[1]
    assert all(c.isprintable() or c == "\n" for c in page)
    assert "\\u202e" in page


def test_a_distribution_steps_up_to_the_part_that_ended():
    chart = distributions("t", "n", [np.array([1.0, 100.0]), np.array([])], [4, 4])
    [line] = chart.lines
    top, bottom = chart.up[-1].at, chart.up[0].at
    assert chart.across[-1].text == "1 min"
    heights = [float(one) for one in re.findall(r"V([0-9.]+)", line.path)]
    assert heights == pytest.approx([bottom - (bottom - top) / 4, (bottom + top) / 2], abs=0.1)
    assert distributions("t", "n", [np.zeros(3)], [3]).lines[0].number == 0


def test_a_long_series_is_thinned_to_means():
    at = np.arange(1000) * 3600.0
    [line] = series("t", "n", [at], [np.full(1000, 5.0)]).lines
    points = [tuple(map(float, one.split(","))) for one in line.path[1:].split("L")]
    assert len(points) <= 400
    assert len({height for _, height in points}) == 1
    assert series("t", "n", [np.array([])], [np.array([])]).lines == ()


@pytest.mark.parametrize(
    ("least", "step"), [(0, 1), (0.3, 0.5), (1, 1), (1.01, 2), (2.2, 2.5), (6, 10), (16, 20)]
)
def test_steps_of_an_axis_are_round(least, step):
    assert nice_step(least) == pytest.approx(step)


def test_measures_are_written_in_their_units():
    assert measure_text("jct_mean_s", 193081.796) == "193,082"
    assert measure_text("allocation", 0.8152) == "81.5 %"
    assert measure_text("gap_mean", 0.00002) == "2.0e-05"
    assert interval_text("stops_per_job", Interval(0.5, 0.25)) == "0.50 ± 0.25"
    assert interval_text("jobs", Interval(5, float("inf"))) == "5"
    assert interval_text("jobs", None) == "-"


@pytest.mark.nightly(after=1)
@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 500])
def test_in_chromium_it_asks_for_nothing_and_fits_the_window(tmp_path: Path, width: int):
    from playwright.sync_api import sync_playwright

    many = ("fifo", "fit-first", "easy", "sjf", "srtf", "srsf", "2d-las", "qssf", "edf")
    hostile = replayed.HOSTILE
    file = tmp_path / "policies.html"
    file.write_text(
        render_replays(replayed.compared(tmp_path, *many, seeds=2, name=hostile, tenant=hostile))
    )
    asked: list[str] = []
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page: Any = browser.new_page(viewport={"width": width, "height": 900})
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda said: wrong.append(said.text))
        page.goto(file.as_uri())
        assert page.title().startswith("Placewright: policies on </title>")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        drawn = page.evaluate(
            "[...document.querySelectorAll('.chart .line')].map(e => e.getBBox()).filter("
            "b => b.x < 51 || b.x + b.width > 627 || b.y < 9 || b.y + b.height > 233).length"
        )
        colours = page.evaluate(
            "new Set([...document.querySelectorAll('.legend .line')].map(e =>"
            " getComputedStyle(e).stroke + getComputedStyle(e).strokeDasharray)).size"
        )
        browser.close()
    assert asked == [file.as_uri()]
    assert not wrong
    assert drawn == 0
    assert colours == len(many)
