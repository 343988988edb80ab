"""The verbs under `preset`: rounds that drain, replace, defragment, return or protect hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import STANDARD, check_output, note_written, wrong_argument
from placewright.cli.format.times import read_whole_seconds
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import CheckpointMemory, Copies, FailureLevel

if TYPE_CHECKING:
    from placewright.instances.documents.round import Round

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
    from placewright.cli.views.summary import document_text

    note_written(output, f"made {what}: {document_text(made)}")


def _vacated(round_: Round) -> str:
    """Count the hosts that a round vacates."""
    from placewright.instances.derived.phrases import count
    from placewright.instances.derived.ranges import expand

    return count(len({host for name in round_.policy.vacate for host in expand(name)}), "host")
