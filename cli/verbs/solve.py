"""The verb `solve`: a round in, a verified plan with its certificate out."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.exit_code import ExitCode
from placewright.cli.format.output import (
    STANDARD,
    check_output,
    err,
    note,
    note_written,
    out,
    warn_of_invalid_jobs,
    warn_of_quantities,
    wrong_argument,
)
from placewright.cli.format.usage import suggestion
from placewright.cli.interrupts import Interrupted, interrupts
from placewright.cli.verbs.options import SOLVING_TIME, Format, Lenient, OutputFormat

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextlib import ExitStack

    from placewright.instances.documents.plan import Certificate, Plan
    from placewright.instances.documents.round import Round

MAX_BROKEN = 5
"""Jobs that one line names."""


class BackendName(StrEnum):
    """The solvers that can be asked for."""

    AUTO = "auto"
    HIGHS = "highs"
    CP_SAT = "cp-sat"
    CBC = "cbc"
    SCIP = "scip"


def solve(
    round_file: Annotated[
        str, typer.Argument(metavar="ROUND", help="Round to solve, YAML or JSON; - is stdin.")
    ],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write the plan; - is stdout."),
    ] = None,
    output_format: OutputFormat = Format.TEXT,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Such as 90, 2m; else the round's."),
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(
            metavar="G",
            min=0,
            max=1,
            help="Stop at this relative gap of the first term (0.01 is 1 %); missed: exit 5.",
        ),
    ] = None,
    backend: Annotated[BackendName, typer.Option(help="Solver to use.")] = BackendName.AUTO,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=2**31 - 1, help="Seed of the search.")
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="Same round, same plan: work limits, not the clock."),
    ] = False,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Who decides regions (policy geo): local, local:N processes, dask://HOST:PORT.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every job, move and tenant, however many.")
    ] = False,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Print the waiting jobs alone, all of them.")
    ] = False,
    jobs: Annotated[
        list[str] | None,
        typer.Option("--job", metavar="NAME", help="Print this job alone; may be repeated."),
    ] = None,
    lenient: Lenient = False,
) -> None:
    """Plan one round: which jobs start where, or where data lives, and how close to the best.

    Ctrl-C and SIGTERM stop the search; the best plan so far is printed and written (exit 130, 143),
    or nothing if there is none yet (exit 6). A plan that cannot keep all promises of earlier rounds
    is printed and written, too; it names those that it breaks (exit 4).

    Example: placewright solve round.yaml -o plan.json --time-limit 10
    """
    check_output(output, round_file)
    chosen = {"--all": everything, "--waiting": waiting, "--job": bool(jobs)}
    selected = [name for name, given in chosen.items() if given]
    if len(selected) > 1:
        raise typer.BadParameter(f"{' and '.join(selected)} exclude one another; give one")
    if selected and (output == STANDARD or output_format is Format.JSON):
        raise typer.BadParameter("expected with tables only", param_hint=selected[0])
    from contextlib import ExitStack

    from placewright.cli.format.progress import progress_of
    from placewright.instances.documents.policy import headline
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_round, write
    from placewright.rounds import solve_round

    round_ = load_round(round_file, lenient=lenient)
    warn_of_quantities(round_)
    warn_of_invalid_jobs(round_)
    shown = _jobs_called(round_, jobs or ())
    plan = None
    try:
        with interrupts.stopping(), ExitStack() as stack:
            opened = _opened(stack, executor, round_)
            progress = stack.enter_context(progress_of(err(), headline(round_.policy.terms)[-1]))
            plan = solve_round(
                round_,
                time_limit=time_limit,
                gap=gap,
                backend=backend.value,
                seed=seed,
                # Without the option the round's own limits decide.
                deterministic=deterministic or None,
                progress=progress,
                executor=opened,
            )
    except Interrupted:
        if plan is None:
            raise
    unwritten = None
    if output is not None and output != STANDARD:
        try:
            with interrupts.writing(output):
                write(plan, output)
        except InvalidInputError as error:
            unwritten = error
    if output == STANDARD or output_format is Format.JSON:
        write(plan, STANDARD)
    else:
        from placewright.cli.views.gang.selected import Selection
        from placewright.cli.views.tables import print_plan

        print_plan(out(round_), round_, plan, Selection(everything, waiting, shown))
    if unwritten is not None:
        raise unwritten
    note_written(output)
    if plan.certificate is not None:
        raise typer.Exit(_judge(plan, plan.certificate, gap))


def _jobs_called(round_: Round, names: Sequence[str]) -> tuple[str, ...]:
    """Return the jobs of some names; refuse one that the round does not have."""
    from placewright.instances.derived.source_words import jobs_called, left_out_called, whys

    found: dict[str, None] = {}
    for name in names:
        called = [one.name for one in jobs_called(round_, name)]
        if not called:
            left = left_out_called(round_, name)
            known = sorted(job.name for job in round_.jobs)
            why = f": {whys(left)}" if left else suggestion(name, known)
            problem = f"{name}: the round has no such job{why}"
            raise typer.BadParameter(problem, param_hint="--job")
        found |= dict.fromkeys(called)
    return tuple(found)


def _opened(stack: ExitStack, executor: str | None, round_: Round) -> Executor | None:
    """Open the executor that is asked for, or one that pays, until the stack ends."""
    from placewright.instances.errors import InvalidInputError
    from placewright.rounds.regions.executors import (
        check_executor_use,
        default_executor,
        open_executor,
    )

    where = default_executor(round_) if executor is None else executor
    try:
        check_executor_use(round_, where)
        return None if where is None else stack.enter_context(open_executor(where))
    except InvalidInputError as error:
        raise wrong_argument(error, "--executor") from error


def _judge(plan: Plan, certificate: Certificate, gap: float | None) -> int:
    """Report on stderr what the plan falls short of, and return the exit code."""
    from placewright.instances.derived.phrases import several
    from placewright.report.facts.promises import broken_in
    from placewright.report.text import percent, term_name
    from placewright.report.verdicts import PROOF, proven

    for what in certificate.degraded:
        note(f"placewright: degraded: {what}")
    for term in certificate.terms:
        if len(term.precedences) > 1:
            note(f"placewright: more priority classes than are told apart: {term_name(term)}")
    if any("interrupted" in what for what in certificate.degraded):
        return interrupts.exit_code
    broken = broken_in(plan)
    if broken:
        known = proven(certificate.terms[:1])  # under this policy the first term is what is broken
        note(
            f"placewright: breaks what was promised to {several(broken, MAX_BROKEN)}; "
            f"{'proven' if known else 'not proven'} to be the least loss"
            + (f" ({PROOF['claimed']})" if known and known[0].proof == "claimed" else "")
        )
        return ExitCode.BROKEN
    if gap is not None and (certificate.gap is None or certificate.gap > gap):
        note(f"placewright: gap {percent(certificate.gap)} missed; asked for {percent(gap)}")
        return ExitCode.GAP_MISSED
    return 0
