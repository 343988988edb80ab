"""`audit`: how good placements of other rules and schedulers are, and what moves would buy.

Three rules that take the pods of the openb trace one by one, and placements of a real Slurm and a
real Kueue, captured from them. docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.foreign_placements import placed_by
from benchmarks.kueue_dump import kueue_placement
from benchmarks.live_placements import Placement
from benchmarks.presets import NODES, PODS, TRACE
from benchmarks.report import ERROR, SKIPPED, Row
from benchmarks.slurm_dump import slurm_placement
from placewright import load_round, verify, write
from placewright.explain.audit import Audit, audit
from placewright.explain.move_curve import SHARES, MoveCurve
from placewright.instances.converters import convert_openb
from placewright.instances.io.files import load_plan

__all__ = ["Case", "cases", "draw", "run"]

LIVE = Path(__file__).parents[2] / "shared" / "data" / "live"
RULES = ("first-fit", "best-fit", "dot-product")
PODS_OF = "gpuspec10"
SLURM = ("22.05-64nodes", "mini-22.05")
KUEUE = ("kueue-tas-seed1", "kueue-tas-seed3", "kueue-tas-seed5")
SECONDS, QUICK_SECONDS = 30.0, 5.0
"""Time limits of each search."""

FEW = 10
"""Moves that somebody may allow."""

AS_FILES = 16
"""One point in so many is written, read and then verified; the others are verified at once."""


@dataclass(frozen=True, slots=True)
class Case:
    """A placement: where it comes from, who made it, what has to be there, how it is read."""

    name: str
    method: str
    needs: Path
    read: Callable[[], Placement]


def _openb(rule: str) -> Placement:
    round_ = convert_openb(TRACE / NODES, TRACE / PODS.format(PODS_OF))
    return Placement(round_, placed_by(round_, rule))


def cases(*, quick: bool) -> list[Case]:
    """Return all cases; quick ones are one of each kind."""
    pods = TRACE / PODS.format(PODS_OF)
    found = [
        Case(f"openb-{PODS_OF}", rule, pods, partial(_openb, rule))
        for rule in RULES[: 1 if quick else None]
    ]
    for name in SLURM[: 1 if quick else None]:
        folder = LIVE / "slurm" / name
        found.append(Case(f"slurm-{name}", "Slurm", folder, partial(slurm_placement, folder)))
    for name in KUEUE[: 1 if quick else None]:
        folder = LIVE / "kubernetes" / "captured" / name
        found.append(Case(name, "Kueue", folder, partial(kueue_placement, folder)))
    return found


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per term of each placement; what moves buy stands with the first that differs."""
    seconds = QUICK_SECONDS if quick else SECONDS
    for case in chosen:
        if not case.needs.exists():
            note = "the data was not found in ../shared/data"
            yield Row(case.name, case.method, None, SKIPPED, note=note)
            continue
        placement = case.read()
        began = sum(os.times()[:4])
        found = audit(placement.round, placement.plan, moves=FEW, time_limit=seconds)
        cpu = sum(os.times()[:4]) - began  # solver processes that have ended included
        if not found.ok:
            first = found.verification.violations[0]
            yield Row(case.name, case.method, None, "not valid", note=str(first))
            continue
        wrong = None if found.curve is None else _first_wrong(found.curve)
        if wrong is not None:
            yield Row(case.name, case.method, None, ERROR, note=wrong)
            continue
        yield from _rows(case, found, cpu)


def _rows(case: Case, found: Audit, cpu: float) -> Iterator[Row]:
    curve = found.curve
    shown = found.terms[0].name if curve is None or curve.term is None else curve.term
    for term in found.terms:
        yield Row(
            case.name,
            case.method,
            None,
            term.status or "valid",
            term=term.name,
            sense=term.sense,
            value=term.value,
            bound=term.bound,
            gap=term.gap,
            best_gap=term.gap,
            cpu_seconds=cpu if term.name == shown else None,
            figures=_figures(found, curve) if curve and term.name == shown else {},
        )


def _figures(found: Audit, curve: MoveCurve) -> dict[str, float]:
    last = curve.points[-1]
    figures: dict[str, float] = {"points": len(curve.points) - 1}
    if curve.term is not None:
        for share in SHARES:
            figures[f"moves for {share:.0%}"] = curve.first_with(share).moves
        figures |= {"all moves": last.moves, "GPUs more": last.milli_gpu / 1000}
        if curve.distance:
            figures["closes %"] = 100 * curve.gain(last) / curve.distance
    if found.within is not None and curve.term is not None:
        figures[f"GPUs with {FEW}"] = found.within.point.milli_gpu / 1000
    for name, state in (("placed", found.placed), ("moved", found.moved)):
        if state is not None:
            figures[f"free, {name}"] = state.free / 1000
            figures[f"stranded, {name}"] = (state.stranded or 0) / 1000
    return figures


def _first_wrong(curve: MoveCurve) -> str | None:
    """Verify each point, some of them as files that are read again; say what is wrong with one."""
    with TemporaryDirectory() as folder:
        write(curve.round, f"{folder}/round.json")
        written = load_round(f"{folder}/round.json")
        for number, point in enumerate(curve.points):
            round_, plan = curve.round, point.plan
            if number % AS_FILES == 0:
                write(plan, f"{folder}/plan.json")
                round_, plan = written, load_plan(f"{folder}/plan.json")
            checked = verify(round_, plan)
            if not checked.ok:
                return f"{point.moves} moves: {checked.violations[0]}"
            if checked.terms != dict(point.terms):
                return f"{point.moves} moves: {checked.terms} instead of {dict(point.terms)}"
    return None


def draw(rows: Sequence[Row], target: Path) -> None:
    """Draw how many moves close how much of the distance, a line per placement."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        closed = row.figures.get("closes %")
        if closed is None:
            continue
        moves = [row.figures[f"moves for {share:.0%}"] for share in SHARES]
        shares = [share * closed for share in SHARES]
        axes.plot(
            [0.0, *moves, row.figures["all moves"]],
            [0.0, *shares, closed],
            marker=".",
            label=f"{row.case}, {row.method}",
        )
    axes.set(xlabel="jobs that move or stop", ylabel="% of the proven distance closed")
    axes.set_title("What moves buy")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(target, dpi=150)
