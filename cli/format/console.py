"""Tables and texts on a terminal: consoles, colours, the one style of tables, progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from placewright.instances.derived.phrases import count
from placewright.instances.derived.source_words import Words
from placewright.instances.errors import printable
from placewright.report.text import term_text

if TYPE_CHECKING:
    from placewright.rounds.solve import Progress


# The colours of maps and pictures: one per large started or migrated job, one for the rest.
#
# The hues of the large jobs stay apart for readers with a colour vision deficiency; what runs
# already and stays is grey, so that a plan stands out from what it found. Timelines have a colour
# per resource, charts of leases one per kind of promise, none of them that of a job.


LARGE = (
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#7e57c2",
    "#c0b000",
    "#882255",
    "#0f5ea8",
)
HATCHES = (None, "///", "...")
"""Of jobs after those with the plain colours, and after those."""
PLACED = "#56b4e9"
STAYS = ("#a6a6a6", "#c4c4c4", "#8a8a8a")
PREEMPTED, STOPS = "#fbe3e0", "#e2897f"
RESERVED, TO_VACATE, SHADE = "#f7f1d5", "#f7f1d5", "#b8a24a"
LIGHT = "#ffffff"
"""Of hatches, as `STOPS` and `SHADE` are."""
FREE = ("#ececec", "#d9ead3", "#e4ddf0", "#f8e8cc", "#d5ebf2", "#f4dada", "#efeebe", "#cfd8e6")
FREE_HATCHES, FREE_EDGE = (None, "...", "---", "|||", "\\\\\\", "///", "+++", "xxx"), "#d2d2d2"
UNHEALTHY = "#333333"
STAGES = (
    "#99ddff",
    "#ee8866",
    "#bbcc33",
    "#ffaabb",
    "#44bb99",
    "#eedd88",
    "#aaaa00",
    "#dddddd",
)
"""Light enough for black letters on them."""
PROMISED, LATER, EFFORT, OFFERED = "#4477aa", "#99bbdd", "#ccbb88", "#d55e00"
BANDS = ("#2b4d73", "#4477aa", "#88aacc", "#c3d5e6")


def free_colour(model: int) -> str:
    """Return the pale colour of a free GPU by the index of its model."""
    return FREE[model % len(FREE)]


def free_hatch(model: int) -> str | None:
    """Return the hatch of a free GPU by the index of its model."""
    return FREE_HATCHES[model % len(FREE_HATCHES)]


def stage_colour(resource: int) -> str:
    """Return the colour of a resource in timelines; they repeat after `STAGES`."""
    return STAGES[resource % len(STAGES)]


def band_colour(index: int) -> str:
    """Return the colour of a band of promises, the darkest first."""
    return BANDS[index]


class PlainConsole(Console):
    """Rich without markup, and with escapes for control characters in any text.

    Rich drops colour for NO_COLOR and where no terminal is. Titles and columns of tables are in
    the `words` of the source of a round.
    """

    def __init__(self, *, stderr: bool = False, words: Words | None = None) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)
        self.words = Words() if words is None else words

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render, down to segments: only those that rich marks so may control the terminal."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = segment.text.split("\n")
                yield Segment("\n".join(map(printable, lines)), segment.style)


# The one style of tables on the command line, and how they are cut.


MAX_ROWS = 20


def table(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    """Return an empty table in the one style of the command line."""
    made = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_edge=False
    )
    for column in columns:
        made.add_column(
            column, justify="right" if column in right else "left", overflow="fold", no_wrap=False
        )
    return made


def print_table(console: Console, made: Table) -> None:
    """Print a table and an empty line below it."""
    if isinstance(console, PlainConsole):
        made.title = console.words.say(str(made.title))
        for column in made.columns:
            column.header = console.words.say(str(column.header))
    console.print(made)
    console.print()


def print_rest(console: Console, rows: int, noun: str, limit: int | None = MAX_ROWS) -> None:
    """Say how many rows a table of at most `limit` left out."""
    if limit is not None:
        print_more(console, rows - limit, noun)


def print_more(console: Console, left_out: int, noun: str) -> None:
    """Say how many rows a table left out, if any."""
    if left_out > 0:
        console.print(f"... and {count(left_out, noun)}")
        console.print()


@contextmanager
def progress_of(console: Console, term: str) -> Iterator[Progress | None]:
    """Yield what `solve_round` tells the best value and tightest bound of its headline `term`.

    Yields
    ------
    Callable or None
        None where the console is no terminal.
    """
    if not console.is_terminal:
        yield None
        return
    started = monotonic()
    with console.status("solving ...") as status:

        def show(value: int, bound: float | None) -> None:
            seconds = monotonic() - started
            best, limit = term_text(term, value), term_text(term, bound)
            status.update(f"{seconds:.1f} s: {term} {best}, bound {limit}")

        yield show
