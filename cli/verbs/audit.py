"""The verb `audit`: how good anybody's placement is, and what moves would buy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import out, warn_of_invalid_jobs
from placewright.cli.verbs.options import SOLVING_TIME, Format, Lenient
from placewright.cli.verbs.verify import (
    check_one_stdin,
    check_pair,
    print_verdict,
    report_violations,
    verdict_object,
)

if TYPE_CHECKING:
    from placewright.explain.audit import Audit
    from placewright.instances.documents.plan import Plan


def audit(
    round_file: Annotated[str, typer.Argument(metavar="ROUND", help="The round; - is stdin.")],
    plan_file: Annotated[
        str, typer.Argument(metavar="PLAN", help="A placement of its jobs; - is stdin.")
    ],
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=SOLVING_TIME, help="Of each search: 90, 2m; else the round's."
        ),
    ] = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="What to print: text, or an object as JSON.")
    ] = Format.TABLE,
    lenient: Lenient = False,
) -> None:
    """Judge a placement, whoever made it: rules, and distance from the proven bounds.

    A placement that breaks a rule is not judged further (exit 7).

    Example: placewright audit round.yaml plan.json
    """
    check_one_stdin(round_file, plan_file)
    from placewright.explain.audit import audit as judge
    from placewright.instances.io.files import load_plan, load_round

    round_, plan = load_round(round_file, lenient=lenient), load_plan(plan_file)
    warn_of_invalid_jobs(round_)
    check_pair(round_, plan, round_file, plan_file)
    found = judge(round_, plan, time_limit=time_limit)
    if output_format is Format.JSON:
        typer.echo(json.dumps(_object(plan, found), indent=2))
    else:
        print_verdict(out(), plan_file, round_, found.verification)
        if found.ok:
            from placewright.cli.format.table import print_table
            from placewright.cli.views.gang.tables import terms_table

            out().print()
            print_table(out(), terms_table(found.terms, "Distance from the proven bounds"))
    if not found.ok:
        raise typer.Exit(report_violations(found.verification, plan_file))


def _object(plan: Plan, found: Audit) -> dict[str, object]:
    """Return what `--format json` prints (docs/cli.md)."""
    return verdict_object(plan, found.verification, found.terms if found.ok else None)
