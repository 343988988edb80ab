"""The verb `whatif`: a round with edits, and what that changes in its plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import (
    STANDARD,
    check_output,
    note_written,
    out,
    warn_of_invalid_jobs,
    warn_of_quantities,
)
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import (
    SOLVING_TIME,
    AllDifferences,
    BeforeAfterPicture,
    Format,
    Lenient,
    OutputFormat,
)
from placewright.cli.verbs.solve import BackendName

if TYPE_CHECKING:
    from placewright.instances.documents.edits import Edits
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round

Hosts = list[str] | None


def whatif(
    round_file: Annotated[
        str, typer.Argument(metavar="ROUND", help="Round as it is, YAML or JSON; - is stdin.")
    ],
    edits_file: Annotated[
        str | None,
        typer.Option("-e", "--edits", metavar="FILE", help="Edits of any kind, or jobs to submit."),
    ] = None,
    drain: Annotated[
        Hosts, typer.Option(metavar="HOST", help="Empty a host or range h[0-3]; may be repeated.")
    ] = None,
    fail: Annotated[
        Hosts, typer.Option(metavar="HOST", help="Hosts fail; who runs there has to start anew.")
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="LIKE[=N]", help="Add N copies of a rack, another domain or a host."),
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT.RESOURCE[@REGION]=AMOUNT",
            help="A quota: 64, +16, -16 or none; in a region, T.gpu@R=64.",
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="JOB.FIELD=VALUE", help="What a job asks: train.count=4, or =none."
        ),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Jobs that had never been.")
    ] = None,
    plan_file: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Plan of the round as it is.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the plan of the edited round."),
    ] = None,
    edited_file: Annotated[
        str | None, typer.Option("--edited", metavar="FILE", help="Write the edited round.")
    ] = None,
    picture: BeforeAfterPicture = None,
    output_format: OutputFormat = Format.TEXT,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Of each plan; else the round's."),
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(metavar="G", min=0, max=1, help="Stop at this gap of the first term."),
    ] = None,
    backend: Annotated[BackendName, typer.Option(help="Solver to use.")] = BackendName.AUTO,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=2**31 - 1, help="Seed of both searches.")
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Work limits, not the clock.")
    ] = False,
    everything: AllDifferences = False,
    lenient: Lenient = False,
) -> None:
    """Change a round, plan it before and after, and say what differs, and what of that is proven.

    Edits are made in the order of the options here, those of --edits first. The second search
    begins with the first plan.

    Example: placewright whatif round.yaml --add rack3 --quota research.gpu=+64
    """
    from placewright.cli.verbs.edit_options import read_edits
    from placewright.cli.verbs.verify import check_one_stdin, check_pair, report_violations

    check_one_stdin(round_file, edits_file, plan_file)
    inputs = tuple(file for file in (round_file, edits_file, plan_file) if file is not None)
    for file in (output, edited_file, picture):
        check_output(file, *inputs)
    if output_format is Format.JSON and STANDARD in (output, edited_file):
        raise typer.BadParameter("expected a file beside --format json", param_hint="-o")
    if picture is not None:
        from placewright.cli.views.picture import check_picture

        check_picture(picture, "--picture")
    given = read_edits(
        edits_file,
        {
            "drain": drain,
            "fail": fail,
            "add": add,
            "quota": quota,
            "set": change,
            "remove": remove,
        },
    )
    from placewright.explain.whatif import UnfinishedError
    from placewright.explain.whatif import whatif as ask
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_plan, load_round, write
    from placewright.instances.verify import verify

    round_ = load_round(round_file, lenient=lenient)
    warn_of_quantities(round_)
    warn_of_invalid_jobs(round_)
    if picture is not None:
        from placewright.cli.views.difference_picture import check_has_gpus

        check_has_gpus(round_, round_file)
    plan = None
    if plan_file is not None:
        plan = load_plan(plan_file)
        check_pair(round_, plan, round_file, plan_file)
        found = verify(round_, plan)
        if not found.ok:
            raise typer.Exit(report_violations(found, plan_file))
    try:
        with interrupts.stopping():
            try:
                answer = ask(
                    round_,
                    given.edits,
                    plan=plan,
                    time_limit=time_limit,
                    gap=gap,
                    backend=backend.value,
                    seed=seed,
                    deterministic=deterministic or None,
                )
            except UnfinishedError as unfinished:
                as_json = output_format is Format.JSON
                _print_unfinished(round_, unfinished.before, given.edits, as_json=as_json)
                raise typer.Exit(interrupts.exit_code) from None
    except InvalidInputError as error:
        raise given.blamed(error) from None
    for document, file in ((answer.after, output), (answer.round_after, edited_file)):
        if file is not None:
            with interrupts.writing(file):
                write(document, file)
            note_written(file)
    if picture is not None:
        from placewright.cli.views.difference_picture import draw_difference

        draw_difference(answer.round, answer.before, answer.round_after, answer.after, picture)
        note_written(picture)
    if STANDARD not in (output, edited_file):
        from placewright.cli.views.gang.selected import Selection
        from placewright.cli.views.whatif import print_whatif, whatif_object

        if output_format is Format.JSON:
            typer.echo(json.dumps(whatif_object(answer, given.edits), indent=2))
        else:
            print_whatif(out(answer.round), answer, given.edits, Selection(everything))
    if interrupts.raised:
        raise typer.Exit(interrupts.exit_code)


def _print_unfinished(round_: Round, first: Plan, edits: Edits, *, as_json: bool) -> None:
    """Print what there is if the second search was interrupted before it had a plan."""
    from placewright.cli.views.whatif import print_unfinished, unfinished_object

    if as_json:
        typer.echo(json.dumps(unfinished_object(first, edits), indent=2))
    else:
        print_unfinished(out(round_), round_, first, edits)
