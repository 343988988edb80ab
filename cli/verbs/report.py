"""The verb `report`: one self-contained page about a round and its plan, or two plans."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import (
    STANDARD,
    check_output,
    note_written,
    warn_of_invalid_jobs,
)
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import SOLVING_TIME, Lenient, Output
from placewright.cli.verbs.verify import check_one_stdin, valid_plan


def report(
    round_file: Annotated[str, typer.Argument(metavar="ROUND", help="The round; - is stdin.")],
    plan_file: Annotated[str, typer.Argument(metavar="PLAN", help="A plan of it; - is stdin.")],
    other_file: Annotated[
        str | None, typer.Argument(metavar="[PLAN2]", help="Another plan to show beside it.")
    ] = None,
    output: Output = STANDARD,
    explain: Annotated[
        float,
        typer.Option(
            metavar="TIME",
            parser=SOLVING_TIME,
            help="To look for what would let waiting jobs start; 0: not at all.",
        ),
    ] = 30.0,
    lenient: Lenient = False,
) -> None:
    """Write one HTML page: terms and bounds, a map of all GPUs, why jobs wait, tenants, moves.

    It loads nothing from anywhere, so it can be sent and kept. With two plans both are shown side
    by side. Plans have to be valid (else exit 7).

    Example: placewright report round.yaml plan.json -o report.html
    """
    check_one_stdin(round_file, plan_file, other_file)
    inputs = [one for one in (round_file, plan_file, other_file) if one is not None]
    check_output(output, *inputs)
    from placewright.instances.io import streams
    from placewright.instances.io.files import load_round
    from placewright.report.page import render_report

    round_ = load_round(round_file, lenient=lenient)
    warn_of_invalid_jobs(round_)
    plan = valid_plan(round_, round_file, plan_file)
    other = None if other_file is None else valid_plan(round_, round_file, other_file)
    page = render_report(round_, plan, other, time_limit=explain)
    with interrupts.writing(output):
        streams.write(output, page.encode())
    note_written(output)
