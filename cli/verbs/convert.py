"""The verb `convert`, by the name of the trace or system."""

from __future__ import annotations

import typer

from placewright.cli.verbs import (
    convert_deadlines,
    convert_hived,
    convert_kubernetes,
    convert_live,
    convert_manifest,
    convert_ray,
    convert_regions,
    convert_skypilot,
    convert_traces,
)

convert = typer.Typer(
    name="convert", help="Turn a trace or a dump into a round.", no_args_is_help=True
)
convert.command("openb")(convert_traces.convert_openb)
convert.command("muri")(convert_traces.convert_muri)
convert.command("synergy")(convert_traces.convert_synergy)
convert.command("chronus")(convert_deadlines.convert_chronus)
convert.command("elasticflow")(convert_deadlines.convert_elasticflow)
convert.command("wan")(convert_regions.convert_wan)
convert.command("itp")(convert_regions.convert_itp)
convert.command("slurm")(convert_live.convert_slurm)
convert.command("kubernetes")(convert_kubernetes.convert_kubernetes)
convert.command("ray")(convert_ray.convert_ray)
convert.command("skypilot")(convert_skypilot.convert_skypilot)
convert.command("hived")(convert_hived.convert_hived)
convert.command("manifest")(convert_manifest.convert_manifest)
