"""The verbs `export kubernetes`, `export kueue` and `export kai`: what kubectl is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import check_output, note, note_written
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.export_options import (
    ExportOutput,
    PlanFile,
    RoundFile,
    valid_pair,
    write_export,
)
from placewright.cli.verbs.options import Despite
from placewright.instances.derived.phrases import count

if TYPE_CHECKING:
    from placewright.instances.exporters.kubernetes import Script


def export_kubernetes(
    round_file: RoundFile, plan_file: PlanFile, output: ExportOutput = "-", despite: Despite = None
) -> None:
    """Write a plan as a shell script of kubectl patches, which is safe to run twice.

    A pod with the gate placewright.dev/plan gets its node and loses the gate in one patch. The
    server refuses a call whose object has changed. Nothing is run: pipe it to sh. What Kubernetes
    cannot be told is counted on stderr.

    Example: placewright export kubernetes round.json plan.json | sh
    """
    round_, plan = valid_pair(round_file, plan_file, output, despite)
    from placewright.instances.exporters.kubernetes import kubernetes_script

    _write(kubernetes_script(round_, plan), output, "Kubernetes")


def export_kueue(
    round_file: RoundFile,
    plan_file: PlanFile,
    output: ExportOutput = "-",
    despite: Despite = None,
    assignments: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write TopologyAssignments, for comparison."),
    ] = None,
) -> None:
    """Write a plan as a shell script by which Kueue admits what it starts, where it says.

    With a Topology the suspended Job gets its nodes as affinity, and its Workload is made anew;
    without, the admission check placewright is answered. Nothing is run: pipe it to sh.

    Example: placewright export kueue round.json plan.json | sh
    """
    if assignments is not None:
        check_output(assignments, round_file, plan_file)
    round_, plan = valid_pair(round_file, plan_file, output, despite)
    from placewright.instances.exporters.kueue import kueue_script, topology_assignments
    from placewright.instances.io.streams import write

    made = kueue_script(round_, plan)
    if assignments is not None:
        with interrupts.writing(assignments):
            write(assignments, json.dumps(topology_assignments(round_, plan), indent=2).encode())
        note_written(assignments)
    _write(made, output, "Kueue")


def export_kai(
    round_file: RoundFile, plan_file: PlanFile, output: ExportOutput = "-", despite: Despite = None
) -> None:
    """Write a plan as BindRequests of KAI Scheduler: untried on a running KAI, as they say.

    Example: placewright export kai round.json plan.json -o bind-requests.json
    """
    round_, plan = valid_pair(round_file, plan_file, output, despite)
    from placewright.instances.exporters.kubernetes import bind_requests

    made, unsaid = bind_requests(round_, plan)
    for what, jobs in sorted(unsaid.items()):
        note(f"KAI cannot be told: {what}: {count(len(jobs), 'job')}")
    text = json.dumps(made, indent=2) + "\n"
    write_export(text, output, f"kai: {count(len(made['items']), 'BindRequest')}")


def _write(made: Script, output: str, target: str) -> None:
    for line in made.unsaid:
        note(f"{target} cannot be told: {line}")
    write_export(made.text, output, f"{target.lower()}: {count(made.calls, 'call')}")
