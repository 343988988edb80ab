"""The verb `export csv`: a plan as a table."""

from __future__ import annotations

from placewright.cli.verbs.export_options import (
    ExportOutput,
    PlanFile,
    RoundFile,
    valid_pair,
    write_export,
)
from placewright.cli.verbs.options import Despite
from placewright.instances.derived.phrases import count


def export_csv(
    round_file: RoundFile, plan_file: PlanFile, output: ExportOutput = "-", despite: Despite = None
) -> None:
    """Write a plan as comma-separated values: a row per task, and one per job that waits.

    Example: placewright export csv round.json plan.json -o plan.csv
    """
    round_, plan = valid_pair(round_file, plan_file, output, despite)
    from placewright.instances.exporters.csv_table import plan_csv

    write_export(plan_csv(round_, plan), output, f"csv: {count(len(plan.decisions), 'job')}")
