"""`python -m benchmarks NAME [--quick] [--json] [--plot FILE]`, from the repository's root."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from benchmarks import backends
from benchmarks.report import Row, document, failed, plot, rows_table, summary_table

WIDTH = 160
"""Of the tables where no terminal says how wide it is."""


def _backends(*, quick: bool) -> Iterator[Row]:
    return backends.run(backends.cases(quick=quick), backends.seconds_of(quick=quick))


BENCHMARKS: dict[str, Callable[..., Iterator[Row]]] = {"backends": _backends}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark; results to stdout, progress to stderr.

    Returns
    -------
    1 if a row is an error: a run died, a plan is invalid, or a verified plan beats a bound.
    """
    options = _parser().parse_args(arguments)
    terminal = Console(stderr=True)
    rows = []
    with terminal.status("") as status:
        for row in BENCHMARKS[options.name](quick=options.quick):
            rows.append(row)
            status.update(f"{row.case} {row.method}: {row.status}")
        status.update("calibration")
        made = document(options.name, rows)
    if options.plot is not None:
        plot(options.name, rows, options.plot)
    if options.json:
        json.dump(made, sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        out = Console(width=None if sys.stdout.isatty() else WIDTH)
        out.print(rows_table(rows))
        out.print()
        out.print(summary_table(rows))
        for key in ("machine", "versions", "calibration"):
            out.print(f"{key}: {_line(made[key])}", highlight=False, soft_wrap=True)
    return 1 if failed(rows) else 0


def _line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return f"{value:.3f} CPU s" if isinstance(value, float) else str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=BENCHMARKS, help="which benchmark to run")
    parser.add_argument("--quick", action="store_true", help="few cases, done within a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON document, no tables")
    parser.add_argument("--plot", type=_picture, metavar="FILE", help="also draw FILE (.png, .svg)")
    return parser


def _picture(text: str) -> Path:
    """Check before hours of work that the picture can be drawn afterwards."""
    path = Path(text)
    if find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError("matplotlib is missing; install placewright[plot]")
    if path.suffix not in (".png", ".svg") or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no .png or .svg in a folder that exists")
    return path


if __name__ == "__main__":
    sys.exit(main())
