"""The verb `watch`, by the scheduler that is followed."""

from __future__ import annotations

import typer

from placewright.cli.verbs import watch_kubernetes, watch_slurm

watch = typer.Typer(
    name="watch", help="Follow a cluster, and plan a round when it changes.", no_args_is_help=True
)
watch.command("slurm")(watch_slurm.watch_slurm)
watch.command("kubernetes")(watch_kubernetes.watch_kubernetes)
