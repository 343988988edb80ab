"""The verb `diff`: two plans side by side."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from placewright.cli.format.output import check_output, note_written, out, warn_of_invalid_jobs
from placewright.cli.verbs.options import (
    AllDifferences,
    BeforeAfterPicture,
    Format,
    Lenient,
    OutputFormat,
)
from placewright.cli.verbs.verify import check_one_stdin, valid_plan


def diff(
    round_file: Annotated[
        str, typer.Argument(metavar="ROUND", help="Round of the plans; - is stdin.")
    ],
    before_file: Annotated[str, typer.Argument(metavar="BEFORE", help="The first plan.")],
    after_file: Annotated[str, typer.Argument(metavar="AFTER", help="The second plan.")],
    round_after_file: Annotated[
        str | None,
        typer.Option("--round-after", metavar="ROUND", help="Round of AFTER, if it is another."),
    ] = None,
    picture: BeforeAfterPicture = None,
    output_format: OutputFormat = Format.TEXT,
    everything: AllDifferences = False,
    lenient: Lenient = False,
) -> None:
    """Compare two plans: who starts, moves or stops in one only, and which terms are better.

    Both have to be valid (else exit 7). A difference is proven if it holds between the best plans
    of the two rounds.

    Example: placewright diff round.yaml today.json tomorrow.json
    """
    check_one_stdin(round_file, before_file, after_file, round_after_file)
    if picture is not None:
        from placewright.cli.views.picture import check_picture

        check_picture(picture, "--picture")
        check_output(picture, round_file, before_file, after_file)
    from placewright.explain.comparison import compare
    from placewright.instances.io.files import load_round

    round_ = load_round(round_file, lenient=lenient)
    warn_of_invalid_jobs(round_)
    round_after = round_
    if round_after_file is not None:
        round_after = load_round(round_after_file, lenient=lenient)
        warn_of_invalid_jobs(round_after)
    before = valid_plan(round_, round_file, before_file)
    after = valid_plan(round_after, round_after_file or round_file, after_file)
    comparison = compare(round_, before, round_after, after)
    if picture is not None:
        from placewright.cli.views.difference_picture import check_has_gpus, draw_difference

        check_has_gpus(round_after, round_after_file or round_file)
        draw_difference(round_, before, round_after, after, picture)
        note_written(picture)
    from placewright.cli.views.comparison import comparison_object, print_comparison
    from placewright.cli.views.gang.selected import Selection
    from placewright.instances.derived.source_words import words_of

    if output_format is Format.JSON:
        typer.echo(json.dumps(comparison_object(comparison, words_of(round_)), indent=2))
    else:
        print_comparison(
            out(round_), comparison, round_after.now, Selection(everything), words_of(round_)
        )
