"""Tables of HTML, as notebooks show documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of text, escaped; None is an empty cell."""

    def line(tag: str, cells: Sequence[object]) -> str:
        shown = ("" if cell is None else escape(str(cell)) for cell in cells)
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in shown) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><caption>{escape(title)}</caption>{line('th', heads)}{body}</table>"
