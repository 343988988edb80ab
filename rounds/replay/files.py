"""The files of a replay: written, read back as they may come from anywhere, and side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, replace
from importlib.metadata import version
from io import BytesIO
from itertools import pairwise
from math import isclose, isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.errors import InvalidInputError
from placewright.instances.io import streams
from placewright.instances.io.files import text_of
from placewright.instances.io.streams import read
from placewright.instances.io.yaml_json import parse_json
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import NEVER, SECOND, Trace
from placewright.rounds.replay.loop import PARTS, Loop
from placewright.rounds.replay.measures import (
    Interval,
    Measures,
    Result,
    Window,
    by_size,
    by_tenant,
    interval,
    measure,
    paired,
)
from placewright.rounds.replay.spec import (
    NAME,
    SAVE_EVERY_S,
    ReplaySpec,
    check_replay,
    play,
    trace_digest,
    trace_played,
)

# The files of a replay: records of jobs and rounds, hourly samples, a summary with assumptions.
#
# `jobs.jsonl`, `samples.jsonl`, `rounds.jsonl` and `summary.json` depend on the trace and the
# assumptions alone, so that two runs of one replay are equal byte for byte. What a run took is in
# `usage.json`.
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
                "jain_thousandths": jain,
            }
        )
        for us, busy, run, wait, parts, jain in result.samples
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
            "isolated_us": result.isolated_us[piece].tolist(),
            "run_us": result.run_us[piece].tolist(),
            "overhead_us": result.overhead_us[piece].tolist(),
            "lost_us": result.lost_us[piece].tolist(),
            "stops": result.stops[piece].tolist(),
            "moves": result.moves[piece].tolist(),
            "resizes": result.resizes[piece].tolist(),
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

_JOB_FIELDS = ("submit_us", "gpus", "start_us", "end_us", "isolated_us")
_SAMPLE_FIELDS = ("at_s", "busy_gpus", "running", "waiting", "jain_thousandths")


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """A replay as its files have it.

    `folder`: where the files are. `card`: what was assumed. `measures`, `by_size`, `by_tenant`: as
    in the summary. `submit_us`, `gpus`, `start_us`, `end_us`, `isolated_us`: columns of the jobs
    that are measured; `NEVER` for a start or an end that did not come, and where an older version
    did not write it. `samples`: time in seconds, GPUs held, jobs running and waiting, and Jain's
    index of the last hour's shares in thousandths, int64 (samples, 5).
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
    isolated_us: Ints
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

    @property
    def fairness(self) -> tuple[Floats, Floats]:
        """When jobs ended, in seconds from the first submission, and their finish-time fairness."""
        known = np.flatnonzero((self.end_us != NEVER) & (self.isolated_us != NEVER))
        known = known[np.argsort(self.end_us[known], kind="stable")]
        took = self.end_us[known] - self.submit_us[known]
        return self.end_us[known] / SECOND, took / np.maximum(self.isolated_us[known], 1)


def read_outputs(folder: str) -> Saved:
    """Read the files of a replay back, and check each field and that they fit together.

    Raises InvalidInputError if one is missing or is not what a replay writes; the error names file,
    line and field.
    """
    summary_file, jobs_file, samples_file = (
        str(Path(folder) / name) for name in (SUMMARY, JOBS, SAMPLES)
    )
    try:
        summary = parse_json(text_of(read(summary_file, MAX_SUMMARY)))
        card, measures, by_size, by_tenant = _summary(summary)
    except InvalidInputError as error:
        raise error.inside(summary_file) from None
    jobs = _columns(jobs_file, _JOB_FIELDS, optional=_JOB_FIELDS[2:])
    _check_times(jobs_file, jobs[:, 0], *jobs[:, 2:4].T)
    jobs = jobs[_window(card).rows(jobs[:, 0])]
    samples = _columns(samples_file, _SAMPLE_FIELDS, optional=_SAMPLE_FIELDS[4:])
    submit, gpus, start, end, isolated = jobs.T
    saved = Saved(
        folder, card, measures, by_size, by_tenant, submit, gpus, start, end, isolated, samples
    )
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
            raise InvalidInputError("expected an assumption", ("card", key), None)
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


COMPARED = ("policy", "seed")
"""Assumptions that are what a comparison is about."""

UNLIKE = ("trace", "placewright")
"""Assumptions that may differ: a trace is known by its sha256, not by the name of its file."""

FEWER_IS_BETTER = frozenset(
    {
        "unfinished",
        "jct_mean_s",
        "jct_p50_s",
        "jct_p90_s",
        "jct_p99_s",
        "wait_mean_s",
        "wait_p50_s",
        "wait_p90_s",
        "wait_p99_s",
        "bounded_slowdown_mean",
        "rho_mean",
        "rho_worst",
        "finish_time_fairness_mean",
        "finish_time_fairness_worst",
        "unfair",
        "stops_per_job",
        "moves_per_job",
        "resizes_per_job",
        "restarts_per_job",
        "value_missed",
        "makespan_s",
        "overhead_gpu_s",
        "lost_gpu_s",
    }
)
MORE_IS_BETTER = frozenset({"deadlines_met"})
"""Of all other measures neither is better: a high allocation may be overhead."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Replays that differ in their seed alone, by seed; most groups have one.

    `name`: the policy, and where another group has the same one, in what they differ. `runs`: at
    least one.
    """

    name: str
    runs: tuple[Saved, ...]

    @property
    def seeds(self) -> tuple[int | float | str | bool | None, ...]:
        """The seed of each run."""
        return tuple(run.card["seed"] for run in self.runs)

    def value(self, measure: str) -> Interval | None:
        """Return a measure over the seeds; None if a run does not have it."""
        values = [run.measures[measure] for run in self.runs if measure in run.measures]
        return interval(np.array(values)) if len(values) == len(self.runs) else None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Groups side by side."""

    groups: tuple[Group, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """All assumptions that some card has."""
        runs = (run for group in self.groups for run in group.runs)
        return tuple(dict.fromkeys(key for run in runs for key in run.card))

    @property
    def differing(self) -> tuple[str, ...]:
        """The assumptions in which the groups differ; over its seeds each may have several."""
        return tuple(key for key in self.keys if len(set(map(repr, self.assumed(key)))) > 1)

    @property
    def measures(self) -> tuple[str, ...]:
        """All measures that some group has, in the order of the summaries."""
        return tuple(dict.fromkeys(key for group in self.groups for key in group.runs[0].measures))

    def assumed(self, key: str) -> tuple[tuple[Assumption, ...], ...]:
        """Return what each group assumes, once where its seeds agree."""
        return tuple(
            tuple(dict.fromkeys(run.card.get(key) for run in group.runs)) for group in self.groups
        )

    def best(self, measure: str) -> frozenset[int]:
        """Return the numbers of the groups that are best; none if all are equal or none is."""
        if measure not in FEWER_IS_BETTER | MORE_IS_BETTER:
            return frozenset()
        found = [group.value(measure) for group in self.groups]
        means = {number: one.mean for number, one in enumerate(found) if one is not None}
        if len(set(means.values())) < 2:
            return frozenset()
        best = (max if measure in MORE_IS_BETTER else min)(means.values())
        return frozenset(number for number, mean in means.items() if mean == best)

    def above_first(self, measure: str, number: int) -> Interval | None:
        """Return how much a group is above the first one, seed by seed.

        None if they do not have two seeds or more, the same ones, or one lacks the measure.
        """
        first, other = self.groups[0], self.groups[number]
        if len(first.runs) < 2 or first.seeds != other.seeds:
            return None
        both = [
            np.array([run.measures.get(measure, np.nan) for run in group.runs])
            for group in (first, other)
        ]
        return None if np.isnan(both).any() else paired(both[0], both[1])


def compare(runs: Sequence[Saved], *, any_card: bool = False) -> Comparison:
    """Put replays side by side, those that differ in their seed alone as one group.

    Raises InvalidInputError if assumptions differ that make their measures incomparable, unless
    `any_card`; or two are the same replay.
    """
    apart = ("seed", *UNLIKE) if any_card else ("seed", "trace_sha256", *UNLIKE)
    grouped: dict[tuple[tuple[str, str], ...], list[Saved]] = {}
    for run in runs:
        grouped.setdefault(_key(run.card, apart), []).append(run)
    groups = [tuple(sorted(group, key=_seed)) for group in grouped.values()]
    for group in groups:
        _refuse_twice(group)
    if not any_card:
        for run in runs[1:]:
            _refuse_other_card(runs, run)
    names = _names([group[0] for group in groups])
    named = tuple(Group(name, group) for name, group in zip(names, groups, strict=True))
    return Comparison(named)


def _names(runs: Sequence[Saved]) -> list[str]:
    """Return the policies, where one is there twice with what differs, or else with the folder."""
    cards = [run.card for run in runs]
    keys = [key for key in _differing(cards) if key not in (*COMPARED, *UNLIKE, "trace_sha256")]
    policies = [str(card["policy"]) for card in cards]
    names = [
        ", ".join([policy, *(f"{key} {card.get(key)}" for key in keys)])
        if policies.count(policy) > 1
        else policy
        for policy, card in zip(policies, cards, strict=True)
    ]
    return [
        f"{policy} ({run.folder})" if names.count(name) > 1 else name
        for policy, name, run in zip(policies, names, runs, strict=True)
    ]


def _key(card: Card, without: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, repr(value)) for key, value in card.items() if key not in without))


def _seed(run: Saved) -> int:
    seed = run.card["seed"]
    return seed if isinstance(seed, int) else 0


def _refuse_twice(group: Sequence[Saved]) -> None:
    for before, run in pairwise(group):
        if before.card["seed"] == run.card["seed"]:
            raise InvalidInputError(
                f"expected another seed or policy than {before.folder} has",
                file=f"{run.folder}/{SUMMARY}",
                path=("card", "seed"),
                value=run.card["seed"],
            )


def _refuse_other_card(runs: Sequence[Saved], run: Saved) -> None:
    """Refuse a run whose assumptions are not those of the first one, and of those of its seed."""
    first = runs[0]
    same_seed = next(one for one in runs if one.card["seed"] == run.card["seed"])
    for key in dict.fromkeys((*first.card, *run.card)):
        if key in COMPARED or key in UNLIKE:
            continue
        other = same_seed if key == "trace_sha256" else first
        if run.card.get(key) != other.card.get(key):
            raise InvalidInputError(
                f"expected {other.card.get(key)!r}, as in {other.folder}; with other assumptions "
                "measures are comparable only if you say so (--any-card)",
                file=f"{run.folder}/{SUMMARY}",
                path=("card", key),
                value=run.card.get(key),
            )


def _differing(cards: Sequence[Card]) -> tuple[str, ...]:
    keys = dict.fromkeys(key for card in cards for key in card)
    return tuple(key for key in keys if len({repr(card.get(key)) for card in cards}) > 1)


# Sweeps: one trace under several policies, loads and seeds, side by side through an executor.
#
# Each replay has a folder of its own, so that its files do not depend on what else is played, and
# on how often it was begun.
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

    Returns the summary.
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
    Raises InvalidInputError for a trace that cannot be read, or that cannot be played on these
    hosts.
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
