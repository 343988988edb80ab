"""The files of a replay: records of jobs and rounds, hourly samples, a summary with assumptions.

`jobs.jsonl`, `samples.jsonl`, `rounds.jsonl` and `summary.json` depend on the trace and the
assumptions alone, so that two runs of one replay are equal byte for byte. What a run took is in
`usage.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from placewright.array_types import Ints
from placewright.instances.io import streams
from placewright.instances.traces.trace import NEVER, SECOND
from placewright.rounds.replay.digests import trace_digest
from placewright.rounds.replay.fragmentation import PARTS
from placewright.rounds.replay.measures import Window, by_size, by_tenant, measure
from placewright.rounds.replay.result import Result
from placewright.rounds.replay.spec import ReplaySpec

JOBS, SAMPLES, ROUNDS = "jobs.jsonl", "samples.jsonl", "rounds.jsonl"
SUMMARY, USAGE = "summary.json", "usage.json"
PIECE = 50_000
"""Jobs whose records are made at once."""


def card_of(trace_sha256: str, spec: ReplaySpec, trace_name: str) -> dict[str, Any]:
    """Return the assumptions card: everything on which the files of a replay depend."""
    return {
        "trace": trace_name,
        "trace_sha256": trace_sha256,
        "placewright": version("placewright"),
        **spec.card(),
    }


def summary_of(result: Result, spec: ReplaySpec, trace_name: str) -> dict[str, Any]:
    """Return the summary: assumptions card, measures, and these by size class and tenant."""
    window = Window.of(spec.warm_up_s, spec.until_s)
    return {
        "kind": "Replay",
        "card": card_of(trace_digest(result.trace), spec, trace_name),
        "measures": measure(result, window),
        "by_size": by_size(result, window),
        "by_tenant": by_tenant(result, window),
    }


def write_outputs(
    folder: Path,
    result: Result,
    spec: ReplaySpec,
    trace_name: str,
    usage: dict[str, float],
) -> dict[str, Any]:
    """Write the files of a replay, each aside and then renamed; return the summary."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = summary_of(result, spec, trace_name)
    _write(folder / JOBS, _job_lines(result))
    samples = (
        json.dumps(
            {
                "at_s": us // SECOND,
                "busy_gpus": busy,
                "running": run,
                "waiting": wait,
                "fragmented_gpus": parts / PARTS,
            }
        )
        for us, busy, run, wait, parts in result.samples
    )
    _write(folder / SAMPLES, (line + "\n" for line in samples))
    rounds = (json.dumps({"at_us": us, "gap": gap}) for us, gap in result.rounds)
    _write(folder / ROUNDS, (line + "\n" for line in rounds))
    _write(folder / SUMMARY, [json.dumps(summary, indent=2) + "\n"])
    _write(folder / USAGE, [json.dumps(usage, indent=2) + "\n"])
    return summary


def _job_lines(result: Result) -> Iterator[str]:
    """Yield a record per job, made in pieces: all at once would take more than the replay did."""
    trace = result.trace
    for first in range(0, len(trace), PIECE):
        piece = slice(first, first + PIECE)
        columns = {
            "job": trace.names[piece],
            "submit_us": trace.submit_us[piece].tolist(),
            "gpus": trace.gpus[piece].tolist(),
            "work_us": trace.work_us[piece].tolist(),
            "start_us": _or_null(result.first_start_us[piece]),
            "end_us": _or_null(result.end_us[piece]),
            "run_us": result.run_us[piece].tolist(),
            "overhead_us": result.overhead_us[piece].tolist(),
            "lost_us": result.lost_us[piece].tolist(),
            "stops": result.stops[piece].tolist(),
            "moves": result.moves[piece].tolist(),
            "deadline_us": _or_null(trace.deadline_us[piece]),
            "value": trace.value[piece].tolist(),
            "tenant": [trace.tenants[tenant] for tenant in trace.tenant[piece].tolist()],
        }
        for row in zip(*columns.values(), strict=True):
            yield json.dumps(dict(zip(columns, row, strict=True))) + "\n"


def _or_null(times: Ints) -> list[int | None]:
    return [None if time == NEVER else time for time in times.tolist()]


def _write(path: Path, lines: Iterable[str]) -> None:
    text = BytesIO()
    for line in lines:
        text.write(line.encode())
    streams.write(str(path), text.getvalue())
