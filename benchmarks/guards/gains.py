"""What each part of the formulations gains: rounds decided with it, and once more without it.

Usage, from the root of the repository:

    python -m benchmarks.guards rounds FOLDER
    python -m benchmarks gains FOLDER FILE [--only PATTERN] [--parts PATTERN] [--page FILE]

Each round is decided in full, and then without each part of its formulation that ran in it, all
deterministic. FILE has a row of JSON for each decision, and is gone on with. The table of gains
goes to the page, or to stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from benchmarks.guards.parts import left_out, observed, parts
from benchmarks.guards.solve import figures_of
from placewright import Changes, Engine, Plan, Round, load_round, solve_round
from placewright.formulations.session import Session
from placewright.rounds.settings import Settings

__all__ = ["Gain", "gains", "main"]

Row: TypeAlias = Mapping[str, Any]
TOLERANCE = 5e-4
"""Relative: what a term or bound has to gain."""

CPU_SHARE, CPU_SECONDS = 0.2, 0.5
"""Of the CPU seconds without a part, and seconds: what it has to save."""

NEVER_S = 3_600.0
"""Later than any deterministic round ends."""

SECONDS, WORK = 10.0, 0.5
"""What a round may plan with, and the most work of one solve."""

ENGINE, LATER, LEAVE = "gain-engine", 4, 100
"""Rounds for an engine, in how many parts their jobs come, and one in so many that leaves."""


@dataclass(frozen=True, slots=True)
class Gain:
    """By how much a round is better with a part: `amount` is relative, negative if it is worse."""

    what: str
    amount: float
    where: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Decide what FILE lacks, then write the table; progress to stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gains",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", metavar="PATTERN", default="*", help="rounds, by name")
    parser.add_argument("--parts", metavar="PATTERN", default="*", help="parts, by name")
    parser.add_argument("--open", action="store_true", help="only parts that gained nothing so far")
    parser.add_argument("--page", type=Path, metavar="FILE", help="whose table is replaced")
    chosen = parser.parse_args(arguments)
    had = _read(chosen.file)
    with chosen.file.open("a", encoding="utf-8") as out:
        for path in sorted(chosen.folder.glob("*.json")):
            if fnmatchcase(path.stem, chosen.only):
                for row in _rows(path, chosen.parts, had, chosen.open):
                    had[row["round"], row["without"]] = row
                    print(json.dumps(row), file=out, flush=True)
                    print(row["round"], row["without"], row.get("error", ""), file=sys.stderr)
    lines = list(table(had))
    if chosen.page is None:
        print(*lines, sep="\n")
    else:
        kept = chosen.page.read_text(encoding="utf-8").partition("\n| part |")[0]
        chosen.page.write_text("\n".join([kept, *lines, ""]), encoding="utf-8")
    return 0


def _read(file: Path) -> dict[tuple[str, str | None], Row]:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return {(row["round"], row["without"]): row for row in map(json.loads, text.splitlines())}


def _rows(
    path: Path, pattern: str, had: Mapping[tuple[str, str | None], Row], only_open: bool
) -> Iterator[Row]:
    """Yield what is lacking of a round."""
    full = had.get((path.stem, None))
    if full is None:
        with observed() as ran:
            figures = _figures(path)
        yield (full := {"round": path.stem, "without": None, "ran": sorted(ran), **figures})
    formulation = f"{full.get('formulation')}/"
    for name in full["ran"]:
        mine = name.startswith(formulation) and fnmatchcase(name, pattern)
        if (
            mine
            and (path.stem, name) not in had
            and not (only_open and _gains_somewhere(name, had))
        ):
            with left_out(name):
                yield {"round": path.stem, "without": name, **_figures(path)}


def _gains_somewhere(part: str, had: Mapping[tuple[str, str | None], Row]) -> bool:
    mine = ((had[name, None], row) for (name, less), row in had.items() if less == part)
    return any(gain.amount > 0 for full, row in mine for gain in gains(full, row))


@contextmanager
def _by_work_alone() -> Iterator[None]:
    """Let no clock end deterministic rounds, on however busy a machine."""
    opened = Settings.session

    @contextmanager
    def session(*arguments: Any) -> Iterator[Session]:
        with opened(*arguments) as made:
            made.deadline, own = made.deadline + NEVER_S, made.solve
            made.solve = lambda backend, arrays, limits, start: own(
                backend, arrays, replace(limits, work=min(limits.work or WORK, WORK)), start
            )
            yield made

    with patch.object(Settings, "session", session):
        yield


def _figures(path: Path) -> Row:
    """Return what comes of a round, or `error`."""
    round_ = load_round(path)
    decide = _by_engine if path.stem.startswith(ENGINE) else _at_once
    try:
        with _by_work_alone():
            found = decide(round_, {"time_limit": SECONDS, "deterministic": True})
    except Exception as error:  # noqa: BLE001 (what dies without a part needs it)
        found = {"error": f"{type(error).__name__}: {error}"}
    return {"formulation": round_.policy.formulation, **found}


def _at_once(round_: Round, limits: Mapping[str, Any]) -> dict[str, Any]:
    return figures_of(solve_round(round_, **limits))


def _by_engine(round_: Round, limits: Mapping[str, Any]) -> dict[str, Any]:
    """Let pending jobs arrive, and running ones leave, round by round; the first is not counted."""
    waiting = [job for job in round_.jobs if job.running is None]
    gone = [job.name for job in round_.jobs if job.running is not None]
    late = {job.name for i in range(1, LATER) for job in waiting[i::LATER]}
    jobs = tuple(job for job in round_.jobs if job.name not in late)
    with Engine(round_.model_copy(update={"jobs": jobs}), **limits) as engine:
        engine.round()
        return _sum(
            engine.round(Changes(removed=gone[i::LEAVE], added=waiting[i::LATER]))
            for i in range(1, LATER)
        )


def _sum(plans: Iterator[Plan]) -> dict[str, Any]:
    """Return the figures of an engine's rounds together."""
    rows = [figures_of(plan) for plan in plans]
    terms = []
    for same in zip(*(row["terms"] for row in rows), strict=True):
        bounds = [term["bound"] for term in same]
        every = all(term["status"] == "optimal" for term in same)
        terms.append(
            {
                **same[-1],
                "value": sum(term["value"] for term in same),
                "bound": None if None in bounds else sum(bounds),
                "status": "optimal" if every else "feasible",
            }
        )
    degraded = sorted({text for row in rows for text in row["degraded"]})
    seconds = sum(row["cpu_s"] for row in rows)
    return {**rows[-1], "terms": terms, "degraded": degraded, "cpu_s": seconds}


def gains(full: Row, less: Row) -> Iterator[Gain]:
    """Yield by what a decision differs from the one without a part: the first term, then CPU."""
    where = less["round"]
    if "error" in less or "error" in full:
        lost = ("error" in less) - ("error" in full)
        if lost:
            yield Gain("a plan", float(lost), where)
        return
    better = 0.0
    for now, without in zip(full["terms"], less["terms"], strict=True):
        sign = 1 if now["sense"] == "max" else -1
        better = sign * _relative(now["value"], without["value"])
        if abs(better) > TOLERANCE:
            yield Gain(f"`{now['name']}`", better, where)
            break
        proven = (now["status"] != "feasible") - (without["status"] != "feasible")
        if proven:
            yield Gain(f"proof of `{now['name']}`", float(proven), where)
        elif now["bound"] is not None and without["bound"] is not None:
            tighter = sign * _relative(without["bound"], now["bound"])
            if abs(tighter) > TOLERANCE:
                yield Gain(f"bound of `{now['name']}`", tighter, where)
    saved = less["cpu_s"] - full["cpu_s"]
    share = saved / max(full["cpu_s"], less["cpu_s"])
    no_worse = share < 0 or better >= -TOLERANCE
    if no_worse and abs(share) >= CPU_SHARE and abs(saved) >= CPU_SECONDS:
        yield Gain("CPU", share, where)


def _relative(more: float, less: float) -> float:
    return (more - less) / max(1.0, abs(more), abs(less))


def table(rows: Mapping[tuple[str, str | None], Row]) -> Iterator[str]:
    """Yield the lines of the table: each part, how often it ran, what it gains and loses."""
    found: defaultdict[str, list[Gain]] = defaultdict(list)
    number: defaultdict[str, int] = defaultdict(int)
    for (name, part), row in rows.items():
        if part is not None:
            number[part] += 1
            found[part] += gains(rows[name, None], row)
    yield "| part | rounds | gains | loses |"
    yield "|---|--:|---|---|"
    for part in sorted(parts() if number else ()):
        most, none = _most(found[part], 1), "**nothing**" if number[part] else "not tried"
        yield f"| {part} | {number[part]} | {most or none} | {_most(found[part], -1)} |"


def _most(found: Sequence[Gain], sign: int) -> str:
    """Write the largest gain of each kind, or loss."""
    best: dict[str, Gain] = {}
    for gain in found:
        if sign * gain.amount > 0:
            best[gain.what] = max(best.get(gain.what, gain), gain, key=lambda g: sign * g.amount)
    texts = []
    for what, gain in sorted(best.items(), key=lambda item: -sign * item[1].amount):
        percent = "" if what.startswith(("proof", "a plan")) else f" {100 * abs(gain.amount):.2f} %"
        texts.append(f"{what}{percent} ({gain.where})")
    return "; ".join(texts[:3])
