"""A line on the terminal while a round is solved; nothing where stderr is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from placewright.cli.text import number

if TYPE_CHECKING:
    from rich.console import Console

Progress = Callable[[int, float | None], None]


@contextmanager
def progress_of(console: Console) -> Iterator[Progress | None]:
    """Yield what `solve_round` tells the first term's best value and tightest bound.

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
            status.update(f"{seconds:.1f} s: value {number(value)}, bound {number(bound)}")

        yield show
