"""The one style of tables on the command line, and how they are cut."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table

from placewright.cli.format.console import PlainConsole
from placewright.instances.derived.phrases import count

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
