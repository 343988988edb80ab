"""The verbs of the `placewright` command, and how wrong usage is reported.

Nothing here or at the top of a verb's module imports more than typer and the standard library, so
that `--help` answers at once; each verb imports what it needs when it runs. A run makes no more of
the command line than the verb that it names: typer takes a tenth of a second to make it all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Annotated, Any

import typer

import placewright
from placewright.cli.format.output import Panels, note, register, usage_text

PANELS = {
    "Decide": "solve:solve solve:preset solve:protect replay:replay",
    "Ask": "explain:explain whatif:whatif whatif:diff whatif:compare",
    "Check": "verify:verify audit:audit verify:validate show:show",
    "Make": "show:report generate:init generate:examples generate:schema generate:generate "
    "convert:convert export:export",
    "Follow": "live:serve live:watch",
    "Measure": "bench:bench",
}
"""The verbs by panel of the help, each as a module of `verbs` and its name there."""

_CLICK_ERROR: Any = typer.BadParameter.__mro__[2]
"""What typer raises for wrong usage; which package it is from depends on typer's version."""


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"placewright {placewright.__version__}")
        raise typer.Exit


def app_with(verb: str | None = None) -> typer.Typer:
    """Return the command line, with one verb alone if there is one of that name."""
    app = typer.Typer(
        name="placewright",
        cls=Panels,
        callback=_options,
        help="Decide which jobs of a GPU cluster start, and on which GPUs, with a proven bound.",
        epilog="Example: placewright solve round.yaml -o plan.json",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    verbs = {panel: addresses.split() for panel, addresses in PANELS.items()}
    alone = {
        panel: [address]
        for panel, addresses in verbs.items()
        for address in addresses
        if address.endswith(f":{verb}")
    }
    register(
        app,
        {
            panel: [resolve_name(f"placewright.cli.verbs.{address}") for address in addresses]
            for panel, addresses in (alone or verbs).items()
        },
    )
    return app


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
        words = sys.argv[1:] if args is None else args
        app = app_with(words[0] if words else None)
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
