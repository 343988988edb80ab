"""Tables and curve of an audit: fragmentation, and what moves buy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from placewright.cli.format.console import BANDS, LARGE, MAX_ROWS, print_rest, print_table, table
from placewright.cli.views.gang.tables import print_moves
from placewright.instances.derived.phrases import count, plural, several
from placewright.instances.policies import sense_of
from placewright.report.facts.jobs import OUTCOMES, moves_of
from placewright.report.text import NONE, count_gpus, gpus, number, percent, shortened, term_text
from placewright.report.verdicts import GOING_ON, best_text, covered, proven

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from placewright.explain.gpu_links import LinkAudit
    from placewright.explain.move_curve import MoveCurve, MovePoint, WithinMoves
    from placewright.explain.places import Fragmentation
    from placewright.instances.documents.plan import TermResult
    from placewright.instances.documents.round import Round


# The picture of what moves buy: gain over moves, with the proven bound.


SIZE = (7.5, 4.6)
SHARE_MARKS = (0.5, 0.8, 0.95)
LINE, MARK, FEW, BOUND = BANDS[1], LARGE[2], LARGE[1], "#333333"
MAX_TITLE = 70


def draw_curve(curve: MoveCurve, within: WithinMoves | None, title: str) -> Figure:
    """Return a figure of a curve on which moves buy something, and of the best plan for a few."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    term = curve.term or ""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    moves = [point.moves for point in curve.points]
    values = [point.terms[term] for point in curve.points]
    axes.step(moves, values, where="post", color=LINE, linewidth=1.6)
    axes.plot(moves, values, ".", color=LINE, markersize=3.5)
    result = curve.result
    if result is not None and result.bound is not None:
        axes.axhline(result.bound, color=BOUND, linewidth=1, linestyle="--")
        text = f"{result.proof} bound {term_text(term, result.bound)}"
        above = sense_of(term) == "max"
        axes.annotate(
            text,
            (0, result.bound),
            xytext=(4, -4 if above else 4),
            textcoords="offset points",
            va="top" if above else "bottom",
            size=9,
            color=BOUND,
        )
    for point in dict.fromkeys(curve.points.index(curve.first_with(s)) for s in SHARE_MARKS):
        found = curve.points[point]
        share = curve.gain(found) / curve.gain(curve.points[-1])
        axes.plot([found.moves], [found.terms[term]], "o", color=MARK, markersize=6)
        axes.annotate(
            f"{percent(share)} of the gain: {count(found.moves, 'move')}",
            (found.moves, found.terms[term]),
            xytext=(-8, 2) if found.moves > moves[-1] / 2 else (8, -4),
            textcoords="offset points",
            ha="right" if found.moves > moves[-1] / 2 else "left",
            va="bottom" if found.moves > moves[-1] / 2 else "top",
            size=9,
        )
    if within is not None:
        few = within.point
        axes.plot([few.moves], [few.terms[term]], "D", color=FEW, markersize=5)
        axes.annotate(
            f"best found with {count(within.allowed, 'move')} or fewer",
            (few.moves, few.terms[term]),
            xytext=(8, -2),
            textcoords="offset points",
            va="top",
            size=9,
        )
    axes.set_title(shortened(title, MAX_TITLE), loc="left", size=11, weight="bold")
    axes.set_xlabel("jobs that move or stop")
    axes.set_ylabel(f"{term}, 0 as placed" if not values[0] else term)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: term_text(term, value)))
    axes.margins(x=0.02)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure


MAX_STARTS = 3
SHARE_ROWS = (0.5, 0.8, 0.95, 1.0)


def verdict_text(round_: Round, placed: Sequence[TermResult], curve: MoveCurve | None) -> str:
    """Say in one sentence how far a placement is from the best, and what moves do about it."""
    off = next((result for result in placed if result.gap), None)
    if off is None:
        unproven = next((result for result in placed if result.gap is None), None)
        if unproven is not None:
            return f"How far the placement is from the best in {unproven.name} is not known."
        text = best_text(placed, covered(round_))
        return f"{text[0].upper()}{text[1:]}."
    told = (
        f"In {off.name} the placement is at most {percent(off.gap or 0)} from the best "
        f"({off.proof} bound)"
    )
    if curve is None or curve.term != off.name or not curve.distance:
        return f"{told}."
    last = curve.points[-1]
    closes = "closes" if last.moves == 1 else "close"
    closed = percent(curve.gain(last) / curve.distance)
    return f"{told}; {count(last.moves, 'move')} {closes} {closed} of that."


def print_curve(
    console: Console,
    placed: Sequence[TermResult],
    curve: MoveCurve,
    within: WithinMoves | None,
) -> None:
    """Print how many moves buy how much, and the moves in the order in which they pay.

    `placed` are the terms of the placement with their proven bounds.
    """
    if curve.term is None:
        console.print(f"Moves buy nothing: {best_text(curve.results, GOING_ON)}.", soft_wrap=True)
        off = next((one.name for one in placed if one.gap), None)
        if any(one.name == off for one in proven(curve.results)):
            console.print(
                f"The distance in {off} lies in which jobs were started and with which options, "
                "or in the bound.",
                soft_wrap=True,
            )
        console.print()
        if within is not None:
            print_within(console, within)
        return
    made = table(
        f"What moves buy, in {curve.term}",
        "moves",
        "of these stop",
        "starts",
        "GPUs more",
        curve.term,
        "of the gain",
        "of the distance",
        right=(
            "moves",
            "of these stop",
            "starts",
            "GPUs more",
            curve.term,
            "of the gain",
            "of the distance",
        ),
    )
    for point in rows_of(curve):
        made.add_row(*_row(curve, point))
    print_table(console, made)
    console.print(distance_text(curve))
    console.print()
    if within is not None:
        print_within(console, within)
    _print_order(console, curve)


def rows_of(curve: MoveCurve) -> list[MovePoint]:
    """Return the placement, the points that have the shares of the gain, and the last one."""
    chosen = [curve.points[0], *(curve.first_with(share) for share in SHARE_ROWS)]
    return list({id(point): point for point in chosen}.values())


def distance_text(curve: MoveCurve) -> str:
    """Say how much of the proven distance all moves close."""
    last = curve.points[-1]
    result = curve.result
    if curve.term is None or result is None or not curve.distance:
        return "There is no bound on what moves can buy."
    closed = percent(curve.gain(last) / curve.distance)
    bound = term_text(curve.term, result.bound)
    closing = "closes" if last.moves == 1 else "close"
    return (
        f"{count(last.moves, 'move')} {closing} {closed} of the distance to the {result.proof} "
        f"bound {bound}, which holds whoever moves or stops."
    )


def print_within(console: Console, within: WithinMoves) -> None:
    """Print the best plan found with a number of moves, beside what bounds all such plans."""
    point = within.point
    made = table(
        f"Best plan found with at most {count(within.allowed, 'move')}",
        "term",
        "value",
        "bound",
        "proof",
        right=("value", "bound"),
    )
    results = {result.name: result for result in within.terms}
    for name, value in point.terms.items():
        result = results.get(name)
        made.add_row(
            name,
            term_text(name, value),
            term_text(name, result.bound if result else None),
            (result.proof if result else None) or NONE,
        )
    console.print(made)
    console.print(
        f"It moves {count(point.moves - point.stops, 'job')}, stops {point.stops:,}, starts "
        f"{point.starts:,}, and has {count_gpus(point.milli_gpu)} more in use."
    )
    console.print()


def _row(curve: MoveCurve, point: MovePoint) -> tuple[str, ...]:
    gain, whole, distance = curve.gain(point), curve.gain(curve.points[-1]), curve.distance
    term = curve.term or ""
    return (
        number(point.moves),
        number(point.stops),
        number(point.starts),
        gpus(point.milli_gpu),
        term_text(term, point.terms[term]),
        percent(gain / whole),
        percent(gain / distance) if distance else NONE,
    )


def _print_order(console: Console, curve: MoveCurve) -> None:
    """Print the moves in the order in which they pay, each with what starts after it."""
    jobs = curve.round.jobs
    moves = {m.job: m for m in moves_of({j.name: j for j in jobs}, curve.points[-1].plan)}
    made = table(
        "Moves, those that pay first before others",
        "move",
        "job",
        "decision",
        "GPUs",
        "from",
        "to, or why",
        "then starts",
        right=("move", "GPUs"),
    )
    step = 0
    for stage, following in zip(curve.stages, (*curve.stages[1:], None), strict=True):
        starts = list(stage.starts)
        if following is not None and not following.moves:
            starts += following.starts
        for number_, j in enumerate(stage.moves, 1):
            step += 1
            move = moves.get(jobs[j].name)
            if step > MAX_ROWS or move is None:
                continue
            last = number_ == len(stage.moves)
            made.add_row(
                number(step),
                move.job,
                OUTCOMES[move.kind],
                gpus(move.milli_gpu),
                move.source,
                move.target,
                several([jobs[k].name for k in starts], MAX_STARTS) if last and starts else "",
            )
    print_table(console, made)
    print_rest(console, step, "more move")


def links_text(found: LinkAudit) -> str:
    """Say how many tasks could be joined better on their hosts, and what moves do about it."""
    placed = found.placed
    text = f"of {count(placed.tasks, 'task')} of two or more GPUs on hosts whose links differ"
    if not placed.worse:
        return f"Links: none {text} could be joined better on its host."
    told = [f"{placed.across:,} across NUMA nodes"] if placed.across else []
    if placed.asking:
        told.append(f"{placed.worse_asking:,} of the {placed.asking:,} that ask for links")
    text = f"Links: {placed.worse:,} {text} could be joined better there"
    text += f" ({', '.join(told)})" if told else ""
    if found.plan is None:
        return f"{text}."
    repair = "repairs" if len(found.moved) == 1 else "repair"
    return f"{text}; {count(len(found.moved), 'move')} {repair} {found.repairs:,}."


def print_links(console: Console, found: LinkAudit) -> None:
    """Print how tasks are joined, and the moves that repair links, in their order."""
    console.print(links_text(found), soft_wrap=True)
    console.print()
    if found.plan is not None and found.running is not None:
        jobs = {job.name: job for job in found.running.jobs}
        print_moves(console, moves_of(jobs, found.plan), MAX_ROWS)


def fragmentation_table(placed: Fragmentation, moved: Fragmentation | None, moves: int) -> Table:
    """Show what is free and who can use it, as placed and after all moves."""
    columns = ["as placed", *([] if moved is None else [f"after {count(moves, 'move')}"])]
    made = table("Fragmentation", "", *columns, right=columns)
    states = [placed, *([] if moved is None else [moved])]
    made.add_row("GPUs free", *(gpus(s.free) for s in states))
    made.add_row("  of these whole", *(number(s.whole) for s in states))
    for i, level in enumerate(placed.domains):
        made.add_row(
            f"{plural(level.level)} free as a whole",
            *(f"{s.domains[i].free:,} of {s.domains[i].total:,}" for s in states),
        )
    made.add_row(
        "GPUs stranded for the mix (FGD)",
        *(NONE if s.stranded is None else gpus(s.stranded) for s in states),
    )
    made.add_row(
        "GPUs of no use to any waiting job",
        *("none waits" if s.useless is None else gpus(s.useless) for s in states),
    )
    for i, size in enumerate(placed.tasks):
        made.add_row(
            f"GPUs stranded for tasks of {size.gpus} (room for)",
            *(f"{gpus(s.tasks[i].stranded)} ({s.tasks[i].tasks:,})" for s in states),
        )
    return made
