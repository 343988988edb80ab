"""The verbs of the `placewright` command, and how wrong usage is reported.

Nothing here or at the top of a verb's module imports more than typer and the standard library, so
that `--help` answers at once; each verb imports what it needs when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

import placewright
from placewright.cli.format.output import Panels, note, register, usage_text
from placewright.cli.verbs import (
    audit,
    bench,
    convert,
    explain,
    export,
    generate,
    live,
    replay,
    show,
    solve,
    verify,
    whatif,
)

app = typer.Typer(
    name="placewright",
    cls=Panels,
    help="Decide which jobs of a GPU cluster start, and on which GPUs, with a proven bound.",
    epilog="Example: placewright solve round.yaml -o plan.json",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
register(
    app,
    {
        "Decide": (solve.solve, solve.preset, solve.protect, replay.replay),
        "Ask": (explain.explain, whatif.whatif, whatif.diff, whatif.compare),
        "Check": (verify.verify, audit.audit, verify.validate, show.show),
        "Make": (
            show.report,
            generate.init,
            generate.examples,
            generate.schema,
            generate.generate,
            convert.convert,
            export.export,
        ),
        "Follow": (live.serve, live.watch),
        "Measure": (bench.bench,),
    },
)

_CLICK_ERROR: Any = typer.BadParameter.__mro__[2]
"""What typer raises for wrong usage; which package it is from depends on typer's version."""


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"placewright {placewright.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that come before the verb."""


def run(args: Sequence[str] | None) -> int:
    """Run the verb that the arguments name (None: those of the process); return its exit code."""
    try:
        code: int | None = app(args, prog_name="placewright", standalone_mode=False)
    except _CLICK_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.message, nl=bool(error.message))  # older versions showed it already
        else:
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "placewright"
            note(f"placewright: {usage_text(error)} (see {command} --help)")
        code = error.exit_code
    return code or 0
