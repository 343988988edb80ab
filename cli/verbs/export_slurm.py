"""The verb `export slurm`: commands of scontrol."""

from __future__ import annotations

from placewright.cli.format.output import note
from placewright.cli.verbs.export_options import (
    ExportOutput,
    PlanFile,
    RoundFile,
    valid_pair,
    write_export,
)
from placewright.cli.verbs.options import Despite


def export_slurm(
    round_file: RoundFile,
    plan_file: PlanFile,
    output: ExportOutput = "-",
    despite: Despite = None,
) -> None:
    """Write a plan as a shell script of scontrol commands, which is safe to run twice.

    Each step asks Slurm first whether its job is still as the plan takes it to be. Nothing is run:
    pipe it to sh. What Slurm cannot be told is counted on stderr.

    Example: placewright export slurm round.json plan.json | sh
    """
    round_, plan = valid_pair(round_file, plan_file, output, despite)
    from placewright.instances.exporters.slurm import slurm_script

    made = slurm_script(round_, plan)
    for line in made.unsaid:
        note(f"Slurm cannot be told: {line}")
    write_export(made.text, output, f"slurm: {made.steps:,} steps")
