"""A line on the terminal while a round is solved; nothing where stderr is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress_of(console: Console) -> Iterator[Callable[[str], None] | None]:
    """Yield what `solve_round` calls with a line of news, None where the console is no terminal."""
    if not console.is_terminal:
        yield None
        return
    with console.status("solving ...") as status:
        yield lambda news: status.update(f"solving ... {news}")
