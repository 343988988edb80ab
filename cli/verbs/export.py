"""The verb `export`, by the scheduler that a plan is written for."""

from __future__ import annotations

import typer

from placewright.cli.verbs import export_slurm

export = typer.Typer(
    name="export", help="Write a plan as commands for a scheduler.", no_args_is_help=True
)
export.command("slurm")(export_slurm.export_slurm)
