"""The verb `watch slurm`: follow a Slurm cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.exit_code import ExitCode
from placewright.cli.format.output import note
from placewright.cli.format.times import read_seconds
from placewright.cli.verbs.options import Despite, PolicyFile
from placewright.cli.verbs.watch_options import (
    Every,
    MaxAge,
    Rounds,
    WatchFolder,
    WatchTime,
    follow,
)


def watch_slurm(
    output: WatchFolder = "placewright-watch",
    every: Every = 30.0,
    time_limit: WatchTime = 20.0,
    max_age: MaxAge = 120.0,
    rounds: Rounds = None,
    despite: Despite = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Carry plans out: start, move and stop jobs.")
    ] = False,
    comment: Annotated[
        bool, typer.Option("--comment", help="Tell waiting jobs why, as their AdminComment.")
    ] = False,
    movable: Annotated[
        bool, typer.Option("--movable", help="Running jobs that may be requeued can be moved.")
    ] = False,
    policy: PolicyFile = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="TIME", parser=read_seconds(1, 600), help="Of a command of Slurm."),
    ] = 20.0,
    release: Annotated[
        bool, typer.Option("--release", help="Only release the jobs that Placewright holds.")
    ] = False,
) -> None:
    """Follow a Slurm cluster: ask it every now and then, and plan a round when it changed.

    Plans are written to a folder. With --apply they are carried out as well; a job that is no
    longer as its plan takes it to be is left alone, and decided anew.

    Example: placewright watch slurm -o /var/lib/placewright --apply
    """
    if release:
        _release(timeout)
        return
    from placewright.live.watch.slurm import SlurmActor, SlurmSource

    follow(
        SlurmSource(timeout_s=timeout, movable=movable),
        SlurmActor(timeout_s=timeout, applies=apply, comments=comment),
        output=output,
        every=every,
        time_limit=time_limit,
        max_age=max_age,
        rounds=rounds,
        despite=despite,
        policy=policy,
    )


def _release(timeout: float) -> None:
    from placewright.instances.derived.phrases import count
    from placewright.live.watch.slurm import release_held

    released, failed = release_held(timeout_s=timeout)
    for line in failed:
        note(f"placewright: {line}")
    note(f"{count(released, 'job')} released")
    if failed:
        raise typer.Exit(ExitCode.REFUSED)
