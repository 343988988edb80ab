"""Sweeps: one trace under several policies, loads and seeds, side by side through an executor.

Each replay has a folder of its own, so that its files do not depend on what else is played, and on
how often it was begun.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import Trace
from placewright.rounds.replay.files import SUMMARY, card_of, write_outputs
from placewright.rounds.replay.loop import Loop
from placewright.rounds.replay.spec import (
    NAME,
    SAVE_EVERY_S,
    ReplaySpec,
    check_replay,
    play,
    trace_digest,
    trace_played,
)

ATTEMPTS = 3
"""How often a replay is begun whose worker dies."""


def specs_of(
    spec: ReplaySpec, policies: Sequence[str], loads: Sequence[float], seeds: Sequence[int]
) -> dict[str, ReplaySpec]:
    """Return the replays of a sweep by the name of their folders."""
    return {
        f"{Path(policy).name.replace(':', '-')}-load{load:g}-seed{seed}": replace(
            spec, policy=policy, load=load, seed=seed
        )
        for policy in policies
        for load in loads
        for seed in seeds
    }


def play_file(
    trace_file: str,
    spec: ReplaySpec,
    folder: str,
    *,
    save_every_s: float = SAVE_EVERY_S,
    watch: Callable[[Loop], None] | None = None,
    look: Callable[[Trace], None] | None = None,
) -> dict[str, Any]:
    """Play a trace file and write the files of the replay; one that was killed goes on.

    `look` is called with the trace.

    Returns
    -------
    dict
        The summary.
    """
    began, cpu = time.monotonic(), time.process_time()
    trace, here = read_trace(trace_file), Path(folder)
    if look is not None:
        look(trace)
    result = play(trace, spec, here, save_every_s=save_every_s, watch=watch)
    usage = {
        "wall_s": round(time.monotonic() - began, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
    }
    summary = write_outputs(here, result, spec, Path(trace_file).name, usage)
    (here / NAME).unlink(missing_ok=True)
    return summary


def play_all(
    trace_file: str,
    specs: dict[str, ReplaySpec],
    folder: Path,
    executor: Executor,
    *,
    look: Callable[[Trace], None] | None = None,
) -> Iterator[str]:
    """Play all replays of a sweep; yield the name of each that is done.

    `look` is called with the trace. A replay whose summary is there, with the same assumptions, is
    not played again. One whose worker dies is begun again, and goes on from its last saved state.

    Raises
    ------
    InvalidInputError
        For a trace that cannot be read, or that cannot be played on these hosts.
    """
    trace, trace_name = read_trace(trace_file), Path(trace_file).name
    if look is not None:
        look(trace)
    for spec in specs.values():
        check_replay(trace, spec)
    todo = {
        name: spec
        for name, spec in specs.items()
        if not _is_done(folder / name / SUMMARY, trace, spec, trace_name)
    }
    yield from (name for name in specs if name not in todo)
    file = str(Path(trace_file).absolute())
    for attempt in range(1, ATTEMPTS + 1):
        futures = {
            executor.submit(play_file, file, spec, str((folder / name).absolute())): name
            for name, spec in todo.items()
        }
        for future in as_completed(futures):
            name = futures[future]
            try:
                future.result()
            except Exception:
                if attempt == ATTEMPTS:
                    raise
                continue
            del todo[name]
            yield name
        if not todo:
            return


def _is_done(summary: Path, trace: Trace, spec: ReplaySpec, trace_name: str) -> bool:
    """Return whether a summary is there, of this replay and not of one with another card."""
    try:
        found = json.loads(summary.read_bytes())["card"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    card = card_of(trace_digest(trace_played(trace, spec)), spec, trace_name)
    return bool(found == json.loads(json.dumps(card)))
