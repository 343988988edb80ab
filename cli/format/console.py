"""A console that shows what documents say and does nothing that they say."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from placewright.instances.derived.source_words import Words
from placewright.instances.errors import printable


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
