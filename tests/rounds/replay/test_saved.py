"""Files of a replay read back: they are what was written, and what is wrong in them is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import Trace
from placewright.rounds.replay.files import read_outputs, write_outputs
from placewright.rounds.replay.measures import Result, measure
from placewright.rounds.replay.spec import ReplaySpec, play


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Result]:
    rng = np.random.default_rng(4)
    trace = Trace.of(rng.integers(0, 10**7, 50), rng.integers(1, 9, 50), rng.integers(1, 10**7, 50))
    spec = ReplaySpec("srsf", (8, 8))
    result = play(trace, spec)
    write_outputs(tmp_path / "srsf", result, spec, "t.csv", {"wall_s": 1.0})
    return tmp_path / "srsf", result


def test_what_is_read_back_is_what_was_written(written: tuple[Path, Result]) -> None:
    folder, result = written
    saved = read_outputs(str(folder))
    for column, expected in (
        (saved.submit_us, result.trace.submit_us),
        (saved.gpus, result.trace.gpus),
        (saved.start_us, result.first_start_us),
        (saved.end_us, result.end_us),
    ):
        np.testing.assert_array_equal(column, expected)
    assert saved.measures == measure(result)
    assert len(saved.samples) == len(result.samples)
    assert saved.card["policy"] == "srsf"
    assert saved.jct_s.mean() == pytest.approx(saved.measures["jct_mean_s"])


def in_summary(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return what changes a summary."""

    def changed(folder: Path) -> None:
        summary = json.loads((folder / "summary.json").read_text())
        change(summary)
        (folder / "summary.json").write_text(json.dumps(summary))

    return changed


def in_line(name: str, number: int, **fields: Any) -> Callable[[Path], None]:
    """Return what changes fields of a line, from 1."""

    def changed(folder: Path) -> None:
        lines = (folder / name).read_text().splitlines()
        lines[number - 1] = json.dumps({**json.loads(lines[number - 1]), **fields})
        (folder / name).write_text("\n".join(lines))

    return changed


def text(name: str, content: str) -> Callable[[Path], None]:
    """Return what replaces a file."""
    return lambda folder: (folder / name).write_text(content) and None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "jobs.jsonl").unlink(), "jobs.jsonl: .*a file to read"),
        (text("summary.json", "{"), "summary.json:.*JSON"),
        (text("summary.json", "[]"), "summary.json: .*expected an object"),
        (in_summary(lambda s: s.update(kind="Plan")), "summary.json: kind: 'Plan'.*Replay"),
        (in_summary(lambda s: s["card"].pop("policy")), "summary.json: card.policy"),
        (in_summary(lambda s: s["card"].update(seed="one")), "card.seed: 'one': .*whole number"),
        (in_summary(lambda s: s["card"].update(placer=[])), r"card.placer: \[\]"),
        (in_summary(lambda s: s["card"].update(placer="x" * 501)), "card.placer"),
        (in_summary(lambda s: s["measures"].update(jobs=float("nan"))), "measures.jobs: nan"),
        (in_summary(lambda s: s["measures"].update(jobs=True)), "measures.jobs: True"),
        (in_summary(lambda s: s["measures"].update(jobs=49)), "measures.jobs: 49.*50"),
        (in_summary(lambda s: s["measures"].update(jct_mean_s=1)), "measures.jct_mean_s: 1"),
        (in_summary(lambda s: s.update(by_tenant={"a\x1b[2J": {"x": "y"}})), r"by_tenant.*x1b"),
        (in_summary(lambda s: s.pop("by_size")), "by_size: None: expected an object"),
        (in_line("jobs.jsonl", 7, gpus=-1), "jobs.jsonl:7: gpus: -1: .*whole number"),
        (in_line("jobs.jsonl", 7, gpus=1.5), "jobs.jsonl:7: gpus: 1.5"),
        (in_line("jobs.jsonl", 7, submit_us=2**70), "jobs.jsonl:7: submit_us"),
        (in_line("jobs.jsonl", 7, end_us=0), "jobs.jsonl:7: end_us: 0: expected .* or later"),
        (in_line("jobs.jsonl", 7, start_us=None), "jobs.jsonl:7: end_us.*never started"),
        (in_line("jobs.jsonl", 7, end_us=None), "summary.json: measures.unfinished: .*expected 1"),
        (text("jobs.jsonl", "[" * 100_000), "jobs.jsonl:1: expected an object"),
        (text("jobs.jsonl", '{"gpus": ' + "1" * 5000 + "}"), "jobs.jsonl:1: expected an object"),
        (text("samples.jsonl", "3"), "samples.jsonl:1: expected an object"),
        (text("samples.jsonl", "{}"), "samples.jsonl:1: at_s: None: expected a whole number"),
    ],
)
def test_what_is_wrong_is_told_with_file_line_and_field(
    written: tuple[Path, Result], change: Callable[[Path], None], said: str
) -> None:
    folder, _ = written
    change(folder)
    with pytest.raises(InvalidInputError, match=said) as raised:
        read_outputs(str(folder))
    assert str(raised.value).isprintable()


def test_jobs_outside_the_window_are_written_and_not_measured(
    written: tuple[Path, Result], tmp_path: Path
) -> None:
    _, result = written
    submit = result.trace.submit_us
    spec = ReplaySpec("srsf", (8, 8), warm_up_s=2, until_s=6.0005)
    write_outputs(tmp_path / "cut", result, spec, "t.csv", {})
    saved = read_outputs(str(tmp_path / "cut"))
    inside = (submit >= 2_000_000) & (submit < 6_000_500)
    np.testing.assert_array_equal(saved.submit_us, submit[inside])
    assert saved.measures["jobs"] == inside.sum() < len(submit)
    assert sum(one["jobs"] for one in saved.by_size.values()) == inside.sum()
    assert len((tmp_path / "cut" / "jobs.jsonl").read_text().splitlines()) == len(submit)


def test_a_replay_of_no_job_is_read(tmp_path: Path) -> None:
    none = np.array([], dtype=np.int64)
    trace, spec = Trace.of(none, none, none), ReplaySpec("fifo", (8,))
    write_outputs(tmp_path, play(trace, spec), spec, "t.csv", {})
    assert len(read_outputs(str(tmp_path)).submit_us) == 0
