"""The `placewright` command: its verbs, and the one place where errors become exit codes.

Nothing here or at the top of a verb's module imports more than typer and the standard library, so
that `--help` answers at once; each verb imports what it needs when it runs.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import placewright
from placewright.cli import check, convert, make, preset, show, solve
from placewright.cli.streams import note
from placewright.collection import no_collection

EXIT_INTERNAL = 1
EXIT_INVALID_INPUT = 3

app = typer.Typer(
    name="placewright",
    help="Decide which jobs of a GPU cluster start, and on which GPUs, with a proven bound.",
    epilog="Example: placewright solve round.yaml -o plan.json",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("solve")(solve.solve)
app.command("verify")(check.verify)
app.command("validate")(check.validate)
app.command("show")(show.show)
app.add_typer(preset.preset)
app.add_typer(make.generate)
app.add_typer(convert.convert)
app.command("schema")(make.schema)


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


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    args
        Words after the program's name; None takes them from ``sys.argv``.

    Returns
    -------
    int
        0 done; 1 internal error; 2 usage; 3 invalid input; 4 a promise is broken; 5 the
        asked gap was missed; 7 verification failed; 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a block character gets "?", not a crash.
            stream.reconfigure(errors="replace")
    try:
        with no_collection():
            app(args, prog_name="placewright")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_INTERNAL
    except Exception as error:  # noqa: BLE001, every error gets one line and an exit code
        return _report(error)
    return 0


def _report(error: Exception) -> int:
    from placewright.instances.errors import InvalidInputError

    if isinstance(error, InvalidInputError):
        note(f"placewright: {error}")
        return EXIT_INVALID_INPUT
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    text = " ".join(str(error).split())
    note(f"placewright: internal error: {type(error).__name__}: {text} ({place}); please report it")
    return EXIT_INTERNAL


if __name__ == "__main__":
    sys.exit(main())
