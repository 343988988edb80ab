"""Facts of maps: parts of GPUs, conditions, marks, where cells lie, and what fills them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from examples import examples
from placewright.cli.views.gang.chart import (
    CONDITIONS,
    Entry,
    free_style,
    job_style,
    legend_of,
    print_map,
)
from placewright.cli.views.gang.facts import (
    ALONE,
    NO_SLOT,
    Held,
    SharingKind,
    Use,
    occupancy_of,
    parts_of,
)
from placewright.cli.views.gang.layout import layout_of
from placewright.cli.views.gang.picture import (
    PAPER,
    bars_of,
    columns_of,
    draw_map,
    joined,
    marks_of,
)
from placewright.instances.derived.arrays import build_cluster, build_state
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_cluster, generate_round
from placewright.instances.io.files import load_plan, load_round, write
from placewright.report.facts.jobs import Condition

LIBRARY = Path(__file__).parents[2] / "instances" / "library"


def task(gpu: int, job: int, milli: int, *, turns: int = ALONE, arrives: bool = True) -> Held:
    return Held(gpu, NO_SLOT, turns, arrives, job, milli, 0)


def rectangles(parts):
    """Return GPU, job and sides of each part."""
    sides = (parts.left, parts.right, parts.low, parts.high)
    columns = (parts.gpu, parts.job, *(np.round(side, 3) for side in sides))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def moved(moving):
    return occupancy_of(load_round(moving[0]), load_plan(moving[1]))


def test_shares_of_a_gpu_are_stacked_in_proportion_with_what_stays_below():
    parts = parts_of([task(0, 0, 500), task(0, 2, 250, arrives=False), task(0, 1, 250)])
    assert rectangles(parts) == [
        (0, 2, 0.0, 1.0, 0.0, 0.25),
        (0, 0, 0.0, 1.0, 0.25, 0.75),
        (0, 1, 0.0, 1.0, 0.75, 1.0),
    ]
    assert parts.sharing == (SharingKind.SHARES,)
    assert parts.used(2).tolist() == [1000, 0]


def test_slices_lie_at_their_memory_slices():
    parts = parts_of([Held(0, 4, ALONE, True, 0, 428, 4), Held(0, 1, ALONE, True, 1, 142, 1)])
    assert rectangles(parts) == [(0, 1, 0.0, 1.0, 0.125, 0.25), (0, 0, 0.0, 1.0, 0.5, 1.0)]
    assert parts.sharing == (SharingKind.SLICES,)
    assert parts.used(1).tolist() == [570]


def test_jobs_that_take_turns_stand_side_by_side_and_hold_the_gpu_once():
    parts = parts_of([task(0, job, 1000, turns=7) for job in range(4)])
    assert rectangles(parts) == [(0, j, j / 4, (j + 1) / 4, 0.0, 1.0) for j in range(4)]
    assert parts.sharing == (SharingKind.TURNS,)
    assert parts.used(1).tolist() == [1000]


@settings(max_examples=examples(day=15, nightly=50))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300)), max_size=12))
def test_parts_of_a_gpu_never_overlap(shares):
    held, used = [], [0] * 4
    for job, (gpu, milli) in enumerate(shares):
        if used[gpu] + milli <= 1000:
            held.append(task(gpu, job, milli))
            used[gpu] += milli
    parts = parts_of(held)
    assert parts.used(4).tolist() == used
    assert np.allclose((parts.high - parts.low) * 1000, parts.milli)
    for gpu in range(4):
        here = parts.gpu == gpu
        assert np.allclose(parts.low[here][1:], parts.high[here][:-1])


def test_no_parts_are_held_by_nobody():
    assert parts_of([]).used(3).tolist() == [0, 0, 0]


def test_moves_are_seen_before_and_after(moving):
    occupancy = moved(moving)
    assert occupancy.before is not None
    assert occupancy.before.used(16).reshape(4, 4).sum(axis=1).tolist() == [4000, 4000, 2000, 1000]
    assert occupancy.used.reshape(4, 4).sum(axis=1).tolist() == [4000, 3000, 3000, 1000]
    assert occupancy.free.sum() == 5000
    assert [(job.name, job.use, job.mark) for job in occupancy.jobs] == [
        ("gang", Use.STARTED, "A"),
        ("train", Use.MIGRATED, "B"),
        ("left", Use.MIGRATED, "C"),
        ("right", Use.MIGRATED, "D"),
        ("low", Use.PREEMPTED, "a"),
        ("serve", Use.KEPT, "b"),
    ]


def test_a_round_alone_has_no_before():
    occupancy = occupancy_of(generate_round(64, 8, seed=1))
    assert occupancy.before is None
    assert {job.use for job in occupancy.jobs} == {Use.RUNNING}


def test_marks_are_given_to_the_largest_jobs_and_to_nobody_twice():
    occupancy = occupancy_of(generate_round(512, 8, seed=1))
    marks = [job.mark for job in occupancy.jobs]
    given_ = [mark for mark in marks if mark]
    assert len(set(given_)) == len(given_) == 24
    assert marks[:24] == given_
    sizes = [job.milli_gpu for job in occupancy.jobs]
    assert sizes == sorted(sizes, reverse=True)


@pytest.fixture
def unusable() -> Round:
    """A round with a host of each condition, and one of which one GPU is reserved."""
    hosts = [
        {"name": "h[0-3]", "gpus": 2, "gpu_model": "T4"},
        {"name": "h4", "gpus": 2, "gpu_model": "T4", "healthy": False},
    ]
    job = {
        "name": "j",
        "options": [{"groups": [{"gpu": 1}]}],
        "running": {"tasks": [{"host": "h2", "gpus": [0]}]},
    }
    return Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "jobs": [job],
            "reservations": [{"host": "h1"}, {"host": "h3", "gpus": [1]}],
            "policy": {"terms": ["remaining", "value"], "vacate": ["h2", "h4"]},
        }
    )


def test_conditions_of_hosts_and_gpus(unusable):
    occupancy = occupancy_of(unusable)
    assert [Condition(c).word for c in occupancy.host_condition] == [
        "available",
        "reserved",
        "to vacate",
        "available",
        "unhealthy",
    ]
    assert occupancy.gpu_condition.tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 4, 4]
    # Nothing may arrive on what is reserved or is to be vacated.
    assert occupancy.free.tolist() == [1000, 1000, 0, 0, 0, 0, 1000, 0, 0, 0]
    named = [entry.text for entry in legend_of(occupancy, 24)]
    assert named[-3:] == ["reserved", "to vacate", "unhealthy"]


def test_conditions_fill_the_gpus_that_nobody_holds(unusable):
    occupancy = occupancy_of(unusable)
    layout = layout_of(occupancy.cluster, *PAPER)
    bars = bars_of(occupancy, occupancy.parts, layout)
    backs = [bars.styles[style] for style in bars.style[:10]]
    for gpu, condition in enumerate(occupancy.gpu_condition.tolist()):
        assert (backs[gpu] == CONDITIONS.get(condition)) is (condition != Condition.AVAILABLE)
    # The running job lies above.
    assert (bars.cell[10:].tolist(), bars.job[10:].tolist()) == ([4], [0])


def test_tree_and_map_name_conditions(run, unusable, tmp_path, first_fit):
    paths = tmp_path / "round.json", tmp_path / "plan.json"
    write(unusable, paths[0])
    write(first_fit(unusable), paths[1])
    tree = run("show", paths[0]).out
    assert "3 free; 1 job running" in tree
    for line in (
        "h0  2 T4, 2 free\n",
        "h1  2 T4, 0 free, reserved",
        "h2  2 T4, 0 free, to vacate",
        "h3  2 T4, 1 free, 1 GPU reserved",
        "h4  2 T4, 0 free, unhealthy",
    ):
        assert line in tree
    map_ = run("show", *paths[:1], "--plan", paths[1]).out
    for row in ("h1 ▒▒ reserved", "h2 a░ to vacate", "h3 ·▒", "h4 ×× unhealthy"):
        assert row in map_


def test_the_bars_of_a_job_touch_and_have_one_mark(moving):
    occupancy = moved(moving)
    layout = layout_of(occupancy.cluster, *PAPER)
    bars = bars_of(occupancy, occupancy.parts, layout)
    left, right = joined(bars, layout)
    gang = bars.job == 0
    assert left[gang].tolist() == [False, True, True, True]
    assert right[gang].tolist() == [True, True, True, False]
    assert not (left | right)[bars.job < 0].any()
    marks = [bars.styles[mark.style].mark for mark in marks_of(bars, layout)]
    assert sorted(marks) == ["A", "B", "B", "C", "D", "b"]
    (gang_mark,) = (m for m in marks_of(bars, layout) if bars.styles[m.style].mark == "A")
    assert gang_mark.width == 4
    assert gang_mark.height == 1


def test_cells_of_many_gpus_stack_what_their_jobs_hold():
    round_ = generate_round(16_384, 8, seed=1)
    occupancy = occupancy_of(round_)
    layout = layout_of(occupancy.cluster, *PAPER)
    assert layout.level == "host"
    bars = bars_of(occupancy, occupancy.parts, layout)
    cells = layout.x.size
    heights = bars.high - bars.low
    assert np.allclose(np.bincount(bars.cell, weights=heights, minlength=cells), 1)
    held = bars.job >= 0
    used = np.bincount(layout.cell_of_gpu, weights=occupancy.used, minlength=cells)
    stacked = np.bincount(bars.cell[held], weights=heights[held], minlength=cells)
    assert np.allclose(stacked * 8000, used)
    for low, high in zip(bars.low, bars.high, strict=True):
        assert 0 <= low < high <= 1 + 1e-9


@pytest.mark.parametrize(
    ("num_gpus", "level"),
    [(64, "GPU"), (4096, "GPU"), (16_384, "host"), (32_768, "host"), (800_000, "block")],
)
def test_a_cell_is_of_the_deepest_level_that_can_be_read(num_gpus, level):
    layout = layout_of(build_cluster(generate_cluster(num_gpus)), *PAPER)
    assert layout.level == level
    assert layout.cell_of_gpu.size == num_gpus
    assert layout.cell >= 0.085
    assert layout.width * layout.cell <= PAPER[0] + 1e-9
    assert layout.height * layout.cell <= PAPER[1] + 1e-9


@pytest.mark.parametrize(
    ("hosts", "level"),
    [(1000, "GPU"), (4000, "host"), (20_000, "run of 2 hosts"), (60_000, "run of 6 hosts")],
)
def test_a_picture_of_hosts_without_levels_is_no_larger(hosts, level):
    entry = {"name": f"h[00000-{hosts - 1}]", "gpus": 1, "gpu_model": "A"}
    layout = layout_of(build_cluster(ClusterDocument.model_validate({"hosts": [entry]})), *PAPER)
    assert layout.level == level
    assert layout.cell_of_gpu.max() == layout.x.size - 1
    corners = np.stack([layout.x, layout.y], axis=1)
    assert len(np.unique(corners, axis=0)) == layout.x.size


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 400))
def test_cells_never_overlap_and_racks_stay_together(hosts):
    cluster = build_cluster(generate_cluster(8 * hosts))
    layout = layout_of(cluster, *PAPER)
    cells = np.stack([layout.x, layout.y], axis=1).round(6)
    assert len(np.unique(cells, axis=0)) == len(cells)
    assert (layout.x >= 0).all()
    assert (layout.y >= 0).all()
    assert (layout.x + 1 <= layout.width + 1e-9).all()
    assert (layout.y + 1 <= layout.height + 1e-9).all()
    rack = np.repeat(cluster.domain[-2], cluster.gpu_count)
    for label, members in zip(layout.titles, np.arange(len(cluster.names[-2])), strict=True):
        assert label.text == cluster.names[-2][members]
        assert layout.x[rack == members].min() > label.x
        assert layout.y[rack == members].min() == pytest.approx(label.y)
    # The name of a host stands at the left of its row.
    for host, label in enumerate(layout.names):
        row = layout.row == host
        assert label.y == layout.y[row][0] + 0.5
        assert layout.x[row].min() - 1 < label.x < layout.x[row].min()


def test_a_long_rack_folds_into_columns_that_keep_their_names():
    raw = {
        "levels": ["region"],
        "domains": [{"name": f"r{i}", "level": "region"} for i in range(10)],
        "hosts": [
            {"name": f"r{i}-h[000-061]", "parent": f"r{i}", "gpus": 8, "gpu_model": "A"}
            for i in range(10)
        ],
    }
    layout = layout_of(build_cluster(ClusterDocument.model_validate(raw)), *PAPER)
    assert layout.level == "GPU"
    assert layout.names[0].text == "h000"
    assert 0.8 < layout.width / layout.height < 3


@pytest.mark.parametrize(("gpus", "most"), [(2, 3.0), (16, 4.0), (64, 6.0)])
def test_the_picture_of_a_small_cluster_is_small(gpus, most):
    entry = {"name": f"h[0-{max(gpus // 8, 1) - 1}]", "gpus": min(gpus, 8), "gpu_model": "A"}
    width, height = draw_map(
        occupancy_of(Round.model_validate({"cluster": {"hosts": [entry]}}))
    ).get_size_inches()
    assert width <= most
    assert height <= most


def test_the_picture_of_ten_regions_fits_a_page():
    raw = {
        "levels": ["region"],
        "domains": [{"name": f"r{i}", "level": "region"} for i in range(10)],
        "hosts": [
            {"name": f"r{i}-h[000-061]", "parent": f"r{i}", "gpus": 8, "gpu_model": "A"}
            for i in range(10)
        ],
    }
    round_ = Round.model_validate({"cluster": raw})
    width, height = draw_map(occupancy_of(round_)).get_size_inches()
    assert width <= PAPER[0] + 1e-9
    assert height <= PAPER[1] + 1e-9


def test_jobs_without_gpus_are_counted_and_not_drawn():
    groups = [{"gpu": 0, "cpu": 1}]
    jobs = [
        {
            "name": name,
            "options": [{"groups": groups}],
            "running": {"tasks": [{"host": "h"}]},
        }
        for name in ("a", "b")
    ]
    host = {"name": "h", "gpus": 2, "gpu_model": "A", "cpu": 64}
    occupancy = occupancy_of(Round.model_validate({"cluster": {"hosts": [host]}, "jobs": jobs}))
    assert (occupancy.jobs, occupancy.without_gpus) == ((), 2)
    assert "not drawn: 2 jobs without GPUs" in [e.text for e in legend_of(occupancy, 24)]


def test_no_column_of_a_legend_ends_with_a_mere_heading():
    named, heading, note = Entry("n", free_style(0)), Entry("h"), Entry("last")
    columns = columns_of([heading, named, named, heading, named, note], 4)
    assert columns == [[heading, named, named], [heading, named, note]]
    assert columns_of([named, heading, note], 3) == [[named, heading, note]]


def test_a_legend_names_every_job_once_and_counts_the_others():
    occupancy = occupancy_of(generate_round(512, 8, seed=1))
    lines = [entry.text for entry in legend_of(occupancy, 24)]
    rest = len(occupancy.jobs) - 24
    assert lines[0].startswith(f"running: {len(occupancy.jobs)} jobs, ")
    assert sum(line.startswith(f"{rest} other jobs, ") for line in lines) == 1
    assert [line.partition(":")[0] for line in lines[1:25]] == [
        job.name for job in occupancy.jobs[:24]
    ]


def test_two_jobs_never_look_the_same(moving):
    for occupancy in (moved(moving), occupancy_of(generate_round(512, 8, seed=1))):
        styles = [job_style(job) for job in occupancy.jobs if job.mark]
        assert len({(style.colour, style.hatch, style.mark) for style in styles}) == len(styles)
        assert len({style.symbol for style in styles}) == len(styles)


def test_a_cluster_without_gpus_has_no_map():
    host = {"name": "h", "gpus": 0, "cpu": 4}
    occupancy = occupancy_of(Round.model_validate({"cluster": {"hosts": [host]}}))
    console = Console(width=100)
    with console.capture() as capture:
        print_map(console, occupancy)
    assert capture.get() == "no map: 1 host without GPUs; solve lists where jobs are\n"
    with pytest.raises(ValueError, match="has no GPUs"):
        layout_of(occupancy.cluster, *PAPER)


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_bundled_round_is_drawn_as_its_state_says(path):
    round_ = load_round(path)
    occupancy = occupancy_of(round_)
    cluster, parts = occupancy.cluster, occupancy.parts
    state = build_state(round_, cluster)
    assert occupancy.used.tolist() == (1000 - state.gpu_free).tolist()
    area = (parts.right - parts.left) * (parts.high - parts.low)
    assert (np.bincount(parts.gpu, weights=area, minlength=1) <= 1 + 1e-9).all()
    if cluster.num_gpus:
        figure = draw_map(occupancy)
        assert figure.get_size_inches()[0] <= PAPER[0] + 1e-9
