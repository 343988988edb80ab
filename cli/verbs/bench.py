"""The verbs of the public benchmark: run it, write its rounds, submit plans, report, compare."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import (
    Panels,
    check_output,
    err,
    note,
    note_written,
    out,
    register,
    suggestion,
    wrong_argument,
)
from placewright.cli.interrupts import ExitCode, interrupts
from placewright.cli.verbs.options import SOLVING_TIME, Output

if TYPE_CHECKING:
    from placewright.instances.benchmark.index import Instance
    from placewright.instances.documents.plan import Plan

MAX_VIOLATIONS = 3
MAX_BY = 500


class SuiteName(StrEnum):
    """Sizes of rounds."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


Suites = Annotated[SuiteName, typer.Option("--suite", help="Which rounds: by their size.")]
Only = Annotated[
    str, typer.Option("--only", metavar="PATTERN", help="Only rounds of such names (*, ?).")
]
Folder = Annotated[
    str, typer.Option("-o", "--output", metavar="DIR", help="Folder to write them to.")
]


def run(
    context: typer.Context,
    suite: Suites = SuiteName.SMALL,
    only: Only = "*",
    solver: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A solver or baseline; may be repeated. Else all."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Your own solver: reads {round}, writes {plan}; also {seconds}, {seed}.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Rows as JSON Lines; those there are kept."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Runs of each.")] = 1,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=SOLVING_TIME, help="Of a run; else 2 s, 20 s, 60 s by suite."
        ),
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Work limits, not the clock; no times in rows.")
    ] = False,
    plans: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Keep plans that are better than the best known."),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(metavar="WHERE", help="local (one run per core), local:N, dask://HOST:PORT."),
    ] = "local",
) -> None:
    """Measure solvers on the rounds of a suite: a row for each run, and a table.

    The same command continues a run that was stopped.

    Example: placewright bench --suite small -o results.jsonl
    """
    if context.invoked_subcommand is not None:
        return
    if output is None:
        raise typer.BadParameter("missing", param_hint="-o")
    if solver and command is not None:
        raise typer.BadParameter("expected without --solver", param_hint="--command")
    check_output(output)
    from placewright.cli.views.benchmark import benchmark_progress, print_results
    from placewright.instances.errors import InvalidInputError
    from placewright.report.benchmark import skipped_line
    from placewright.rounds.benchmark.run import (
        LIMITS,
        SOLVERS,
        Protocol,
        command_label,
        results_file,
        run_all,
        tasks_of,
    )
    from placewright.rounds.regions.executors import open_executor

    for name in solver or ():
        if name not in SOLVERS:
            known = f"expected one of {', '.join(SOLVERS)}{suggestion(name, list(SOLVERS))}"
            raise typer.BadParameter(f"{name}: {known}", param_hint="--solver")
    names = solver or list(SOLVERS)
    if command is not None:
        names = [command_label(command)]
    index = _chosen(suite, only)
    if plans is not None:
        Path(plans).mkdir(parents=True, exist_ok=True)
    seconds = LIMITS[suite.value] if time_limit is None else time_limit
    protocol = Protocol(seconds, deterministic)
    tasks, left_out = tasks_of(index.values(), names, seeds, protocol, command, plans)
    note(skipped_line((), left_out))
    with ExitStack() as stack:
        file, rows = stack.enter_context(results_file(output))
        try:
            workers = stack.enter_context(open_executor(executor))
        except InvalidInputError as error:
            raise wrong_argument(error, "--executor") from error
        had = {row.key for row in rows}
        missing = sum(task.key not in had for task in tasks)
        done = stack.enter_context(benchmark_progress(err(), missing))
        try:
            with interrupts.stopping():
                for row in run_all(tasks, workers, file, rows):
                    rows.append(row)
                    done(row)
        except KeyboardInterrupt:
            note(f"interrupted; {output} has {len(rows)} rows, and the same words go on with it")
            raise typer.Exit(interrupts.exit_code) from None
    print_results(out(), rows, index, left_out)
    note_written(output)


def bench_rounds(output: Folder, suite: Suites = SuiteName.SMALL, only: Only = "*") -> None:
    """Write the rounds of a suite as files, for solvers of your own.

    Example: placewright bench rounds --suite small -o rounds
    """
    from placewright.instances.benchmark.index import round_of
    from placewright.instances.io.files import write

    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    index = _chosen(suite, only)
    for name, instance in index.items():
        write(round_of(instance), folder / f"{name}.json")
    note_written(output, f"{len(index)} rounds")


def bench_submit(
    plan_files: Annotated[
        list[str],
        typer.Argument(
            metavar="PLAN...", help="Plans; one that names no round has its name as its file's."
        ),
    ],
    by: Annotated[
        str, typer.Option(metavar="TEXT", help="Who found them, with what.")
    ] = "somebody",
    enter: Annotated[
        bool,
        typer.Option("--enter", help="Enter what is new into the index and plans (in a clone)."),
    ] = False,
) -> None:
    """Check plans of the library's rounds, and say which are better than the best known.

    A plan that breaks a rule is refused, and the rule named (exit 7).

    Example: placewright bench submit plans/*.json --by "Ada Lovelace, my-solver 1.2"
    """
    from datetime import UTC, datetime

    from placewright.cli.views.benchmark import changes_text
    from placewright.instances.benchmark.index import (
        Found,
        read_index,
        round_of,
        with_plan,
        write_index,
        write_plan,
    )
    from placewright.instances.io.files import load_plan
    from placewright.instances.verify import verify

    if not 0 < len(by) <= MAX_BY:
        raise typer.BadParameter(f"expected 1 to {MAX_BY} characters", param_hint="--by")
    index = read_index()
    today = Found(by=by, on=datetime.now(UTC).date().isoformat())
    refused = entered = False
    for file in plan_files:
        plan = load_plan(file)
        instance = _instance_of(file, plan, index)
        # What a plan says of itself is not asked: bounds of others are not known to hold.
        bare = plan.model_copy(update={"certificate": None})
        found = verify(round_of(instance), bare)
        if not found.placement_ok:
            refused = True
            broken = [one for one in found.violations if not one.is_statement]
            out().print(f"{file}: refused, not a plan for {instance.name}", soft_wrap=True)
            for violation in broken[:MAX_VIOLATIONS]:
                out().print(f"  {violation}", soft_wrap=True)
            continue
        better = with_plan(instance, found.terms, today)
        out().print(f"{file}: {changes_text(instance, found.terms)}", soft_wrap=True)
        if better is not None:
            index[instance.name], entered = better, enter
            if enter:
                write_plan(instance.name, plan)
    if entered:
        write_index(index.values())
    if refused:
        raise typer.Exit(ExitCode.VIOLATIONS)


def bench_report(
    results: Annotated[
        list[str], typer.Argument(metavar="RESULTS...", help="Files of `placewright bench`.")
    ],
    output: Output,
) -> None:
    """Write one page about results: gaps to the best known, proofs, CPU, performance profiles.

    Example: placewright bench report results.jsonl -o page.html
    """
    check_output(output, *results)
    from placewright.instances.benchmark.index import read_index
    from placewright.instances.io import streams
    from placewright.report.benchmark import benchmark_page
    from placewright.rounds.benchmark.run import read_rows

    rows = [row for file in results for row in read_rows(file)]
    page = benchmark_page(rows, read_index())
    with interrupts.writing(output):
        streams.write(output, page.encode())
    note_written(output)


def bench_compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Results before.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Results now.")],
) -> None:
    """Say which solvers are worse, slower or better than before, beyond the noise of their seeds.

    Exit 1 if a first term is worse, or a solver slower.

    Example: placewright bench compare old.jsonl new.jsonl
    """
    from placewright.instances.benchmark.index import read_index
    from placewright.rounds.benchmark.results import compared
    from placewright.rounds.benchmark.run import read_rows

    found = compared(read_rows(old), read_rows(new), read_index())
    console = out()
    if found.left_out:
        console.print(f"not compared: {', '.join(found.left_out)}", soft_wrap=True)
    for line in (*found.worse, *found.better):
        console.print(line, soft_wrap=True)
    console.print(
        f"{found.compared} compared, {len(found.worse)} worse, {len(found.better)} better"
    )
    if found.worse:
        raise typer.Exit(ExitCode.INTERNAL)


def _chosen(suite: SuiteName, only: str) -> dict[str, Instance]:
    from placewright.instances.benchmark.index import read_index

    mine = {name: one for name, one in read_index().items() if one.suite == suite.value}
    index = {name: one for name, one in mine.items() if fnmatchcase(name, only)}
    if not index:
        raise typer.BadParameter(
            f"{only}: no such round in suite {suite.value}{suggestion(only, list(mine))}",
            param_hint="--only",
        )
    return index


def _instance_of(file: str, plan: Plan, index: dict[str, Instance]) -> Instance:
    """Return the instance of a plan, by the digest that it names, or else by its file's name."""
    from placewright.instances.errors import InvalidInputError

    for instance in index.values():
        if instance.digest == plan.round:
            return instance
    name = Path(file).stem
    if plan.round is None and name in index:
        return index[name]
    raise InvalidInputError(
        "is of no round of the library; expected its sha256 in `round`, or its name as the file's",
        ("round",),
        plan.round,
        file=file,
    )


bench = typer.Typer(
    name="bench",
    cls=Panels,
    callback=run,
    invoke_without_command=True,
    help=run.__doc__,
)
register(
    bench,
    {
        "Take part": (bench_rounds, bench_submit),
        "Look": (bench_report, bench_compare),
    },
)
