"""The verb `replay`: a scheduling policy over a trace."""

from __future__ import annotations

import json
import re
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from placewright.cli.format.output import note_written, out, wrong_argument
from placewright.cli.format.times import read_seconds
from placewright.cli.verbs.options import Format

_OVERHEAD = read_seconds(0, 31_536_000)
_EVERY = read_seconds(1, 31_536_000)
_HOSTS = re.compile(r"([0-9]{1,6})x([0-9]{1,4})")
MAX_HOSTS = 200_000


class Placer(StrEnum):
    """Where a job goes."""

    FIRST_FIT = "first-fit"
    BEST_FIT = "best-fit"
    COUNTING = "counting"


class Places(StrEnum):
    """Whether running jobs keep their places."""

    KEPT = "kept"
    FREE = "free"


class Charge(StrEnum):
    """When the overhead of a start is paid."""

    START = "start"
    EVENT = "event"


class StartTable(StrEnum):
    """Tables of starts by model and GPUs."""

    MURI = "muri"


def replay(
    trace_file: Annotated[
        str, typer.Argument(metavar="TRACE", help="Jobs over time, a CSV file; - is stdin.")
    ],
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="A policy, or file.py:name for one of your own (it is executed)."
        ),
    ],
    hosts: Annotated[
        str, typer.Option(metavar="NxG", help="N hosts of G GPUs; several with commas.")
    ],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="DIR", help="Folder for the records.")
    ] = None,
    placer: Annotated[Placer, typer.Option(help="Which host a job gets.")] = Placer.FIRST_FIT,
    places: Annotated[
        Places, typer.Option(help="Whether running jobs stay where they are.")
    ] = Places.KEPT,
    every: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=_EVERY, help="Decide in rounds of this length."),
    ] = None,
    at_most_every: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=_EVERY, help="Decide at events, but no sooner than this."
        ),
    ] = None,
    start: Annotated[
        float, typer.Option(metavar="TIME", parser=_OVERHEAD, help="Overhead of each start.")
    ] = 0.0,
    start_table: Annotated[
        StartTable | None, typer.Option(help="Overheads of starts by model and GPUs.")
    ] = None,
    stop: Annotated[
        float, typer.Option(metavar="TIME", parser=_OVERHEAD, help="Overhead of a preemption.")
    ] = 0.0,
    move: Annotated[
        float, typer.Option(metavar="TIME", parser=_OVERHEAD, help="Overhead of a migration.")
    ] = 0.0,
    charge: Annotated[
        Charge, typer.Option(help="When a start is paid; event is as Muri's simulator does.")
    ] = Charge.START,
    load: Annotated[
        float, typer.Option(metavar="X", min=0.001, max=1000, help="Compress arrivals by X.")
    ] = 1.0,
    output_format: Annotated[
        Format, typer.Option("--format", help="What to print: a table, or the summary as JSON.")
    ] = Format.TABLE,
) -> None:
    """Play a policy over a trace: completion times, waiting, stops, use of the cluster.

    Example: placewright replay trace.csv --policy srsf --hosts 8x8 -o srsf
    """
    if every is not None and at_most_every is not None:
        raise typer.BadParameter(
            "expected --every or --at-most-every, not both", param_hint="--at-most-every"
        )
    sizes = _host_sizes(hosts)
    if output is not None and Path(output).is_file():
        raise typer.BadParameter(f"{output}: expected a folder", param_hint="-o")
    began, cpu = time.monotonic(), time.process_time()
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.traces.read import read_trace
    from placewright.rounds.replay.outputs import summary_of, write_outputs
    from placewright.rounds.replay.spec import ReplaySpec, play, policy_named

    try:
        policy_named(policy)
    except InvalidInputError as error:
        raise wrong_argument(error, "--policy") from error
    trace = read_trace(trace_file)
    interval = every if every is not None else at_most_every
    spec = ReplaySpec(
        policy=policy,
        hosts=sizes,
        placer=placer.value,
        places=places.value,
        every_s=None if interval is None else round(interval),
        at_most_every=at_most_every is not None,
        start_s=start,
        start_table=None if start_table is None else start_table.value,
        stop_s=stop,
        move_s=move,
        charge=charge.value,
        load=load,
    )
    result = play(trace, spec)
    name = Path(trace_file).name
    if output is None:
        summary = summary_of(result, spec, name)
    else:
        usage = {
            "wall_s": round(time.monotonic() - began, 3),
            "cpu_s": round(time.process_time() - cpu, 3),
        }
        summary = write_outputs(Path(output), result, spec, name, usage)
        note_written(output)
    if output_format is Format.JSON:
        typer.echo(json.dumps(summary, indent=2))
        return
    from placewright.cli.views.replay import print_summary

    print_summary(out(), summary)


def _host_sizes(text: str) -> tuple[int, ...]:
    """Read hosts such as 16x8 or 4x8,2x4."""
    sizes: list[int] = []
    for part in text.split(","):
        match = _HOSTS.fullmatch(part.strip())
        number, gpus = (int(match[1]), int(match[2])) if match else (0, 0)
        if not number or not gpus or len(sizes) + number > MAX_HOSTS:
            raise typer.BadParameter(
                f"{text}: expected NxG, at most {MAX_HOSTS} hosts", param_hint="--hosts"
            )
        sizes += [gpus] * number
    return tuple(sizes)
