"""The verb `export`: plans as the documents of schedulers, and as tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import check_output, note, note_written
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import Despite
from placewright.cli.verbs.verify import check_one_stdin, check_pair, report_violations
from placewright.instances.derived.phrases import count

if TYPE_CHECKING:
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round
    from placewright.instances.exporters.kubernetes import Script


RoundFile = Annotated[str, typer.Argument(metavar="ROUND", help="The round; - is stdin.")]
PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="Its plan; - is stdin.")]
ExportOutput = Annotated[
    str, typer.Option("-o", "--output", metavar="FILE", help="Where to write it; stdout if none.")
]


def valid_pair(
    round_file: str, plan_file: str, output: str, despite: Sequence[str] | None = None
) -> tuple[Round, Plan]:
    """Read a round and its plan, which is verified: what is exported can be carried out.

    Jobs with a hard caveat are not acted on, `despite` those that do not matter; stderr says so.

    Raises
    ------
    typer.Exit
        The plan breaks a rule; stderr says which.
    """
    check_one_stdin(round_file, plan_file)
    check_output(output, round_file, plan_file)
    from placewright.instances.derived.doubts import told_of
    from placewright.instances.exporters.needs import GPU_LINKS, obeying
    from placewright.instances.io.files import load_plan, load_round
    from placewright.instances.verify import verify

    round_, plan = load_round(round_file), load_plan(plan_file)
    check_pair(round_, plan, round_file, plan_file)
    verification = verify(round_, plan)
    if not verification.ok:
        raise typer.Exit(report_violations(verification, plan_file))
    rules = {GPU_LINKS.rule, *(told.caveat.rule for told in told_of(round_))}
    for rule in (rule for rule in despite or () if rule not in rules):
        note(f"placewright: --despite {rule}: no job or host has this rule")
    left = obeying(round_, plan.completed(round_.names), despite or ())
    for line in left.lines:
        note(f"placewright: {line}")
    return round_, left.plan


def write_export(text: str, output: str, what: str) -> None:
    """Write what was made to a file or stdout, and say on stderr what it is."""
    from placewright.instances.io.streams import write

    with interrupts.writing(output):
        write(output, text.encode())
    note_written(output, what)


def export_csv(
    round_file: RoundFile, plan_file: PlanFile, output: ExportOutput = "-", despite: Despite = None
) -> None:
    """Write a plan as comma-separated values: a row per task, and one per job that waits.

    Example: placewright export csv round.json plan.json -o plan.csv
    """
    from placewright.instances.exporters.csv_table import plan_csv
    from placewright.instances.exporters.needs import GPU_LINKS

    # A table names the GPUs of each task.
    told = (*(despite or ()), GPU_LINKS.rule)
    round_, plan = valid_pair(round_file, plan_file, output, told)

    write_export(plan_csv(round_, plan), output, f"csv: {count(len(plan.decisions), 'job')}")


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


export = typer.Typer(
    name="export",
    help="Write a plan as commands for a scheduler, or as a table.",
    no_args_is_help=True,
)
export.command("slurm")(export_slurm)
export.command("kubernetes")(export_kubernetes)
export.command("kueue")(export_kueue)
export.command("kai")(export_kai)
export.command("csv")(export_csv)
export.command("ray")(export_ray)
