"""Help of a group of verbs in panels, without the markup and the import of rich."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperGroup


class Panels(TyperGroup):
    """A group of verbs whose help lists them by their `rich_help_panel`."""

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write a section of each panel."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, verb in self.commands.items():
            panel = str(getattr(verb, "rich_help_panel", None) or "Commands")
            panels.setdefault(panel, []).append((name, verb.get_short_help_str(limit)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def register(
    group: typer.Typer, panels: Mapping[str, Sequence[Callable[..., Any] | typer.Typer]]
) -> None:
    """Add verbs to a group, each in its panel; `convert_slurm` of `convert` is named `slurm`."""
    for panel, verbs in panels.items():
        for verb in verbs:
            if isinstance(verb, typer.Typer):
                group.add_typer(verb, rich_help_panel=panel)
            else:
                name = verb.__name__.removeprefix(f"{group.info.name}_")
                group.command(name, rich_help_panel=panel)(verb)
