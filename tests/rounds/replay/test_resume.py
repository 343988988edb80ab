"""A replay that is killed goes on, and its files are those of one that was not, byte for byte."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples import by_day, examples
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import Trace
from placewright.rounds.regions.executors import open_executor
from placewright.rounds.replay import round_decider
from placewright.rounds.replay.files import (
    JOBS,
    ROUNDS,
    SAMPLES,
    SUMMARY,
    play_all,
    play_file,
    specs_of,
    write_outputs,
)
from placewright.rounds.replay.loop import Loop, Outage
from placewright.rounds.replay.spec import ReplaySpec, play

FILES = (JOBS, SAMPLES, ROUNDS, SUMMARY)
HOSTS = (8, 8)


class KilledError(Exception):
    """Stands for the end of the process."""


def trace_file(folder: Path, jobs: int, seed: int = 0) -> Path:
    """Write a trace of our own format."""
    rng = np.random.default_rng(seed)
    path = folder / "trace.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["submit_s", "tenant", "gpus", "duration_s"])
        for arrival in np.sort(rng.integers(0, 20 * jobs, jobs)).tolist():
            gpus, duration = 2 ** int(rng.integers(0, 5)), int(rng.integers(1, 300))
            out.writerow([arrival, f"t{(arrival + duration) % 3}", gpus, duration])
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files that two runs of one replay share."""
    return {name: (folder / name).read_bytes() for name in FILES}


def with_kills(trace: Trace, spec: ReplaySpec, folder: Path, kills: list[int]) -> None:
    """Play a trace that is killed after so many events, each time counted anew."""
    for events in kills:
        left = events

        def watch(loop: Loop) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError

        try:
            play(trace, spec, folder, save_every_s=0, watch=watch)
        except KilledError:
            continue
        break
    result = play(trace, spec, folder, save_every_s=0)
    write_outputs(folder, result, spec, "trace.csv", {})


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize(
    "policy",
    ["fifo", "easy", "srsf", "2d-las", "2d-gittins", "sju", "drf", "tenant-counters", "smith"],
)
def test_ten_kills_change_nothing(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_decider, "REOPEN", 5)
    trace = read_trace(trace_file(tmp_path, 60))
    spec = ReplaySpec(
        policy, HOSTS, stop_s=3, checkpoint_s=20, outages=(Outage(1, 200_000_000, 260_000_000),)
    )
    write_outputs(tmp_path / "whole", play(trace, spec), spec, "trace.csv", {})
    kills = np.random.default_rng(1).integers(1, 20, 10).tolist()
    with_kills(trace, spec, tmp_path / "killed", kills)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_the_state_of_another_replay_is_not_taken(tmp_path: Path) -> None:
    trace = read_trace(trace_file(tmp_path, 30))
    spec = ReplaySpec("srsf", HOSTS)
    with_kills(trace, spec, tmp_path / "replay", [10, 10])
    other = ReplaySpec("fifo", HOSTS)
    again = play(trace, other, tmp_path / "replay")
    assert again.end_us.tolist() == play(trace, other).end_us.tolist()


def test_a_broken_state_is_not_taken(tmp_path: Path) -> None:
    trace = read_trace(trace_file(tmp_path, 30))
    spec = ReplaySpec("srsf", HOSTS)
    (tmp_path / "state.npz").write_bytes(b"PK no archive")
    assert play(trace, spec, tmp_path).end_us.tolist() == play(trace, spec).end_us.tolist()


POLICIES = ("fifo", "fit-first", "easy", "srsf", "2d-las")
LOADS, SEEDS = by_day((0.5, 1.0, 1.5, 2.0), 2), examples(day=2, nightly=5)


def sweep(policies: Sequence[str] = POLICIES) -> dict[str, ReplaySpec]:
    """Return the replays of a sweep over policies, loads and seeds."""
    return specs_of(
        ReplaySpec(policies[0], HOSTS), policies, LOADS, range(examples(day=1, nightly=5))
    )


def swept(
    file: Path, folder: Path, executor: Executor, specs: dict[str, ReplaySpec]
) -> dict[str, dict[str, bytes]]:
    """Play a sweep; return the files of each replay."""
    assert sorted(play_all(str(file), specs, folder, executor)) == sorted(specs)
    return {name: contents(folder / name) for name in specs}


def alone(file: Path, folder: Path, specs: dict[str, ReplaySpec]) -> dict[str, dict[str, bytes]]:
    """Play the replays of a sweep one by one, here; return the files of each."""
    for name, spec in specs.items():
        play_file(str(file), spec, str(folder / name))
    return {name: contents(folder / name) for name in specs}


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("where", ["local", "dask"])
def test_a_sweep_is_equal_wherever_it_is_played(tmp_path: Path, where: str) -> None:
    file, specs = trace_file(tmp_path, 60), sweep()
    here = alone(file, tmp_path / "alone", specs)
    assert len({files[JOBS] for files in here.values()}) > len(here) // 2
    if where == "local":
        with open_executor("local:2") as executor:
            assert swept(file, tmp_path / "local", executor, specs) == here
        return
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp:")
        with open_executor(f"dask:{address}") as executor:
            assert swept(file, tmp_path / "dask", executor, specs) == here


KILLING = """
import os, signal
from pathlib import Path
from placewright.rounds.policies.base import ListPolicy

calls = 0

def order(jobs):
    global calls
    calls += 1
    killed = Path(__file__).with_name(f"killed-{len(jobs)}")
    if calls == 40 and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return jobs.submit_us

POLICY = ListPolicy("killing", order, preempts=True)
"""


@pytest.mark.nightly
def test_a_sweep_goes_on_after_its_workers_are_killed(tmp_path: Path) -> None:
    file = trace_file(tmp_path, 60)
    (tmp_path / "killing.py").write_text(KILLING)
    specs = sweep([f"{tmp_path / 'killing.py'}:POLICY"])
    with open_executor("local:2") as executor:
        killed = swept(file, tmp_path / "killed", executor, specs)
    assert list(tmp_path.glob("killed-*"))
    assert killed == alone(file, tmp_path / "alone", specs)


@pytest.mark.nightly
def test_a_sweep_plays_again_what_was_assumed_otherwise(tmp_path: Path) -> None:
    file = trace_file(tmp_path, 30)
    first = specs_of(ReplaySpec("srsf", HOSTS), ["srsf"], [1.0], [0, 1])
    other = {name: replace(spec, stop_s=60) for name, spec in first.items()}
    with open_executor("local:1") as executor:
        before = swept(file, tmp_path / "sweep", executor, first)
        after = swept(file, tmp_path / "sweep", executor, other)
        times = [path.stat().st_mtime_ns for path in (tmp_path / "sweep").glob(f"*/{SUMMARY}")]
        assert swept(file, tmp_path / "sweep", executor, other) == after
    assert after == alone(file, tmp_path / "alone", other) != before
    again = [path.stat().st_mtime_ns for path in (tmp_path / "sweep").glob(f"*/{SUMMARY}")]
    assert again == times


SLOW = """
import sys
from placewright.rounds.replay.spec import ReplaySpec
from placewright.rounds.replay.files import play_file
play_file(sys.argv[1], ReplaySpec("srsf", (8, 8), stop_s=2), sys.argv[2], save_every_s=0)
"""


@pytest.mark.nightly
def test_a_killed_process_goes_on(tmp_path: Path) -> None:
    file = trace_file(tmp_path, 400)
    arguments = [sys.executable, "-c", SLOW, str(file)]
    subprocess.run([*arguments, str(tmp_path / "whole")], check=True)
    for _ in range(3):
        process = subprocess.Popen([*arguments, str(tmp_path / "killed")])
        state = tmp_path / "killed" / "state.npz"
        before = state.stat().st_mtime_ns if state.exists() else 0
        while process.poll() is None and (not state.exists() or state.stat().st_mtime_ns == before):
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run([*arguments, str(tmp_path / "killed")], check=True)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
