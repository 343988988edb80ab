"""The verb `compare`: replays of several policies side by side."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from placewright.cli.format.output import check_output, note_written, out
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import Format, OutputFormat


def compare(
    folders: Annotated[
        list[str], typer.Argument(metavar="DIR...", help="Folders that replay -o wrote.")
    ],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE.html", help="Write one page with charts."),
    ] = None,
    any_card: Annotated[
        bool, typer.Option("--any-card", help="Compare replays of different assumptions, too.")
    ] = False,
    output_format: OutputFormat = Format.TEXT,
) -> None:
    """Compare replays: completion times, waiting, preemptions, with the best marked.

    Replays that differ in their seed alone become one column, with a 95 % interval. What differs
    in other assumptions than the policy is refused.

    Example: placewright compare srsf fifo -o policies.html
    """
    check_output(output)
    from placewright.cli.views.replay_comparison import print_replays, replays_object
    from placewright.rounds.replay.files import compare as compared
    from placewright.rounds.replay.files import read_outputs

    comparison = compared([read_outputs(folder) for folder in folders], any_card=any_card)
    if output is not None:
        from placewright.instances.io import streams
        from placewright.report.replays import render_replays

        page = render_replays(comparison)
        with interrupts.writing(output):
            streams.write(output, page.encode())
        note_written(output)
    if output_format is Format.JSON:
        typer.echo(json.dumps(replays_object(comparison), indent=2))
    elif output != "-":
        print_replays(out(), comparison)
