"""The verb `convert wan`: regions, and the links between them."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.making import Output, Seed, write_conversion
from placewright.cli.streams import check_output


def convert_wan(
    throughput: Annotated[str, typer.Argument(metavar="THROUGHPUT", help="CSV of Gbit/s.")],
    rtt: Annotated[str, typer.Argument(metavar="RTT", help="CSV of milliseconds.")],
    egress: Annotated[str, typer.Argument(metavar="EGRESS", help="CSV of USD per GB.")],
    output: Output,
    regions: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="These regions, in this order.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", help="So many regions, drawn with --seed.")
    ] = None,
    gpus: Annotated[
        int, typer.Option(metavar="N", help="GPUs of each region, on hosts of 8.")
    ] = 512,
    seed: Seed = 0,
) -> None:
    """Turn measured grids of cloud regions into a round of regions and links, without data or jobs.

    All regions of which throughput was measured, or those that --regions or --count name.

    Example: placewright convert wan throughput.csv rtt.csv egress.csv --count 10 -o wan.json
    """
    check_output(output, throughput, rtt, egress)
    from placewright.instances.converters import read_wan

    names = None if regions is None else regions.split(",")
    write_conversion(
        lambda: read_wan(throughput, rtt, egress, regions=names, count=count, seed=seed, gpus=gpus),
        output,
    )
