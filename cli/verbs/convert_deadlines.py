"""The verbs `convert chronus` and `convert elasticflow`: traces with deadlines."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import check_output
from placewright.cli.format.times import read_whole_seconds
from placewright.cli.verbs.options import Output, Seed, write_conversion

Asked = Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs, on hosts of 8.")]
Drawn = Annotated[
    int | None, typer.Option("--jobs", metavar="N", help="So many jobs, drawn with --seed.")
]
Lease = Annotated[
    int,
    typer.Option(
        "--lease", metavar="TIME", parser=read_whole_seconds(), help="Length of a lease: 20m."
    ),
]
Slack = Annotated[
    float, typer.Option(metavar="F", help="Part by which jobs run longer than recorded.")
]


def convert_chronus(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    gpus: Asked,
    at: Annotated[
        int | None, typer.Option(metavar="T", help="The jobs alive at this minute of the trace.")
    ] = None,
    ahead: Annotated[
        int, typer.Option(metavar="T", help="Also those submitted up to T minutes after --at.")
    ] = 0,
    jobs: Drawn = None,
    seed: Seed = 0,
    lease: Lease = 1200,
    slack: Slack = 0.0,
    locality: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON of speeds on several hosts.")
    ] = None,
) -> None:
    """Turn a trace of Chronus (jobs with hard and soft deadlines) into a deadline round.

    All jobs of the trace, each ready when it is submitted, or those that --at or --jobs name.

    Example: placewright convert chronus trace.csv --gpus 120 --at 2000 -o chronus.json
    """
    check_output(output, *((trace,) if locality is None else (trace, locality)))
    from placewright.instances.converters import read_chronus

    write_conversion(
        lambda: read_chronus(
            trace,
            gpus=gpus,
            at=at,
            ahead=ahead,
            jobs=jobs,
            seed=seed,
            lease_s=lease,
            slack=slack,
            locality=locality,
        ),
        output,
    )


def convert_elasticflow(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    gpus: Asked,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=read_whole_seconds(), help="The jobs alive at this second."
        ),
    ] = None,
    ahead: Annotated[
        int,
        typer.Option(
            metavar="TIME", parser=read_whole_seconds(), help="Also those submitted so long after."
        ),
    ] = 0,
    jobs: Drawn = None,
    seed: Seed = 0,
    lease: Lease = 1200,
    slack: Slack = 0.0,
    elastic: Annotated[
        int | None, typer.Option(metavar="N", help="Jobs may have 1, 2, 4 ... up to N GPUs.")
    ] = None,
    profiles: Annotated[
        str | None, typer.Option(metavar="FILE", help="CSV of iterations by model and GPUs.")
    ] = None,
) -> None:
    """Turn a deadline trace of ElasticFlow into a deadline round.

    All jobs of the trace, each ready when it is submitted, or those that --at or --jobs name. With
    --elastic a job may have more GPUs than it asks, and is faster by --profiles or Amdahl's law.

    Example: placewright convert elasticflow cluster10.csv --gpus 64 --elastic 16 -o round.json
    """
    check_output(output, *((trace,) if profiles is None else (trace, profiles)))
    from placewright.instances.converters import read_elasticflow

    write_conversion(
        lambda: read_elasticflow(
            trace,
            gpus=gpus,
            at=at,
            ahead=ahead,
            jobs=jobs,
            seed=seed,
            lease_s=lease,
            slack=slack,
            elastic=elastic,
            profiles=profiles,
        ),
        output,
    )
