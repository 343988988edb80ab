"""One Slurm scenario in eight dialects of its JSON: one round, but for what two of them lose."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from placewright.cli.app import main
from placewright.instances.converters import read_slurm
from placewright.instances.io.files import write

DATA = Path(__file__).parents[2] / "data" / "slurm"
DIALECTS = [f"v0.0.{number}" for number in range(38, 46)]
HIDDEN = {"--switches", "--exclusive"}
TIMES = ("submitted", "started", "not_before", "start", "end", "now")


def read(dialect, **options):
    return read_slurm([DATA / dialect], **options)


def without_times(value):
    """Return plain values without moments: the scenario was played three times."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def without(value, name, keep):
    """Return plain values without fields of a name of which `keep` says no."""
    if isinstance(value, dict):
        return {k: without(v, name, keep) for k, v in value.items() if k != name or keep(v)}
    return [without(inner, name, keep) for inner in value] if isinstance(value, list) else value


def plain(dialect, *, exclusive=True):
    """Return the round of a dialect without times, and without nodes that jobs have alone.

    Nor has it the bookkeeping, which says what a dialect loses.
    """
    values = without_times(read(dialect, movable=True).round.model_dump(mode="json"))
    del values["annotations"]["bookkeeping"]
    if not exclusive:
        values = without(values, "resources", lambda resources: "node" not in resources)
        values = without(values, "resources", bool)
    return values


@pytest.mark.parametrize("dialect", DIALECTS[1:-1])
def test_dialects_give_one_round(dialect):
    assert plain(dialect) == plain("v0.0.44")


def test_v0_0_38_loses_switches():
    def said(dialect):
        return without(plain(dialect), "required", lambda level: level is not None)

    assert said("v0.0.38") != said("v0.0.44")
    assert said("v0.0.38") == without(said("v0.0.44"), "required", lambda _: False)
    assert any("--switches" in what for what in read("v0.0.38").book.unsaid)


def test_v0_0_45_loses_exclusive():
    assert plain("v0.0.45") != plain("v0.0.44")
    assert plain("v0.0.45", exclusive=False) == plain("v0.0.44", exclusive=False)
    assert any("--exclusive" in what for what in read("v0.0.45").book.unsaid)


@pytest.mark.parametrize("dialect", DIALECTS[1:-1])
def test_no_other_dialect_says_that_it_loses_something(dialect):
    assert not any(option in what for what in read(dialect).book.unsaid for option in HIDDEN)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_times_lie_around_now(dialect):
    round_ = read(dialect).round
    for job in round_.jobs:
        assert 0 <= round_.now - job.submitted < 60, job.name
        assert job.running is None or 0 <= round_.now - job.running.started < 60
    (maintenance,) = {(one.start, one.end) for one in round_.maintenance}
    assert 5 * 3600 < maintenance[0] - round_.now < 6 * 3600
    assert maintenance[1] - maintenance[0] == 4 * 3600


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_job_and_node_is_accounted_for(dialect):
    made = read(dialect)
    left = Counter({kind: len(names) for (kind, _), names in made.book.left_out.items()})
    assert made.book.taken["nodes"] + left["nodes"] == 13
    assert made.book.total("jobs") == 20
    in_round = {job.name for job in made.round.jobs}
    out = {name for (_, _), names in made.book.left_out.items() for name in names}
    assert in_round | out | {"19"} == {str(number) for number in range(1, 21)}  # 19 is part of 18
    assert not in_round & out
    assert {reason: names for (_, reason), names in made.book.left_out.items()} == {
        "held by the limit of its array": ["3"],
        "not eligible (PartitionNodeLimit)": ["20"],
        "waits for another job (dependency)": ["14"],
    }


def test_the_page_shows_what_is_printed():
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "slurm.md").read_text()
    made = read("v0.0.44")
    for line in (*made.book.lines(), made.summary):
        assert line in text


def test_the_reason_that_the_page_shows_is_the_one_that_is_told(tmp_path, capsys):
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "slurm.md").read_text()
    shown = page.partition("```text\njob 17 ")[2].partition("```")[0]
    write(read("v0.0.44").round, tmp_path / "round.json")
    assert main(["explain", str(tmp_path / "round.json"), "--job", "17"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert {f"job 17 {shown}".splitlines()[0], "    away   node h7 is unhealthy"} <= set(told)
    assert {line for line in shown.splitlines() if line.startswith("    ")} <= set(told)
