"""The verb `explain`: why a job waits."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from placewright.cli.format.output import out, warn_of_invalid_jobs
from placewright.cli.verbs.options import SOLVING_TIME, Lenient
from placewright.cli.verbs.verify import check_one_stdin, check_pair, report_violations

EXIT_UNDECIDED = 6


class TextFormat(StrEnum):
    """What is printed to stdout: text for people, or JSON."""

    TEXT = "text"
    JSON = "json"


def explain(
    round_file: Annotated[str, typer.Argument(metavar="ROUND", help="The round; - is stdin.")],
    plan_file: Annotated[
        str | None, typer.Argument(metavar="[PLAN]", help="A plan of it; - is stdin.")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="The job that waits.")
    ] = None,
    corrections: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=50, help="How many changes that help, of each kind."),
    ] = 6,
    output_format: Annotated[
        TextFormat, typer.Option("--format", help="What to print: text, or an object as JSON.")
    ] = TextFormat.TEXT,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Such as 90, 2m; else the round's."),
    ] = None,
    lenient: Lenient = False,
) -> None:
    """Say why a job waits, and what would let it start: the fewest facts, with their proof.

    Without a plan: why it cannot start in the round as it is. Exit 6 if nothing could be decided
    within the limit.

    Example: placewright explain round.yaml plan.json --job pretrain
    """
    if job is None:
        raise typer.BadParameter("missing; expected the name of a job", param_hint="--job")
    check_one_stdin(round_file, plan_file)
    from placewright.cli.views.explanation import lines
    from placewright.explain.explain_job import explain_job
    from placewright.explain.explanation import Verdict, document
    from placewright.instances.io.digest import round_digest
    from placewright.instances.io.files import load_plan, load_round
    from placewright.instances.verify import verify

    round_ = load_round(round_file, lenient=lenient)
    warn_of_invalid_jobs(round_)
    plan = None
    if plan_file is not None:
        plan = load_plan(plan_file)
        check_pair(round_, plan, round_file, plan_file)
        checked = verify(round_, plan)
        if not checked.ok:
            raise typer.Exit(report_violations(checked, plan_file))
    explanation = explain_job(round_, plan, job, corrections=corrections, time_limit=time_limit)
    if output_format is TextFormat.JSON:
        typer.echo(json.dumps(document(explanation, round_digest(round_)), indent=2))
    else:
        asked = next(one for one in round_.jobs if one.name == job)
        for line in lines(asked, explanation, beside=plan is not None):
            out().print(line, soft_wrap=True)
    if explanation.verdict is Verdict.UNDECIDED:
        raise typer.Exit(EXIT_UNDECIDED)
