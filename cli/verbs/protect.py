"""The verb `protect`: which hosts of running jobs keep whose checkpoints in memory."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from placewright.cli.format.output import STANDARD, check_output, note_written, out, wrong_argument
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import (
    SOLVING_TIME,
    CheckpointMemory,
    Copies,
    FailureLevel,
    Format,
    OutputFormat,
)


def protect(
    round_file: Annotated[
        str, typer.Argument(metavar="ROUND", help="Round whose jobs run; - is stdin.")
    ],
    copies: Copies,
    level: FailureLevel,
    memory: CheckpointMemory,
    job: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A running job; may be repeated. Else all large enough."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write who keeps whose, as JSON."),
    ] = None,
    round_output: Annotated[
        str | None,
        typer.Option("--round", metavar="FILE", help="Write the round that was solved."),
    ] = None,
    output_format: OutputFormat = Format.TEXT,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Of the search; else the round's."),
    ] = None,
) -> None:
    """Decide which hosts of running jobs keep whose checkpoints in memory, and what that survives.

    Teams of M hosts keep each other's checkpoints, as many as can be in different domains.

    Example: placewright protect round.yaml --copies 2 --level rack --memory 64Gi
    """
    check_output(output, round_file)
    check_output(round_output, round_file)
    from placewright.cli.views.protection import print_protection
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io import streams
    from placewright.instances.io.files import load_round, write
    from placewright.rounds.protection import protect as decide

    round_ = load_round(round_file)
    try:
        found = decide(round_, copies, level, memory, job, time_limit=time_limit)
    except InvalidInputError as error:
        options = {"copies", "level", "memory", "job"}
        named = f"--{error.path[0]}" if error.path and error.path[0] in options else "ROUND"
        raise wrong_argument(error, named) from error
    text = json.dumps(found.as_object(), indent=2)
    if round_output is not None:
        with interrupts.writing(round_output):
            write(found.round, round_output)
        note_written(round_output)
    if output is not None:
        with interrupts.writing(output):
            streams.write(output, (text + "\n").encode())
        note_written(output)
    if output_format is Format.JSON and output != STANDARD:
        typer.echo(text)
    elif output != STANDARD:
        print_protection(out(), found)
