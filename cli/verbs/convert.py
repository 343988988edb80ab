"""The verb `convert`, by the name of the trace or system."""

from __future__ import annotations

import typer

from placewright.cli.format.panels import Panels, register
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
    name="convert", cls=Panels, help="Turn a trace or a dump into a round.", no_args_is_help=True
)
register(
    convert,
    {
        "Systems": (
            convert_live.convert_slurm,
            convert_kubernetes.convert_kubernetes,
            convert_ray.convert_ray,
        ),
        "Configurations": (
            convert_manifest.convert_manifest,
            convert_skypilot.convert_skypilot,
            convert_hived.convert_hived,
        ),
        "Traces": (
            convert_traces.convert_openb,
            convert_traces.convert_muri,
            convert_traces.convert_synergy,
            convert_deadlines.convert_chronus,
            convert_deadlines.convert_elasticflow,
            convert_regions.convert_wan,
            convert_regions.convert_itp,
        ),
    },
)
