"""One self-contained page about results of the public benchmark, without any script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np
from markupsafe import Markup

from placewright.instances.benchmark.index import Instance
from placewright.instances.derived.phrases import count
from placewright.report.replays import Chart, distributions
from placewright.report.table import Cell, Marked, Table, table
from placewright.report.template import content_policy, environment, text_of
from placewright.report.text import NONE, number
from placewright.rounds.benchmark.results import (
    NEAR,
    Best,
    Summary,
    bests,
    by_solver,
    contradictions,
    counted,
    ratios,
    summaries,
    value_of,
)
from placewright.rounds.benchmark.run import FAILED, SKIPPED, Row
from placewright.rounds.certificate import gap_of

COLUMNS = (
    *("solver", "runs", "plans", "best", "proven"),
    *("mean gap", "CPU s", "primal"),
)
RATIOS = ((1, "1"), (2, "2"), (5, "5"), (10, "10"), (100, "100"), (1000, "1,000"))
"""Ticks of the axis of performance profiles."""

COLOURS = 8


def percent(part: float | None) -> str:
    """Write a part in percent with two decimals, as columns of figures have them."""
    return NONE if part is None else f"{100 * part:.2f} %"


def summary_cells(one: Summary) -> tuple[str, ...]:
    """Return the cells of `COLUMNS` for a solver."""
    return (
        one.solver,
        number(one.runs),
        number(one.plans),
        number(one.bests),
        percent(one.proven / one.runs),
        percent(one.mean_gap),
        NONE if one.cpu_s is None else f"{one.cpu_s:.2f}",
        NONE if one.primal is None else f"{one.primal:.3f}",
    )


def skipped_line(rows: Sequence[Row], left_out: Mapping[str, int]) -> str:
    """Say what was not run: of `left_out` solvers on how many rounds, and rows that say so."""
    counts = Counter((row.note, row.solver) for row in rows if row.status == SKIPPED)
    counts.update({("other policies than gang", name): n for name, n in left_out.items()})
    alike: dict[tuple[str, int], list[str]] = {}
    for (note, solver), number_of in counts.items():
        alike.setdefault((note, number_of), []).append(solver)
    parts = [
        f"{', '.join(solvers)} on {count(number_of, 'round')} ({note})"
        for (note, number_of), solvers in alike.items()
    ]
    return f"Skipped: {'; '.join(parts) if parts else 'nothing'}."


def benchmark_page(rows: Sequence[Row], index: Mapping[str, Instance]) -> str:
    """Return the page as text."""
    best = bests(rows, index)
    made = summaries(rows, best)
    names = [one.solver for one in made]
    style = text_of("page.css") + text_of("replays.css")
    instances = list(dict.fromkeys(row.instance for row in rows))
    solvers = len(names)
    return (
        environment()
        .get_template("benchmark.html")
        .render(
            title="Placewright benchmark",
            subtitle=f"{count(len(instances), 'round')}, {count(solvers, 'solver')}",
            names=names,
            colours=COLOURS,
            skipped=skipped_line(rows, _left_out(rows, instances)),
            wrong=_wrong(rows, best),
            solvers=table(
                "All rounds",
                ("solver", *(f">{column}" for column in COLUMNS[1:])),
                [summary_cells(one) for one in made],
                "Gaps of the first term to the best known value; no plan counts as 100 %. Proven: "
                "within 0.01 % of the solver's own bound. CPU: geometric mean, shifted by 1 s. "
                "Primal: the primal integral, as the mean gap over the time limit, where a solver "
                "tells when it finds what. A solver is measured on the rounds that it takes.",
            ),
            charts=list(_charts(rows, best, names)),
            policies=_policies(rows, best, index, names),
            rounds=_rounds(rows, best, instances, names),
            known=_known(best, index),
            protocol=_protocol(rows),
            policy=content_policy(style),
            style=Markup(style),  # noqa: S704
        )
    )


def _left_out(rows: Sequence[Row], instances: Sequence[str]) -> dict[str, int]:
    """Return on how many of the instances each solver has no row, if on any."""
    tried = {
        solver: len(instances) - len({row.instance for row in mine})
        for solver, mine in by_solver(rows).items()
    }
    return {solver: number for solver, number in tried.items() if number}


def _wrong(rows: Sequence[Row], best: Mapping[str, Best]) -> Table | None:
    """Return what must not be: plans that break a rule, runs that died, bounds that are none."""
    found = [
        (row.instance, row.solver, f"{row.status}: {row.note}")
        for row in rows
        if row.status in FAILED
    ]
    found += [("", "", line) for line in contradictions(rows, best)]
    return table("What went wrong", ("round", "solver", "what"), found) if found else None


def _charts(rows: Sequence[Row], best: Mapping[str, Best], names: Sequence[str]) -> Iterator[Chart]:
    for title, proofs in (
        (f"CPU to a plan within {100 * NEAR:g} % of the best", False),
        ("CPU to a proven first term", True),
    ):
        found = ratios(rows, best, proofs=proofs)
        number = max((of for _, of in found.values()), default=0)
        yield distributions(
            title,
            f"Part of {count(number, 'round')}, taken by all solvers and solved by some, that are "
            "solved with so many times the CPU of the fastest (Dolan and Moré); a curve further "
            "up is better.",
            [np.array(found[name][0], dtype=np.float64) for name in names],
            [max(1, found[name][1]) for name in names],
            RATIOS,
        )


def _policies(
    rows: Sequence[Row],
    best: Mapping[str, Best],
    index: Mapping[str, Instance],
    names: Sequence[str],
) -> Table:
    policies = list(dict.fromkeys(index[one].policy for one in best if one in index))
    lines = []
    for policy in policies:
        known = [row for row in counted(rows) if row.instance in index]
        alike = [row for row in known if index[row.instance].policy == policy]
        gaps = {
            solver: fmean(best[row.instance].gap(value_of(row)) for row in mine)
            for solver, mine in by_solver([row for row in alike if row.instance in best]).items()
        }
        cells = [percent(gaps.get(name)) for name in names]
        lines.append([policy, number(len({row.instance for row in alike})), *cells])
    columns = ("policy", ">rounds", *(f">{name}" for name in names))
    return table("Mean gap to the best known", columns, lines)


def _rounds(
    rows: Sequence[Row],
    best: Mapping[str, Best],
    instances: Sequence[str],
    names: Sequence[str],
) -> Table:
    lines: list[list[Cell]] = []
    for name in instances:
        one, mine = best.get(name), by_solver([row for row in rows if row.instance == name])
        cells: list[Cell] = []
        for solver in names:
            some = counted(mine.get(solver, []))
            if not some or one is None:
                cells.append(NONE)
                continue
            gap = fmean(one.gap(value_of(row)) for row in some)
            proven = all(row.status in ("optimal", "within_gap") for row in some)
            text = percent(gap) if any(row.values for row in some) else "no plan"
            cells.append(Marked(text, "best") if gap == 0 and proven else text)
        lines.append([name, *cells])
    columns = ("round", *(f">{name}" for name in names))
    note = "The mean over seeds. Marked: equal to the best known value, and proven."
    return table("Gap to the best known, by round", columns, lines, note)


def _known(best: Mapping[str, Best], index: Mapping[str, Instance]) -> Table:
    lines = []
    for name, one in best.items():
        known = index.get(name)
        by = NONE if known is None or known.found is None else f"{known.found.by}, {known.found.on}"
        gap = NONE if one.value is None else percent(gap_of(one.value, one.bound))
        lines.append([name, one.term, number(one.value), number(one.bound), gap, by])
    columns = ("round", "first term", ">best known", ">bound", ">gap", "found by")
    return table("Best known, of the index and of these results", columns, lines)


def _protocol(rows: Sequence[Row]) -> Table:
    def said(texts: Iterator[str]) -> str:
        return "; ".join(dict.fromkeys(texts))

    lines = [
        ("limit", said(f"{row.protocol.get('seconds')} s" for row in rows)),
        ("cores of a run", said(str(row.protocol.get("cores")) for row in rows)),
        ("gap to stop at", said(str(row.protocol.get("gap")) for row in rows)),
        ("deterministic", said(str(row.protocol.get("deterministic")) for row in rows)),
        ("seeds", said(str(seed) for seed in sorted({row.seed for row in rows}))),
        ("machine", said(row.machine for row in rows)),
        (
            "versions",
            said(", ".join(f"{k} {v}" for k, v in row.versions.items()) for row in rows),
        ),
    ]
    return table("The same for every run", ("", ""), lines)
