"""The verbs `convert openb`, `convert muri` and `convert synergy`."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import check_output, note_written
from placewright.cli.format.times import read_whole_seconds
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import Output, Seed, write_conversion


def convert_openb(
    nodes: Annotated[str, typer.Argument(metavar="NODES", help="CSV of the trace's nodes.")],
    pods: Annotated[str, typer.Argument(metavar="PODS", help="CSV of the trace's pods.")],
    output: Output,
    all_pending: Annotated[
        bool, typer.Option("--all-pending", help="Every pod waits; the cluster is empty (default).")
    ] = False,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=read_whole_seconds(), help="The pods alive at this second."
        ),
    ] = None,
    running: Annotated[
        float | None,
        typer.Option(
            metavar="F", min=0, max=1, help="This fraction of the demand runs, by best fit."
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn Alibaba's openb trace (GPU pods on GPU nodes) into a round.

    The trace records no host, so --running and --at place what runs by best fit, in file order.

    Example: placewright convert openb nodes.csv pods.csv --running 0.7 -o openb.json
    """
    if sum((all_pending, at is not None, running is not None)) > 1:
        raise typer.BadParameter("--all-pending, --at and --running exclude one another; give one")
    check_output(output, nodes, pods)
    from placewright.instances.converters import read_openb
    from placewright.instances.io.files import write

    made = read_openb(nodes, pods, running=running, at=at, seed=seed)
    with interrupts.writing(output):
        write(made.round, output)
    note_written(output, made.summary)


def convert_muri(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    nodes: Annotated[
        str | None, typer.Argument(metavar="NODES", help="CSV of the cluster.")
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=read_whole_seconds(), help="The jobs alive at this second."
        ),
    ] = None,
    first: Annotated[
        int | None, typer.Option(metavar="N", help="The first jobs of the trace.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="So many jobs, drawn with --seed.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Hosts of 8 GPUs instead of NODES; without either a quarter of what jobs ask.",
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn a trace of Muri (jobs with the stage times of an iteration) into a round.

    All jobs of the trace wait, or those that --at, --first or --jobs name.

    Example: placewright convert muri trace1.csv n8g8.csv --at 3855623 -o muri.json
    """
    inputs = (trace,) if nodes is None else (trace, nodes)
    check_output(output, *inputs)
    from placewright.instances.converters import read_muri

    write_conversion(
        lambda: read_muri(trace, nodes, at=at, first=first, jobs=jobs, gpus=gpus, seed=seed), output
    )


def convert_synergy(
    profiles: Annotated[str, typer.Argument(metavar="PROFILES", help="JSON of the matrices.")],
    output: Output,
    servers: Annotated[
        int, typer.Option(metavar="N", help="Hosts of 8 GPUs, 24 cores and 500 GB.")
    ] = 16,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Jobs; by default enough to ask for all GPUs.")
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="I,L,S", help="Parts of image, language and speech models.")
    ] = "20,70,10",
    gpus: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of GPUs of jobs, each as likely.")
    ] = "1",
    seed: Seed = 0,
) -> None:
    """Draw jobs from Synergy's models (speed by cores and memory) into a round.

    Example: placewright convert synergy synergy_profiles.json --servers 64 -o synergy.json
    """
    check_output(output, profiles)
    from placewright.instances.converters import read_synergy

    write_conversion(
        lambda: read_synergy(
            profiles,
            servers=servers,
            jobs=jobs,
            split=_whole_numbers(split, "--split"),
            gpus=_whole_numbers(gpus, "--gpus"),
            seed=seed,
        ),
        output,
    )


def _whole_numbers(text: str, option: str) -> list[int]:
    """Return the whole numbers of a list with commas."""
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise typer.BadParameter(
            f"{text!r}: expected whole numbers with commas between", param_hint=option
        )
    return [int(part) for part in parts]
