"""What the verbs that follow a cluster share: options, and the loop with its lines on stderr."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.exit_code import ExitCode
from placewright.cli.format.output import note
from placewright.cli.format.times import read_seconds
from placewright.cli.verbs.options import SOLVING_TIME

if TYPE_CHECKING:
    from placewright.live.watch.loop import Actor, Source


WatchFolder = Annotated[
    str,
    typer.Option("-o", "--output", metavar="FOLDER", help="Where rounds, plans and commands go."),
]
Every = Annotated[
    float,
    typer.Option(metavar="TIME", parser=read_seconds(1, 86_400), help="Between two looks."),
]
WatchTime = Annotated[
    float, typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Of each search: 20, 2m.")
]
MaxAge = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=read_seconds(1, 86_400),
        help="A state older than this is not acted on.",
    ),
]
Rounds = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="End after so many rounds; else never.")
]


def follow(
    source: Source,
    actor: Actor,
    *,
    output: str,
    every: float,
    time_limit: float,
    max_age: float,
    rounds: int | None,
    despite: Sequence[str] | None,
    policy: str | None,
) -> None:
    """Follow a cluster until a signal, or so many rounds, end it.

    Raises
    ------
    typer.BadParameter
        A search may take longer than its state may be old, or the folder cannot be made.
    typer.Exit
        Too many looks in a row failed; stderr says why.
    """
    if time_limit >= max_age:
        raise typer.BadParameter(
            f"{max_age:g} s; expected more than the time of a search, {time_limit:g} s",
            param_hint="--max-age",
        )
    from placewright.instances.converters.support.live import GivenPolicy
    from placewright.live.watch.loop import Follower, GivenUpError, Pace, Record, WithPolicy, watch

    if policy is not None:
        source = WithPolicy(source, GivenPolicy(policy))
    try:
        record = Record(output)
    except OSError as error:
        raise typer.BadParameter(
            f"{output} is no folder ({error.strerror}); expected one, or a place to make it",
            param_hint="--output",
        ) from error
    pace = Pace(every_s=every, max_age_s=max_age, rounds=rounds, despite=frozenset(despite or ()))
    with Follower(time_limit=time_limit) as follower:
        try:
            watch(source, follower, actor, record, pace, _tell)
        except GivenUpError as error:
            note(f"placewright: the watch gives up: {error}")
            raise typer.Exit(ExitCode.GIVEN_UP) from None


def _tell(line: str) -> None:
    note(f"{time.strftime('%H:%M:%S')} {line}")
