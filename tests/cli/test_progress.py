"""The line on the terminal while a round is solved."""

from __future__ import annotations

import io

from rich.console import Console

from placewright.cli.format.console import progress_of


def test_nothing_is_reported_where_no_terminal_is():
    with progress_of(Console(file=io.StringIO()), "value") as progress:
        assert progress is None


def test_a_terminal_shows_value_and_bound():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, _environ={})
    with progress_of(console, "value") as progress:
        assert progress is not None
        progress(1000, 2000.5)
        progress(1500, None)
    assert "value 1,500, bound -" in stream.getvalue()
