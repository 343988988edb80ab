"""`python -m benchmarks NAME [--quick] [--case PATTERN] [--json] [--plot FILE]`, from the root."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import (
    audit,
    backfill,
    costs,
    deadline,
    explain,
    first_round,
    geo,
    incremental,
    interleaving,
    links,
    live,
    network,
    packing,
    policies,
    pools,
    presets,
    queueing,
    replay,
    resilience,
    scale,
    shapes,
    slurm,
    stages,
)
from benchmarks.guards import gains
from benchmarks.plots import over_cost
from benchmarks.report import (
    Row,
    document,
    failed,
    figures_table,
    keep,
    kept,
    means_table,
    rows_table,
    summary_table,
)

WIDTH = 1000
"""More than any table needs, on terminals too: a number that is cut is another number."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What one benchmark tries, how it yields rows of that, and how it draws them.

    `cases(quick=...)` returns cases, which have names; `run(cases, quick=...)` yields rows.
    """

    cases: Callable[..., list[Any]]
    run: Callable[..., Iterator[Row]]
    draw: Callable[[Sequence[Row], Path], None]


BENCHMARKS = {
    "scale": Benchmark(scale.cases, scale.run, scale.draw),
    "costs": Benchmark(costs.cases, costs.run, partial(over_cost, "costs")),
    "incremental": Benchmark(incremental.cases, incremental.run, partial(over_cost, "incremental")),
    "packing": Benchmark(packing.cases, packing.run, partial(over_cost, "packing")),
    "shapes": Benchmark(shapes.cases, shapes.run, partial(over_cost, "shapes")),
    "interleaving": Benchmark(
        interleaving.cases, interleaving.run, partial(over_cost, "interleaving")
    ),
    "deadline": Benchmark(deadline.cases, deadline.run, partial(over_cost, "deadline")),
    "geo": Benchmark(geo.cases, geo.run, partial(over_cost, "geo")),
    "first-round": Benchmark(first_round.cases, first_round.run, partial(over_cost, "first-round")),
    "backfill": Benchmark(backfill.cases, backfill.run, backfill.draw),
    "slurm": Benchmark(slurm.cases, slurm.run, slurm.draw),
    "explain": Benchmark(explain.cases, explain.run, explain.draw),
    "audit": Benchmark(audit.cases, audit.run, audit.draw),
    "links": Benchmark(links.cases, links.run, links.draw),
    "live": Benchmark(live.cases, live.run, partial(over_cost, "live")),
    "policies": Benchmark(policies.cases, policies.run, partial(over_cost, "policies")),
    "pools": Benchmark(pools.cases, pools.run, partial(over_cost, "pools")),
    "queueing": Benchmark(queueing.cases, queueing.run, partial(over_cost, "queueing")),
    "presets": Benchmark(presets.cases, presets.run, partial(over_cost, "presets")),
    "replay": Benchmark(replay.cases, replay.run, replay.draw),
    "network": Benchmark(network.cases, network.run, network.draw),
    "stages": Benchmark(stages.cases, stages.run, partial(over_cost, "stages")),
    "resilience": Benchmark(resilience.cases, resilience.run, partial(over_cost, "resilience")),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark; results to stdout, progress to stderr.

    Returns
    -------
    1 if a row is an error: a run died, a plan is invalid, a verified plan beats a bound, or an
    engine fell behind.
    """
    if (given := sys.argv[1:] if arguments is None else arguments)[:1] == ["gains"]:
        return gains.main(given[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    benchmark = BENCHMARKS[options.name]
    cases = benchmark.cases(quick=options.quick)
    chosen = [case for case in cases if fnmatchcase(case.name, options.case)]
    if not chosen:
        names = ", ".join(dict.fromkeys(case.name for case in cases))
        parser.error(f"--case {options.case!r} matches no case; expected some of {names}")
    terminal = Console(stderr=True)
    rows: list[Row] = []
    known = {} if options.rows is None else kept(options.rows)
    with terminal.status("") as status:
        # A file shows no status, and keeps all lines.
        tell = status.update if terminal.is_terminal else partial(terminal.print, soft_wrap=True)
        for name, alike in groupby(chosen, key=lambda case: case.name):
            if name in known:
                rows += known[name]
                continue
            before = len(rows)
            for row in benchmark.run(list(alike), quick=options.quick):
                rows.append(row)
                tell(f"{row.round_name} {row.method}: {row.status}")
            if options.rows is not None:
                keep(options.rows, name, rows[before:])
        tell("calibration")
        made = document(options.name, rows)
    if options.json:
        json.dump(made, sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        out = Console(width=WIDTH)
        tables = [rows_table(rows)]
        if any(row.figures for row in rows):
            tables.append(figures_table(rows))
        if len({(row.case, row.method) for row in rows}) < len(rows):
            tables.append(means_table(rows))
        if any(row.term for row in rows):
            tables.append(summary_table(rows))
        for table in tables:
            out.print(table)
            out.print()
        for key in ("machine", "versions", "calibration"):
            out.print(f"{key}: {_line(made[key])}", highlight=False, soft_wrap=True)
    if options.plot is not None:
        benchmark.draw(rows, options.plot)
    return 1 if failed(rows) else 0


def _line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return f"{value:.3f} CPU s" if isinstance(value, float) else str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=BENCHMARKS, help="which benchmark to run")
    parser.add_argument("--quick", action="store_true", help="few cases, done within a minute")
    parser.add_argument(
        "--case", default="*", metavar="PATTERN", help="only cases of such a name (with * and ?)"
    )
    parser.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="append the rows of each case to FILE, and do not run cases that it has",
    )
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
