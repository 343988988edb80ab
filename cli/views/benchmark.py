"""The public benchmark on a terminal: its progress, its table, what a submitted plan changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from placewright.cli.format.console import print_table, table
from placewright.instances.policies import sense_of
from placewright.report.benchmark import COLUMNS, skipped_line, summary_cells
from placewright.report.text import term_text
from placewright.rounds.benchmark.results import bests, contradictions, summaries

if TYPE_CHECKING:
    from rich.console import Console

    from placewright.instances.benchmark.index import Instance
    from placewright.rounds.benchmark.run import Row


@contextmanager
def benchmark_progress(console: Console, runs: int) -> Iterator[Callable[[Row], None]]:
    """Yield what is told of each run; on a terminal a bar shows how many, and the time left."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        shown = bar.add_task("starting ...", total=runs)

        def done(row: Row) -> None:
            bar.update(shown, advance=1, description=f"{row.instance} {row.solver}: {row.status}")

        yield done


def print_results(
    console: Console,
    rows: Sequence[Row],
    index: Mapping[str, Instance],
    left_out: Mapping[str, int],
) -> None:
    """Print what was skipped, a line per solver, and whatever contradicts itself."""
    best = bests(rows, index)
    console.print(skipped_line(rows, left_out), soft_wrap=True)
    console.print()
    made = table("Solvers", *COLUMNS, right=COLUMNS[1:])
    for column in made.columns:
        column.no_wrap = True
    for summary in summaries(rows, best):
        made.add_row(*summary_cells(summary))
    print_table(console, made)
    for row in rows:
        if row.status in ("invalid", "failed"):
            console.print(f"{row.instance} {row.solver}: {row.status}: {row.note}", soft_wrap=True)
    for line in contradictions(rows, best):
        console.print(line, soft_wrap=True)


def changes_text(instance: Instance, values: Mapping[str, int]) -> str:
    """Say whether values are new, and of the first term that differs how."""
    if not instance.best:
        return f"accepted, the first plan for {instance.name}"
    for known in instance.best:
        value = values[known.name]
        if value != known.value:
            texts = [term_text(known.name, one) for one in (value, known.value)]
            more = (value > known.value) == (sense_of(known.name) == "max")
            said = "accepted, better than the best known plan" if more else "valid, but not new"
            return f"{said} for {instance.name}: {known.name} {texts[0]}, known {texts[1]}"
    return f"valid, but not new for {instance.name}: equal to the best known plan in every term"
