"""`Saved`: the files of a replay as they are read back; they may come from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isclose, isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import text_of
from placewright.instances.io.streams import read
from placewright.instances.io.yaml_json import parse_json
from placewright.instances.traces.trace import NEVER, SECOND
from placewright.rounds.replay.measures import Measures, Window
from placewright.rounds.replay.outputs import JOBS, SAMPLES, SUMMARY

Assumption: TypeAlias = str | int | float | bool | None
Card: TypeAlias = dict[str, Assumption]

MAX_BYTES = 1 << 30
"""Of one file: some four million jobs."""

MAX_SUMMARY = 1 << 24
MAX_TEXT = 500
"""Characters of a name or an assumption."""

MAX_NUMBER = 2**53
"""The largest whole number that every reader of JSON has exactly."""

REQUIRED = ("policy", "seed", "trace_sha256")
"""What a card has in any case."""

_JOB_FIELDS = ("submit_us", "gpus", "start_us", "end_us")
_SAMPLE_FIELDS = ("at_s", "busy_gpus", "running", "waiting")


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """A replay as its files have it.

    Parameters
    ----------
    folder
        Where the files are.
    card
        What was assumed.
    measures, by_size, by_tenant
        As in the summary.
    submit_us, gpus, start_us, end_us
        Columns of the jobs that are measured; `NEVER` for a start or an end that did not come.
    samples
        Time in seconds, GPUs held, jobs running and waiting, int64 (samples, 4).
    """

    folder: str
    card: Card
    measures: Measures
    by_size: Mapping[str, Measures]
    by_tenant: Mapping[str, Measures]
    submit_us: Ints
    gpus: Ints
    start_us: Ints
    end_us: Ints
    samples: Ints

    @property
    def jct_s(self) -> Floats:
        """Completion times of the jobs that ended."""
        ended = self.end_us != NEVER
        times: Floats = (self.end_us[ended] - self.submit_us[ended]) / SECOND
        return times

    @property
    def wait_s(self) -> Floats:
        """From submission to the first start, of the jobs that started."""
        started = self.start_us != NEVER
        times: Floats = (self.start_us[started] - self.submit_us[started]) / SECOND
        return times


def read_outputs(folder: str) -> Saved:
    """Read the files of a replay back, and check each field and that they fit together.

    Raises
    ------
    InvalidInputError
        If one is missing or is not what a replay writes; the error names file, line and field.
    """
    summary_file, jobs_file, samples_file = (
        str(Path(folder) / name) for name in (SUMMARY, JOBS, SAMPLES)
    )
    try:
        summary = parse_json(text_of(read(summary_file, MAX_SUMMARY)))
        card, measures, by_size, by_tenant = _summary(summary)
    except InvalidInputError as error:
        raise error.inside(summary_file) from None
    jobs = _columns(jobs_file, _JOB_FIELDS, optional=("start_us", "end_us"))
    _check_times(jobs_file, jobs[:, 0], *jobs[:, 2:].T)
    jobs = jobs[_window(card).rows(jobs[:, 0])]
    samples = _columns(samples_file, _SAMPLE_FIELDS)
    submit, gpus, start, end = jobs.T
    saved = Saved(folder, card, measures, by_size, by_tenant, submit, gpus, start, end, samples)
    try:
        _check_sums(saved)
    except InvalidInputError as error:
        raise error.inside(summary_file) from None
    return saved


def _window(card: Card) -> Window:
    """Return which jobs the summary measures."""
    warm_up, until = card.get("warm_up_s"), card.get("until_s")
    return Window.of(
        warm_up if isinstance(warm_up, int | float) else 0,
        until if isinstance(until, int | float) else None,
    )


def _summary(raw: Any) -> tuple[Card, Measures, dict[str, Measures], dict[str, Measures]]:
    summary = _object(raw)
    if summary.get("kind") != "Replay":
        raise InvalidInputError("expected Replay", path=("kind",), value=summary.get("kind"))
    card = _object(summary.get("card"), "card")
    for key in REQUIRED:
        if key not in card:
            raise InvalidInputError("expected an assumption", path=("card", key))
    for key, value in card.items():
        _check_assumption(key, value)
    return (
        card,
        _measures(summary.get("measures"), "measures"),
        _parts(summary, "by_size"),
        _parts(summary, "by_tenant"),
    )


def _parts(summary: dict[str, Any], part: str) -> dict[str, Measures]:
    found = _object(summary.get(part), part)
    return {name: _measures(one, part, name) for name, one in found.items()}


def _object(raw: Any, *path: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise InvalidInputError("expected an object", path=path, value=raw)
    return raw


def _check_assumption(key: str, value: Any) -> None:
    expected = {"policy": str, "seed": int, "trace_sha256": str}.get(key)
    number = isinstance(value, int | float) and abs(value) <= MAX_NUMBER
    text = isinstance(value, str) and len(value) <= MAX_TEXT
    if expected is str:
        right = text
    elif expected is int:
        right = number and type(value) is int
    else:
        right = value is None or number or text
    if not right:
        kind = {str: "a text", int: "a whole number"}.get(expected or object, "a text or number")
        raise InvalidInputError(f"expected {kind}", path=("card", key), value=value)


def _measures(raw: Any, *path: str) -> Measures:
    measures = _object(raw, *path)
    for key, value in measures.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and isfinite(value)):
            raise InvalidInputError("expected a number", path=(*path, key), value=value)
    return {key: float(value) for key, value in measures.items()}


def _columns(file: str, fields: tuple[str, ...], optional: tuple[str, ...] = ()) -> Ints:
    """Read fields of JSON Lines as columns; what is null in an optional one is `NEVER`."""
    rows: list[int] = []
    for number, line in _lines(file):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise _wrong(file, number, (), None, "expected an object in JSON") from None
        if not isinstance(record, dict):
            raise _wrong(file, number, (), record, "expected an object in JSON")
        for field in fields:
            value = record.get(field)
            if value is None and field in optional:
                value = NEVER
            elif type(value) is not int or not 0 <= value <= MAX_NUMBER:
                raise _wrong(file, number, (field,), value, "expected a whole number, 0 or more")
            rows.append(value)
    return np.array(rows, dtype=np.int64).reshape(-1, len(fields))


def _lines(file: str) -> Iterator[tuple[int, bytes]]:
    content = read(file, MAX_BYTES)
    if len(content) > MAX_BYTES:
        raise InvalidInputError(
            f"expected at most {MAX_BYTES:,} bytes", file=file, show_value=False
        )
    return enumerate(content.splitlines(), 1)


def _wrong(
    file: str, line: int, path: tuple[str, ...], value: Any, expected: str
) -> InvalidInputError:
    error = InvalidInputError(expected, file=file, path=path, value=value, show_value=bool(path))
    error.line = line
    return error


def _check_times(file: str, submit: Ints, start: Ints, end: Ints) -> None:
    for field, times, before in (("start_us", start, submit), ("end_us", end, start)):
        early = np.flatnonzero(times < before)
        if len(early):
            row = int(early[0])
            least = int(before[row])
            known = f"{least} or later" if least != NEVER else "null, for the job never started"
            raise _wrong(file, row + 1, (field,), int(times[row]), f"expected {known}")


def _check_sums(saved: Saved) -> None:
    """Check that a summary is of its jobs."""
    times = saved.jct_s
    counted = {
        "jobs": len(saved.submit_us),
        "unfinished": len(saved.submit_us) - len(times),
        "jct_mean_s": float(times.mean()) if len(times) else 0.0,
    }
    for key, value in counted.items():
        found = saved.measures.get(key)
        if found is None or not isclose(found, value, rel_tol=1e-9, abs_tol=1e-6):
            raise InvalidInputError(
                f"expected {value:,}, as {JOBS} has it", path=("measures", key), value=found
            )
