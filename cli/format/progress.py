"""A line on the terminal while a round is solved; nothing where stderr is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from placewright.report.text import term_text

if TYPE_CHECKING:
    from rich.console import Console

    from placewright.rounds.solve import Progress


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
