"""The verb `export`, by the scheduler that a plan is written for."""

from __future__ import annotations

import typer

from placewright.cli.verbs import export_csv, export_kubernetes, export_ray, export_slurm

export = typer.Typer(
    name="export",
    help="Write a plan as commands for a scheduler, or as a table.",
    no_args_is_help=True,
)
export.command("slurm")(export_slurm.export_slurm)
export.command("kubernetes")(export_kubernetes.export_kubernetes)
export.command("kueue")(export_kubernetes.export_kueue)
export.command("kai")(export_kubernetes.export_kai)
export.command("csv")(export_csv.export_csv)
export.command("ray")(export_ray.export_ray)
