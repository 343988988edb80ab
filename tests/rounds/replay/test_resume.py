"""A replay that is killed goes on, and its files are those of one that was not, byte for byte."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor
from pathlib import Path

import numpy as np
import pytest

from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import Trace
from placewright.rounds.regions.executors import open_executor
from placewright.rounds.replay import round_decider
from placewright.rounds.replay.loop import Loop, Outage
from placewright.rounds.replay.outputs import JOBS, SAMPLES, SUMMARY, write_outputs
from placewright.rounds.replay.spec import ReplaySpec, play
from placewright.rounds.replay.sweep import play_all, play_file, specs_of

FILES = (JOBS, SAMPLES, SUMMARY)
HOSTS = (8, 8)


class KilledError(Exception):
    """Stands for the end of the process."""


def trace_file(folder: Path, jobs: int, seed: int = 0) -> Path:
    """Write a trace of our own format."""
    rng = np.random.default_rng(seed)
    path = folder / "trace.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["submit_s", "gpus", "duration_s"])
        for arrival in np.sort(rng.integers(0, 20 * jobs, jobs)).tolist():
            out.writerow([arrival, 2 ** int(rng.integers(0, 5)), int(rng.integers(1, 300))])
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


@pytest.mark.parametrize("policy", ["fifo", "easy", "srsf", "2d-las", "smith"])
def test_ten_kills_change_nothing(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_decider, "REOPEN", 5)
    trace = read_trace(trace_file(tmp_path, 60))
    spec = ReplaySpec(
        policy, HOSTS, stop_s=3, checkpoint_s=20, outages=(Outage(1, 200_000, 260_000),)
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
    assert again.end_ms.tolist() == play(trace, other).end_ms.tolist()


def test_a_broken_state_is_not_taken(tmp_path: Path) -> None:
    trace = read_trace(trace_file(tmp_path, 30))
    spec = ReplaySpec("srsf", HOSTS)
    (tmp_path / "state.npz").write_bytes(b"PK no archive")
    assert play(trace, spec, tmp_path).end_ms.tolist() == play(trace, spec).end_ms.tolist()


def swept(file: Path, folder: Path, executor: Executor) -> dict[str, dict[str, bytes]]:
    """Play a small sweep; return the files of each replay."""
    specs = specs_of(ReplaySpec("fifo", HOSTS), ["fifo", "srsf", "2d-las"], [1.0, 1.5], [0, 1])
    assert sorted(play_all(str(file), specs, folder, executor)) == sorted(specs)
    return {name: contents(folder / name) for name in specs}


def test_a_sweep_is_equal_wherever_it_is_played(tmp_path: Path) -> None:
    file = trace_file(tmp_path, 60)
    with open_executor("local:2") as executor:
        side_by_side = swept(file, tmp_path / "local", executor)
    alone = {
        name: play_file(str(file), spec, str(tmp_path / "alone" / name))
        for name, spec in specs_of(
            ReplaySpec("fifo", HOSTS), ["fifo", "srsf", "2d-las"], [1.0, 1.5], [0, 1]
        ).items()
    }
    assert side_by_side == {name: contents(tmp_path / "alone" / name) for name in alone}
    assert len({files[JOBS] for files in side_by_side.values()}) == len(side_by_side)


def test_a_sweep_on_dask_is_equal(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    file = trace_file(tmp_path, 60)
    with open_executor("local:2") as executor:
        local = swept(file, tmp_path / "local", executor)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp:")
        with open_executor(f"dask:{address}") as executor:
            assert swept(file, tmp_path / "dask", executor) == local


SLOW = """
import sys
from placewright.rounds.replay.spec import ReplaySpec
from placewright.rounds.replay.sweep import play_file
play_file(sys.argv[1], ReplaySpec("srsf", (8, 8), stop_s=2), sys.argv[2], save_every_s=0)
"""


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
