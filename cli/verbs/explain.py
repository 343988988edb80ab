"""The verb `explain`: why a job waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import out, warn_of_invalid_jobs
from placewright.cli.interrupts import ExitCode
from placewright.cli.verbs.options import SOLVING_TIME, Format, Lenient, OutputFormat
from placewright.cli.verbs.verify import check_one_stdin, check_pair, report_violations

if TYPE_CHECKING:
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


def explain(
    round_file: Annotated[str, typer.Argument(metavar="ROUND", help="The round; - is stdin.")],
    plan_file: Annotated[
        str | None, typer.Argument(metavar="[PLAN]", help="A plan of it; - is stdin.")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="The job that waits.")
    ] = None,
    replica: Annotated[
        str | None,
        typer.Option(metavar="DATASET=REGION", help="Data that has no replica in a region."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All jobs that wait, by what they wait for.")
    ] = False,
    corrections: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=50, help="How many changes that help, of each kind."),
    ] = 6,
    output_format: OutputFormat = Format.TEXT,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Such as 90, 2m; else the round's."),
    ] = None,
    lenient: Lenient = False,
) -> None:
    """Say why a job waits, and what would let it start: the fewest facts, with their proof.

    Or why data has no replica in a region, under policy replicas.

    Without a plan: why it cannot start in the round as it is. Exit 9 if nothing could be decided
    within the limit.

    Example: placewright explain round.yaml plan.json --job pretrain
    """
    if [job is not None, replica is not None, everything].count(True) != 1:
        raise typer.BadParameter("expected --job with the name of a job, --replica, or --all")
    if replica is not None and plan_file is not None:
        problem = "expected a round alone: it is asked of any plan"
        raise typer.BadParameter(problem, param_hint="--replica")
    check_one_stdin(round_file, plan_file)
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
        plan = plan.completed(round_.names)
    as_json = output_format is Format.JSON
    if everything and "schedule" in round_.policy.spec.plan_sections:
        _explain_schedule(round_, plan, time_limit, as_json=as_json)
        return
    if replica is not None:
        decided = _explain_replica(round_, replica, time_limit, as_json=as_json)
    elif job is not None:
        decided = _explain_job(round_, plan, job, corrections, time_limit, as_json=as_json)
    else:
        decided = _explain_all(round_, plan, time_limit, as_json=as_json)
    if not decided:
        raise typer.Exit(ExitCode.UNDECIDED)


def _explain_job(
    round_: Round,
    plan: Plan | None,
    job: str,
    corrections: int,
    time_limit: float | None,
    *,
    as_json: bool,
) -> bool:
    """Print why a job waits; return whether that was decided."""
    from placewright.cli.views.explanation import called_line, left_out_lines, lines
    from placewright.explain.document import explanation_document, left_out_document
    from placewright.explain.explain_job import explain_job
    from placewright.explain.explanation import Verdict
    from placewright.instances.derived.source_words import jobs_called, left_out_called
    from placewright.instances.io.digest import round_digest

    called, left = jobs_called(round_, job), left_out_called(round_, job)
    if left and not called:
        if as_json:
            document = left_out_document(job, left, round_digest(round_))
            typer.echo(json.dumps(document, indent=2))
        else:
            for line in left_out_lines(job, left):
                out().print(line, soft_wrap=True)
        return True
    explanation = explain_job(round_, plan, job, corrections=corrections, time_limit=time_limit)
    if as_json:
        document = explanation_document(explanation, round_digest(round_))
        typer.echo(json.dumps(document, indent=2))
    else:
        if line := called_line(job, explanation.job, [one.name for one in called], left):
            out().print(line, soft_wrap=True)
        asked = next(one for one in round_.jobs if one.name == explanation.job)
        for line in lines(asked, explanation, plan, most=corrections):
            out().print(line, soft_wrap=True)
    return explanation.verdict is not Verdict.UNDECIDED


def _explain_schedule(
    round_: Round, plan: Plan | None, time_limit: float | None, *, as_json: bool
) -> None:
    """Print what jobs of a schedule wait for, and until when; without a plan, of one made now."""
    from placewright.explain.document import wait_document
    from placewright.explain.stages import waits_of
    from placewright.rounds import solve_round

    waits = waits_of(round_, plan or solve_round(round_, time_limit=time_limit))
    if as_json:
        entries = [wait_document(wait) for wait in waits.values()]
        typer.echo(json.dumps({"jobs": entries}, indent=2))
        return
    for name, wait in waits.items():
        said = f": {text}" if (text := wait.text(round_.now)) else ""
        begin = wait.scheduled.start - round_.now
        when = f"begins in {begin} s" if begin > 0 else "begins now" if not begin else "runs"
        out().print(f"job {name} {when}{said}", soft_wrap=True)


def _explain_replica(
    round_: Round, replica: str, time_limit: float | None, *, as_json: bool
) -> bool:
    """Print why data has no replica in a region; return whether that was decided."""
    from placewright.cli.views.explanation import replica_lines
    from placewright.explain.document import explanation_document
    from placewright.explain.explanation import Verdict
    from placewright.explain.missing_replica import explain_missing_replica
    from placewright.instances.io.digest import round_digest

    dataset, found, region = replica.partition("=")
    if not found:
        problem = f"{replica}: expected DATASET=REGION"
        raise typer.BadParameter(problem, param_hint="--replica")
    explanation = explain_missing_replica(round_, dataset, region, time_limit=time_limit)
    if as_json:
        subject = {"dataset": dataset, "region": region}
        document = explanation_document(explanation, round_digest(round_), subject)
        typer.echo(json.dumps(document, indent=2))
    else:
        for line in replica_lines(dataset, region, explanation):
            out().print(line, soft_wrap=True)
    return explanation.verdict is not Verdict.UNDECIDED


def _explain_all(
    round_: Round, plan: Plan | None, time_limit: float | None, *, as_json: bool
) -> bool:
    """Print why all jobs wait; return whether that was decided of any, or none waits."""
    from placewright.cli.format.console import print_table
    from placewright.cli.views.explanation import kinds_table
    from placewright.explain.document import kinds_document
    from placewright.explain.explanation import Verdict
    from placewright.explain.kinds import explain_all
    from placewright.instances.io.digest import round_digest

    kinds = explain_all(round_, plan, time_limit=time_limit)
    if as_json:
        typer.echo(json.dumps(kinds_document(kinds, round_digest(round_)), indent=2))
    else:
        print_table(out(round_), kinds_table(kinds, beside=plan is not None))
    verdicts = [kind.explanation.verdict for kind in kinds]
    return not verdicts or any(verdict is not Verdict.UNDECIDED for verdict in verdicts)
