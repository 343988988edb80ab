"""What the verbs that export plans share: their arguments, and valid pairs of round and plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import check_output, note, note_written
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.verify import check_one_stdin, check_pair, report_violations

if TYPE_CHECKING:
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round

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
    from placewright.instances.exporters.needs import obeying
    from placewright.instances.io.files import load_plan, load_round
    from placewright.instances.verify import verify

    round_, plan = load_round(round_file), load_plan(plan_file)
    check_pair(round_, plan, round_file, plan_file)
    verification = verify(round_, plan)
    if not verification.ok:
        raise typer.Exit(report_violations(verification, plan_file))
    rules = {told.caveat.rule for told in told_of(round_)}
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
