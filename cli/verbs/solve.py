"""Verbs that decide: `solve`, `preset`, `protect`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import (
    STANDARD,
    check_output,
    err,
    note,
    note_written,
    out,
    read_whole_seconds,
    suggestion,
    warn_of_invalid_jobs,
    warn_of_quantities,
    wrong_argument,
)
from placewright.cli.interrupts import ExitCode, Interrupted, interrupts
from placewright.cli.verbs.options import (
    SOLVING_TIME,
    CheckpointMemory,
    Copies,
    FailureLevel,
    Format,
    Lenient,
    OutputFormat,
)

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

    from placewright.cli.format.console import progress_of
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
        from placewright.cli.views.gang.tables import Selection
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
    from placewright.report.facts.promises import broken_in
    from placewright.report.text import percent, term_name

    for what in certificate.degraded:
        note(f"placewright: degraded: {what}")
    for term in certificate.terms:
        if len(term.precedences) > 1:
            note(f"placewright: more priority classes than are told apart: {term_name(term)}")
    if any("interrupted" in what for what in certificate.degraded):
        return interrupts.exit_code
    broken = broken_in(plan)
    if broken:
        from placewright.instances.derived.phrases import several
        from placewright.report.verdicts import PROOF, proven

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


preset = typer.Typer(
    name="preset",
    help="Make a round for solve: drain, swap, defragment, preempt, give back or protect hosts.",
    no_args_is_help=True,
)

RoundFile = Annotated[
    str, typer.Argument(metavar="ROUND", help="The round to start from; - is stdin.")
]
Hosts = Annotated[
    list[str],
    typer.Option("--host", metavar="HOST", help="A host or a range h[10-12]; may be repeated."),
]
Output = Annotated[
    str,
    typer.Option("-o", "--output", metavar="FILE", help="Where to write the round; - is stdout."),
]


@preset.command("drain")
def drain(round_file: RoundFile, hosts: Hosts, output: Output = STANDARD) -> None:
    """Empty hosts: nothing arrives there, and what runs there moves as cheaply as it can.

    Example: placewright preset drain round.yaml --host h3 --host "h[10-12]" -o drain.json
    """
    from placewright.instances.presets.presets import drain as apply

    made = _make(round_file, output, "--host", lambda round_: apply(round_, hosts))
    _say(made, f"drain of {_vacated(made)}", output)


@preset.command("hot-swap")
def hot_swap(round_file: RoundFile, hosts: Hosts, output: Output = STANDARD) -> None:
    """Replace failed hosts: mark them unhealthy, and move what ran there elsewhere.

    Example: placewright preset hot-swap round.yaml --host h3 -o swap.json
    """
    from placewright.instances.presets.presets import hot_swap as apply

    made = _make(round_file, output, "--host", lambda round_: apply(round_, hosts))
    _say(made, f"hot swap of {_vacated(made)}", output)


@preset.command("defragment")
def defragment(
    round_file: RoundFile,
    gpu_worth_s: Annotated[
        int,
        typer.Option(
            metavar="TIME",
            parser=read_whole_seconds(1, 10**6),
            help="Exchange rate: freeing a GPU is worth so long a disruption of one (600, 10m).",
        ),
    ],
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help="What is freed whole: host, rack, ...")
    ] = "host",
    output: Output = STANDARD,
) -> None:
    """Free whole hosts or racks where that is worth the disruption; pending jobs are left out.

    At a worth of 600, a freed host of 8 GPUs pays for 4,800 GPU-seconds of disruption.

    Example: placewright preset defragment round.yaml --gpu-worth-s 600 -o free.json
    """
    from placewright.instances.presets.presets import defragment as apply

    made = _make(round_file, output, "--level", lambda round_: apply(round_, level, gpu_worth_s))
    _say(
        made,
        f"defragmentation by {level}, a freed GPU worth {gpu_worth_s:,} GPU-s of disruption",
        output,
    )


@preset.command("minimal-victims")
def minimal_victims(
    round_file: RoundFile,
    job: Annotated[str, typer.Option(metavar="JOB", help="The pending job that is to start.")],
    output: Output = STANDARD,
) -> None:
    """Ask for the cheapest moves and preemptions with which one pending job can start.

    Only jobs of strictly lower priority are preempted. Other pending jobs are left out.

    Example: placewright preset minimal-victims round.yaml --job pretrain -o victims.json
    """
    from placewright.instances.presets.presets import minimal_victims as apply

    made = _make(round_file, output, "--job", lambda round_: apply(round_, job))
    _say(made, f"minimal victims for {job}", output)


@preset.command("return-hosts")
def return_hosts(
    round_file: RoundFile,
    hosts: Hosts,
    count: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many of these hosts to give back.")
    ],
    output: Output = STANDARD,
) -> None:
    """Choose which N of the loaned hosts to give back, so that emptying them costs least.

    Pending jobs are left out. The hosts are those of the job returned-hosts in the plan.

    Example: placewright preset return-hosts round.yaml --host "inf[0-7]" --count 3 -o back.json
    """
    from placewright.instances.presets.presets import return_hosts as apply

    made = _make(round_file, output, "--host", lambda round_: apply(round_, hosts, count))
    _say(made, f"return of {count} of the loaned hosts", output)


@preset.command("replica-teams")
def replica_teams(
    round_file: RoundFile,
    copies: Copies,
    level: FailureLevel,
    memory: CheckpointMemory,
    job: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A running job; may be repeated.")
    ] = None,
    output: Output = STANDARD,
) -> None:
    """Divide the hosts of running jobs into teams that keep each other's checkpoints in memory.

    The verb protect does that, solves the round, and says what the teams survive.

    Example: placewright preset replica-teams round.yaml --copies 2 --level rack --memory 64Gi
    """
    from placewright.instances.presets.replica_teams import replica_teams as apply

    made = _make(
        round_file, output, "--level", lambda round_: apply(round_, copies, level, memory, job)
    )
    _say(made, f"teams of {copies} hosts", output)


def _make(round_file: str, output: str, option: str, apply: Callable[[Round], Round]) -> Round:
    """Read a round, apply a preset and write the result; its errors are reported for `option`."""
    check_output(output, round_file)
    from placewright.instances.checks.round import check_round
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_round, write

    round_ = load_round(round_file)
    try:
        made = apply(round_)
        check_round(made)
    except InvalidInputError as error:
        named = error.path[0] if error.path else ""
        wrong = f"--{named}" if named in ("count", "copies", "memory", "job") else option
        raise wrong_argument(error, wrong) from error
    with interrupts.writing(output):
        write(made, output)
    return made


def _say(made: Round, what: str, output: str) -> None:
    from placewright.cli.views.tables import document_text

    note_written(output, f"made {what}: {document_text(made)}")


def _vacated(round_: Round) -> str:
    """Count the hosts that a round vacates."""
    from placewright.instances.derived.phrases import count
    from placewright.instances.derived.ranges import expand

    return count(len({host for name in round_.policy.vacate for host in expand(name)}), "host")


def protect(
    round_file: Annotated[
        str, typer.Argument(metavar="ROUND", help="Round whose jobs run; - is stdin.")
    ],
    copies: Copies,
    level: FailureLevel,
    memory: CheckpointMemory,
    job: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A running job; may be repeated. Else all large enough."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write who keeps whose, as JSON."),
    ] = None,
    round_output: Annotated[
        str | None,
        typer.Option("--round", metavar="FILE", help="Write the round that was solved."),
    ] = None,
    output_format: OutputFormat = Format.TEXT,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Of the search; else the round's."),
    ] = None,
) -> None:
    """Decide which hosts of running jobs keep whose checkpoints in memory, and what that survives.

    Teams of M hosts keep each other's checkpoints, as many as can be in different domains.

    Example: placewright protect round.yaml --copies 2 --level rack --memory 64Gi
    """
    check_output(output, round_file)
    check_output(round_output, round_file)
    from placewright.cli.views.tables import print_protection
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io import streams
    from placewright.instances.io.files import load_round, write
    from placewright.rounds.protection import protect as decide

    round_ = load_round(round_file)
    try:
        found = decide(round_, copies, level, memory, job, time_limit=time_limit)
    except InvalidInputError as error:
        options = {"copies", "level", "memory", "job"}
        named = f"--{error.path[0]}" if error.path and error.path[0] in options else "ROUND"
        raise wrong_argument(error, named) from error
    text = json.dumps(found.as_object(), indent=2)
    if round_output is not None:
        with interrupts.writing(round_output):
            write(found.round, round_output)
        note_written(round_output)
    if output is not None:
        with interrupts.writing(output):
            streams.write(output, (text + "\n").encode())
        note_written(output)
    if output_format is Format.JSON and output != STANDARD:
        typer.echo(text)
    elif output != STANDARD:
        print_protection(out(), found)
