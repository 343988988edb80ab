"""The state of a replay in one file, so that one that was killed goes on where it was.

The file is an npz archive without pickles: the loop's columns, and a JSON text of everything else.
It is written aside and renamed, so that it is whole or not there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from heapq import heapify
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from placewright.rounds.replay.loop import Loop

NAME = "state.npz"
SAVE_EVERY_S = 60.0

_COLUMNS = (
    "left",
    "spare",
    "speed",
    "since",
    "overhead_due",
    "running",
    "other_speed",
    "started",
    "first_start",
    "end",
    "stops",
    "moves",
    "run_us",
    "overhead_us",
    "lost_us",
    "unsaved_us",
    "shared_us",
    "due",
)
_NUMBERS = (
    "now",
    "next_arrival",
    "busy_gpus",
    "busy_gpu_us",
    "alive_us",
    "events",
    "decisions",
    "sample_at",
    "last_decision",
    "pending",
    "stuck",
)


def save(loop: Loop, path: Path, key: str) -> None:
    """Write the state of a loop; `key` says of which replay it is."""
    state = {
        "key": key,
        "numbers": {name: int(getattr(loop, name)) for name in _NUMBERS},
        "place": [[job, place] for job, place in loop.place.items()],
        "together": list(dict.fromkeys(loop.together.values())),
        "alive": list(loop.alive),
        "outages_left": loop.outages_left,
        "repairs": loop.repairs,
        "decider": loop.decider.state(),
    }
    text = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    columns = {name: getattr(loop, name) for name in _COLUMNS}
    aside = path.with_name(path.name + ".part")
    with aside.open("wb") as file:
        np.savez(file, state=text, samples=np.array(loop.samples, dtype=np.int64), **columns)
    aside.replace(path)


def restore(loop: Loop, path: Path, key: str) -> bool:
    """Bring a new loop into the state of a file; return whether there was one of this replay."""
    try:
        with np.load(path, allow_pickle=False) as found:
            columns = {name: found[name] for name in (*_COLUMNS, "samples")}
            state: dict[str, Any] = json.loads(found["state"].tobytes())
    except (OSError, ValueError, KeyError, BadZipFile):
        return False
    if state.get("key") != key:
        return False
    for name in _COLUMNS:
        setattr(loop, name, columns[name])
    for name, number in state["numbers"].items():
        setattr(loop, name, number)
    loop.samples = [tuple(row) for row in columns["samples"].tolist()]
    loop.alive = dict.fromkeys(state["alive"])
    loop.repairs = [(us, host) for us, host in state["repairs"]]
    for _, host in loop.repairs:
        loop.ledger.close(host)
    loop.outages_left = state["outages_left"]
    for jobs in map(tuple, state["together"]):
        loop.together.update(dict.fromkeys(jobs, jobs))
    for job, place in state["place"]:
        loop.place[job] = tuple((host, gpus) for host, gpus in place)
        if loop.together.get(job, (job,))[0] == job:
            loop.ledger.take(loop.place[job])
    loop.ends = [(int(loop.due[job]), job) for job in loop.place]
    heapify(loop.ends)
    loop.decider.restore(state["decider"])
    return True


def saver(path: Path, key: str, every_s: float = SAVE_EVERY_S) -> Callable[[Loop], None]:
    """Return what saves a loop every so many seconds, when its decider can be saved."""
    due = time.monotonic() + every_s

    def after_event(loop: Loop) -> None:
        nonlocal due
        if time.monotonic() >= due and loop.decider.can_be_saved:
            save(loop, path, key)
            due = time.monotonic() + every_s

    return after_event
