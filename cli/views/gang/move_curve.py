"""The picture of what moves buy: gain over moves, with the proven bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placewright.cli.format.colours import BANDS, LARGE
from placewright.instances.derived.phrases import count
from placewright.instances.policies import sense_of
from placewright.report.text import percent, shortened, term_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from placewright.explain.move_curve import MoveCurve, WithinMoves

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
            f"{percent(share)} of the gain: {found.moves:,} moves",
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
