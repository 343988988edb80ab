"""What a benchmark reports: rows, as tables for people and as one JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeAlias

from rich import box
from rich.table import Table

from benchmarks.measure import calibration
from placewright.rounds.benchmark.run import machine, versions

__all__ = [
    "ERROR",
    "OURS",
    "SKIPPED",
    "Document",
    "Row",
    "document",
    "failed",
    "figures_table",
    "keep",
    "kept",
    "means_table",
    "rows_table",
    "summary_table",
]

Document: TypeAlias = dict[str, object]

ERROR, SKIPPED = "error", "skipped"
OURS = "placewright"
SHIFT_SECONDS = 1.0
"""Shift of the geometric mean, so that milliseconds do not decide it."""

NONE = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one case; None where there is nothing to report.

    Parameters
    ----------
    seed
        Of the case; None if it is a file.
    status
        As the method ended; `skipped` and `error` have a note and no figures.
    term, sense
        The objective term that is compared, and whether more (`max`) or less is better.
    value, bound, gap
        Of a verified plan, as the method proves it, and the fraction between the two.
    best_gap
        Fraction between the value and the tightest bound that any method proved for this case.
    seconds, cpu_seconds, peak_mib
        Wall clock, and the use of all processes, solvers included.
    figures
        What only this benchmark reports, by the title of its column.
    """

    case: str
    method: str
    seed: int | None
    status: str
    term: str | None = None
    sense: Literal["max", "min"] = "max"
    value: int | None = None
    bound: float | None = None
    gap: float | None = None
    best_gap: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_mib: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def round_name(self) -> str:
        """Its case, and the seed if there is one."""
        return self.case if self.seed is None else f"{self.case} seed {self.seed}"


def document(benchmark: str, rows: Sequence[Row]) -> Document:
    """Return the JSON document of a run; it measures the calibration of the machine."""
    return {
        "benchmark": benchmark,
        "machine": machine(),
        "versions": versions(),
        "calibration": calibration(),
        "rows": [asdict(row) for row in rows],
    }


def keep(file: Path, case: str, rows: Sequence[Row]) -> None:
    """Append the rows of a case to a file, as a line of their own."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"case": case, "rows": [asdict(row) for row in rows]}) + "\n")


def kept(file: Path) -> dict[str, list[Row]]:
    """Return the rows that a file has of each case; none if there is no such file."""
    if not file.exists():
        return {}
    found: dict[str, list[Row]] = {}
    for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        found.setdefault(line["case"], []).extend(Row(**row) for row in line["rows"])
    return found


def failed(rows: Iterable[Row]) -> bool:
    """Whether any row is an error."""
    return any(row.status == ERROR for row in rows)


def rows_table(rows: Sequence[Row]) -> Table:
    """Return a line per row, with a blank line between cases."""
    titles = ("case", "method", "term", "value", "bound", "gap", "to best")
    made = _table(*titles, "seconds", "CPU s", "MiB", "", left=3)
    for row, case in _cases(made, rows):
        made.add_row(
            case,
            row.method,
            row.term or NONE,
            _number(row.value),
            _number(row.bound),
            _percent(row.gap),
            _percent(row.best_gap),
            _figure(row.seconds, 2),
            _figure(row.cpu_seconds, 2),
            _figure(row.peak_mib, 0),
            ": ".join(part for part in (row.status, row.note) if part),
        )
    return made


def figures_table(rows: Sequence[Row]) -> Table:
    """Return a line per row that has further figures, and a column for each of these."""
    titles = tuple(dict.fromkeys(title for row in rows for title in row.figures))
    made = _table("case", "method", *titles, left=2)
    for row, case in _cases(made, [row for row in rows if row.figures]):
        figures = (row.figures.get(title) for title in titles)
        texts = (_number(f) if isinstance(f, int) else _figure(f, 2) for f in figures)
        made.add_row(case, row.method, *texts)
    return made


def means_table(rows: Sequence[Row]) -> Table:
    """Return a line per case and method: the means over the seeds of its further figures."""
    titles = tuple(dict.fromkeys(title for row in rows for title in row.figures))
    made = _table("case", "method", "seeds", *titles, left=2)
    alike: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.figures:
            alike.setdefault((row.case, row.method), []).append(row)
    last = None
    for (case, method), mine in alike.items():
        if last not in (None, case):
            made.add_row()
        means = (fmean(values) if (values := _of(mine, title)) else None for title in titles)
        name, last = "" if case == last else case, case
        made.add_row(name, method, str(len(mine)), *(_figure(mean, 2) for mean in means))
    return made


def _of(rows: Iterable[Row], title: str) -> list[float]:
    return [row.figures[title] for row in rows if title in row.figures]


def summary_table(rows: Sequence[Row]) -> Table:
    """Return a line per method over the cases that it was tried on.

    A case without a plan counts as a gap of 100 %. The last column divides the method's mean CPU
    seconds by placewright's on the same cases.
    """
    made = _table(
        "method", "cases", "plans", "proven", "mean to best", "worst", "CPU s", "x placewright"
    )
    ours = {(row.case, row.seed): row for row in rows if row.method == OURS}
    for method in dict.fromkeys(row.method for row in rows):
        mine = [row for row in rows if row.method == method and row.cpu_seconds is not None]
        gaps = [1.0 if row.best_gap is None else row.best_gap for row in mine]
        cpu = shifted_mean(row.cpu_seconds for row in mine)
        theirs = shifted_mean(
            ours[row.case, row.seed].cpu_seconds for row in mine if (row.case, row.seed) in ours
        )
        made.add_row(
            method,
            str(len(mine)),
            str(sum(row.value is not None for row in mine)),
            str(sum(row.status in ("optimal", "within_gap") for row in mine)),
            _percent(sum(gaps) / len(gaps) if gaps else None),
            _percent(max(gaps, default=None)),
            _figure(cpu, 2),
            _figure(cpu / theirs if cpu is not None and theirs else None, 2),
        )
    return made


def shifted_mean(seconds: Iterable[float | None]) -> float | None:
    """Geometric mean of the known values, each shifted by a second; None if there are none."""
    known = [math.log(s + SHIFT_SECONDS) for s in seconds if s is not None]
    return math.exp(sum(known) / len(known)) - SHIFT_SECONDS if known else None


def _table(*columns: str, left: int = 1) -> Table:
    """Return an empty table whose first columns (and an unnamed one) hold words, others figures."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for i, column in enumerate(columns):
        words = i < left or not column
        made.add_column(
            column, justify="left" if words else "right", no_wrap=bool(column), overflow="fold"
        )
    return made


def _cases(made: Table, rows: Iterable[Row]) -> Iterator[tuple[Row, str]]:
    """Yield each row with its case if that is new, and put a blank line between cases."""
    last: tuple[str, int | None] | None = None
    for row in rows:
        case = (row.case, row.seed)
        if last not in (None, case):
            made.add_row()
        yield row, "" if case == last else row.round_name
        last = case


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def _figure(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"


def _percent(gap: float | None) -> str:
    return NONE if gap is None else f"{100 * gap:.3f} %"
