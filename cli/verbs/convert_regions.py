"""The verbs `convert wan` and `convert itp`: regions, and the links between them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from placewright.cli.format.output import check_output
from placewright.cli.format.times import read_whole_seconds
from placewright.cli.verbs.options import Output, RegionPolicy, Seed, write_conversion


class RegionMix(StrEnum):
    """Demand over supply of all regions: 0.95 or 1.2."""

    SPARE = "spare"
    SCARCE = "scarce"


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


def convert_itp(
    traces: Annotated[list[str], typer.Argument(metavar="TRACE...", help="CSV of jobs each.")],
    output: Output,
    regions: Annotated[
        int, typer.Option(metavar="N", help="Those beyond the traces are resampled from them.")
    ] = 10,
    datasets: Annotated[int, typer.Option(metavar="N", help="Datasets, drawn.")] = 100,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=read_whole_seconds(),
            help="The jobs alive at this second; by default the busiest.",
        ),
    ] = None,
    mix: Annotated[
        RegionMix, typer.Option(help="Demand is 95 % of all GPUs, or 120 %.")
    ] = RegionMix.SPARE,
    policy: Annotated[
        RegionPolicy, typer.Option(help="Which region runs which job, or where data lives.")
    ] = RegionPolicy.REPLICAS,
    wan: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Measured links, as convert wan reads.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn traces of Microsoft's ITP clusters, published with ElasticFlow, into regions.

    Example: placewright convert itp cluster03.csv cluster06.csv cluster10.csv -o itp.json
    """
    check_output(output, *traces)
    from placewright.instances.converters import read_itp
    from placewright.instances.converters.traces.wan import read_folder

    grid = None if wan is None else read_folder(wan).grid
    write_conversion(
        lambda: read_itp(
            traces,
            regions=regions,
            datasets=datasets,
            at=at,
            mix=mix.value,
            seed=seed,
            policy=policy.value,
            grid=grid,
        ),
        output,
    )
