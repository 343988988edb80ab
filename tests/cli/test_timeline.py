"""`placewright show`: one period of each group of jobs that take turns."""

from __future__ import annotations

from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from placewright.cli.views.gang.facts import SharingKind, Use, occupancy_of
from placewright.cli.views.interleaving import letters, print_timelines
from placewright.cli.views.tables import print_plan
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.instances.io.files import write
from placewright.instances.verify import verify
from placewright.instances.verify.rules.interleaving import period_of
from placewright.report.facts.turns import boundaries, timelines_of

FUSED = ["io-cpu", "gpu", "network"]
Group = dict[str, tuple[int, list[int]]]
"""Per job its offset and its stages."""


def shared(*groups: Group, **sharing: Any) -> tuple[Round, Plan]:
    """Return a round of 4 GPUs per group, and the plan in which each group has a host."""
    jobs: list[dict[str, Any]] = []
    decisions: list[dict[str, Any]] = []
    listed = []
    rules = Sharing.model_validate(sharing)
    for number, group in enumerate(groups):
        task = {"host": f"a{number}", "gpus": [0, 1, 2, 3]}
        for name, (_, stages) in group.items():
            profile = {"stages": stages}
            jobs.append({"name": name, "options": [{"groups": [{"gpu": 4}]}], "profile": profile})
            decisions.append({"job": name, "decision": "start", "option": 0, "tasks": [task]})
        members = [{"job": name, "offset": offset} for name, (offset, _) in group.items()]
        offsets, stages_of = zip(*group.values(), strict=True)
        listed.append({"members": members, "period": period_of(stages_of, offsets, rules)})
    hosts = [{"name": f"a[0-{len(groups)}]", "gpus": 4, "gpu_model": "H100"}]
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "jobs": jobs,
            "policy": {"formulation": "interleaving"},
            "sharing": sharing,
        }
    )
    sections = [{"kind": "groups", "groups": listed}]
    plan = Plan.model_validate({"decisions": decisions, "sections": sections})
    assert verify(round_, plan).ok
    return round_, plan


TWO: Group = {"even": (0, [6000, 6000, 6000, 6000]), "odd": (1, [6000, 3000, 6000, 3000])}
SWAPPED: Group = {"right": TWO["odd"], "left": TWO["even"]}
SPAN: Group = {"one": (0, [12000, 6000, 6000]), "other": (2, [9000, 6000, 3000])}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Write a round and a plan of two groups."""
    second = {"a/b": (3, [5, 1, 90, 4]), "c": (0, [40, 10, 20, 30]), "d": (2, [7, 30, 0, 0])}
    paths = tmp_path / "round.json", tmp_path / "plan.json"
    for document, path in zip(shared(TWO, second), paths, strict=True):
        write(document, path)
    return paths


def drawn(timelines: Any, width: int, **options: Any) -> str:
    """Print timelines on a console of this width."""
    console = Console(width=width, highlight=False, markup=False, **options)
    with console.capture() as capture:
        print_timelines(console, timelines)
    return capture.get()


def test_a_group_has_a_row_per_job_with_a_letter_per_stage(run, files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "42")
    result = run("show", files[0], "--plan", files[1])
    assert (result.code, result.err) == (0, "")
    assert "a0:0-3  4 GPUs, period 24 ms, efficiency 43.8 %\n" in result.out
    rows = result.out[result.out.index("a0:0-3") :].splitlines()[1:4]
    assert rows == [
        "  even     iiiiiiccccccggggggnnnnnn  100 %",
        "  odd      ccc···ggggggnnn···iiiiii   75 %",
        "           └─────┴─────┴─────┴────┘",
    ]
    for resource in (" i  io ", " c  cpu ", " g  gpu ", " n  network ", "· waits"):
        assert resource in result.out
    assert "a1:0-3  4 GPUs, period 0.16 ms" in result.out
    assert "more group" not in result.out
    assert "\x1b" not in result.out


def test_a_stage_that_spans_goes_on_through_two_slots():
    timelines = timelines_of(*shared(SPAN, spanning=True, resources=FUSED), 1)
    assert timelines.turns[0].efficiency == 42 / (4 * 24)
    text = drawn(timelines, 42)
    assert "  one      iiiiiiiiiiiiggggggnnnnnn" in text
    assert "  other    ggggggnnn···iiiiiiiii···" in text


def test_contention_stretches_the_period_and_keeps_the_picture():
    plain = timelines_of(*shared(TWO), 1)
    slow = timelines_of(*shared(TWO, contention=[1_250_000] * 3), 1)
    assert (plain.turns[0].period, slow.turns[0].period) == (24_000, 30_000)
    assert plain.turns[0].boundaries == slow.turns[0].boundaries == (0, 0.25, 0.5, 0.75, 1)
    assert [m.bars for m in plain.turns[0].members] == [m.bars for m in slow.turns[0].members]
    assert [m.speed for m in slow.turns[0].members] == [0.8, 0.6]
    assert slow.turns[0].efficiency == pytest.approx(42 / 4 / 30)


def test_a_short_stage_is_drawn_over_the_long_one_that_begins_in_its_cell():
    stages = [1, 50_000, 1, 50_000]
    rows = drawn(timelines_of(*shared({"a": (0, stages), "b": (2, stages)}), 1), 42).splitlines()
    assert "  a        icccccccccccgnnnnnnnnnnn  100 %" in rows
    assert "  b        gnnnnnnnnnnniccccccccccc  100 %" in rows


def test_the_shortest_stage_is_seen_and_a_stage_of_nothing_is_not():
    stages = {"a": (0, [1, 100_000, 0, 50_000]), "b": (2, [3000, 0, 40_000, 1])}
    rows = drawn(timelines_of(*shared(stages), 1), 60).splitlines()
    (first,), (second,) = ([row for row in rows if row.startswith(f"  {job} ")] for job in "ab")
    assert "i" in first
    assert "g" not in first
    assert "n" in second
    assert "c" not in second


@pytest.mark.parametrize("width", [20, 24, 30, 45, 80, 300])
def test_rows_fit_the_terminal(width):
    group = {f"{'long-name-' * 12}{i}": (i, [10**9 - i, 5, i, 7]) for i in range(3)}
    lines = drawn(timelines_of(*shared(group), 1), width).splitlines()
    assert sum("long" in line for line in lines) == 3
    # What says where the group is may be longer; a terminal folds it.
    assert all(len(line) <= width for line in lines if ":" not in line)


def test_colours_are_dropped_on_request(monkeypatch):
    timelines = timelines_of(*shared(TWO), 1)
    coloured = drawn(timelines, 60, force_terminal=True, color_system="truecolor", no_color=False)
    assert "\x1b[30;48;2;" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    bare = drawn(timelines, 60, force_terminal=True, color_system="truecolor")
    assert "48;2;" not in bare
    assert "iiii" in bare


def test_of_many_groups_the_first_ones_are_drawn(run, tmp_path):
    groups = [{f"{name}{i}": at for name, at in TWO.items()} for i in range(14)]
    paths = tmp_path / "round.json", tmp_path / "plan.json", tmp_path / "plan.svg"
    for document, path in zip(shared(*groups), paths[:2], strict=True):
        write(document, path)
    result = run("show", paths[0], "--plan", paths[1])
    assert result.out.count("efficiency") == 8
    assert result.out.endswith("... and 6 more groups\n")
    assert run("show", paths[0], "--plan", paths[1], "-o", paths[2]).code == 0


def test_a_plan_without_groups_has_no_timeline(run, round_file, plan_file):
    assert "take turns" not in run("show", round_file, "--plan", plan_file).out


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_timelines_are_part_of_the_picture(run, files, tmp_path, suffix):
    pictures = [tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"]
    for picture in pictures:
        assert run("show", files[0], "--plan", files[1], "-o", picture).code == 0
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    if suffix == ".svg":
        for text in (b"a/b", b"network", b"waits", b"period 24 ms", b"jobs take turns"):
            assert text in first


def test_sixteen_resources_look_different(tmp_path, run):
    names = [f"r{i}" for i in range(16)]
    group = {"a": (0, list(range(1, 17))), "b": (5, list(range(16, 0, -1)))}
    paths = tmp_path / "round.json", tmp_path / "plan.json", tmp_path / "plan.png"
    for document, path in zip(shared(group, resources=names), paths[:2], strict=True):
        write(document, path)
    assert run("show", paths[0], "--plan", paths[1], "-o", paths[2]).code == 0
    assert len(set(letters(names))) == 16
    assert letters(["io", "cpu", "gpu", "network"]) == ["i", "c", "g", "n"]
    assert letters(["gpu", "Goo", "g", "3"]) == ["g", "o", "a", "b"]


@pytest.mark.parametrize(("lasts", "members"), [((1, 1, 1, 1), 3), ((1, 1), 2), ((2, 1, 1), 4)])
def test_slots_hold_every_stage_and_add_up_to_the_period(lasts, members):
    rng = np.random.default_rng(members)
    sharing = Sharing(spanning=2 in lasts, resources=tuple(f"r{i}" for i in range(len(lasts))))
    for _ in range(60):
        stages = rng.integers(0, 9, (members, len(lasts)))
        stages[rng.random(stages.shape) < 0.2] *= 100
        for offsets in permutations(range(sharing.slots), members):
            times = boundaries(stages.tolist(), offsets, lasts)
            assert len(times) == sharing.slots + 1
            assert times[0] == 0
            assert all(early <= late for early, late in pairwise(times))
            assert times[-1] == period_of(stages.tolist(), offsets, sharing)
            twice = times[:-1] + [time + times[-1] for time in times]
            for job, offset in zip(stages.tolist(), offsets, strict=True):
                for resource, stage in enumerate(job):
                    slot = (sum(lasts[:resource]) - offset) % sharing.slots
                    assert twice[slot + lasts[resource]] - twice[slot] >= stage


@pytest.mark.parametrize(
    ("group", "spanning"),
    [
        ({"a": (0, [5, 9, 2, 7]), "b": (1, [8, 1, 6, 3]), "c": (3, [2, 4, 9, 1])}, False),
        ({f"j{i}": (i, [30 + i, 9 - i, 4 * i + 1]) for i in range(4)}, True),
    ],
)
def test_at_most_one_job_is_at_a_resource_and_each_job_at_one(group, spanning):
    rules = {"spanning": True, "resources": FUSED} if spanning else {}
    (turns,) = timelines_of(*shared(group, **rules), 1).turns
    total = sum(np.diff(turns.boundaries)) * turns.period
    assert total == pytest.approx(turns.period)
    for member in turns.members:
        bars = sorted(member.bars, key=lambda bar: bar.start)
        assert all(one.end <= two.start + 1e-12 for one, two in pairwise(bars))
        for resource, stage in enumerate(group[member.name][1]):
            lengths = [bar.end - bar.start for bar in bars if bar.resource == resource]
            assert sum(lengths) == pytest.approx(stage / turns.period)
    for moment in np.linspace(0, 1, 501)[:-1] + 1e-6:
        at = [b.resource for m in turns.members for b in m.bars if b.start <= moment < b.end]
        # The stage that spans may be that of two jobs at a time.
        assert all(at.count(r) <= (2 if spanning and r == 0 else 1) for r in at)


def test_a_plan_counts_its_groups_by_size():
    three = {"a": (0, [5, 9, 2, 7]), "b": (1, [8, 1, 6, 3]), "c": (3, [2, 4, 9, 1])}
    round_, plan = shared(TWO, three, SWAPPED)
    console = Console(width=100, highlight=False, markup=False)
    with console.capture() as capture:
        print_plan(console, round_, plan)
    lines = [line.split() for line in capture.get().splitlines()]
    # 24 and 18 ms alone against 24; 23, 18 and 16 microseconds alone.
    assert ["2", "2", "8", "16", "87.5", "%"] in lines
    period = plan.sections[0]["groups"][1]["period"]
    assert ["3", "1", "4", "12", f"{100 * 57 / 3 / period:.3g}", "%"] in lines


def test_the_gpus_of_a_group_are_held_once_and_its_jobs_stand_side_by_side():
    round_, plan = shared(TWO)
    occupancy = occupancy_of(round_, plan)
    assert occupancy.used.tolist() == [1000] * 4 + [0] * 4
    assert occupancy.free.sum() == 4000
    assert [(job.name, job.milli_gpu, job.mark) for job in occupancy.jobs] == [
        ("even", 4000, "A"),
        ("odd", 4000, "B"),
    ]
    parts = occupancy.parts
    assert parts.sharing == (SharingKind.TURNS,)
    assert parts.gpu.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert parts.job.tolist() == [0, 1] * 4
    assert parts.left.tolist() == [0.0, 0.5] * 4
    assert parts.right.tolist() == [0.5, 1.0] * 4
    assert (parts.low == 0).all()
    assert (parts.high == 1).all()


def running(round_: Round, plan: Plan, *names: str) -> Round:
    """Return the round in which these jobs run already where the plan places them."""
    places = {decision.job: decision.tasks for decision in plan.decisions}
    raw = round_.model_dump()
    for job in raw["jobs"]:
        if job["name"] in names:
            job["running"] = {"tasks": [task.model_dump() for task in places[job["name"]]]}
    return Round.model_validate(raw)


def redecided(plan: Plan, **kinds: str) -> Plan:
    """Return the plan with other decisions about some jobs; who is preempted holds nothing."""
    raw = plan.model_dump()
    for decision in raw["decisions"]:
        kind = kinds.get(decision["job"])
        if kind is not None:
            decision["decision"] = kind
        if kind == "preempt":
            decision.update(option=None, tasks=())
    return Plan.model_validate(raw)


def test_a_job_that_joins_a_running_one_is_drawn_beside_it():
    round_, plan = shared(TWO)
    round_ = running(round_, plan, "even")
    occupancy = occupancy_of(round_, redecided(plan, even="keep"))
    assert occupancy.used.tolist() == [1000] * 4 + [0] * 4
    assert [(job.name, job.use, job.mark) for job in occupancy.jobs] == [
        ("odd", Use.STARTED, "A"),
        ("even", Use.KEPT, "a"),
    ]
    # What was there is on the left.
    assert occupancy.parts.job.tolist() == [1, 0] * 4
    assert occupancy.before is None


def test_a_member_that_stops_leaves_its_gpus_to_the_others():
    round_, plan = shared(TWO)
    round_ = running(round_, plan, "even", "odd")
    assert occupancy_of(round_).used.tolist() == [1000] * 4 + [0] * 4
    assert occupancy_of(round_).parts.right.tolist() == [0.5, 1.0] * 4
    alone = redecided(plan, even="keep", odd="preempt").model_copy(update={"sections": ()})
    occupancy = occupancy_of(round_, alone)
    assert occupancy.used.tolist() == [1000] * 4 + [0] * 4
    assert occupancy.parts.right.tolist() == [1.0] * 4
    assert occupancy.before is not None
    assert occupancy.before.right.tolist() == [0.5, 1.0] * 4
    nobody = redecided(plan, even="preempt", odd="preempt").model_copy(update={"sections": ()})
    assert not occupancy_of(round_, nobody).used.any()
    stays = redecided(plan, even="keep", odd="keep")
    assert occupancy_of(round_, stays).used.tolist() == [1000] * 4 + [0] * 4
