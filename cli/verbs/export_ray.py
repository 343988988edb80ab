"""The verb `export ray`: placement groups with label selectors."""

from __future__ import annotations

import json

from placewright.cli.verbs.export_options import (
    ExportOutput,
    PlanFile,
    RoundFile,
    valid_pair,
    write_export,
)
from placewright.cli.verbs.options import Despite
from placewright.instances.derived.phrases import count


def export_ray(
    round_file: RoundFile, plan_file: PlanFile, output: ExportOutput = "-", despite: Despite = None
) -> None:
    """Write a plan as bundles with label selectors, for ray.util.placement_group.

    Example: placewright export ray round.json plan.json -o groups.json
    """
    round_, plan = valid_pair(round_file, plan_file, output, despite)
    from placewright.instances.exporters.ray import bundle_selectors

    made = bundle_selectors(round_, plan)
    text = json.dumps(made, indent=2) + "\n"
    write_export(text, output, f"ray: {count(len(made), 'placement group')}")
