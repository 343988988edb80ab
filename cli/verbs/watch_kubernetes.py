"""The verb `watch kubernetes`: follow a Kubernetes cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.exit_code import ExitCode
from placewright.cli.format.output import note
from placewright.cli.format.times import read_seconds
from placewright.cli.verbs.options import (
    Accelerators,
    Despite,
    PolicyFile,
    labels_of_accelerators,
)
from placewright.cli.verbs.watch_options import (
    Every,
    MaxAge,
    Rounds,
    WatchFolder,
    WatchTime,
    follow,
)


def watch_kubernetes(
    output: WatchFolder = "placewright-watch",
    every: Every = 30.0,
    time_limit: WatchTime = 20.0,
    max_age: MaxAge = 120.0,
    rounds: Rounds = None,
    despite: Despite = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The API server; else this pod's, or kubectl proxy."),
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Tell waiting jobs why, by an Event about each.")
    ] = False,
    levels: Annotated[
        str | None,
        typer.Option(metavar="KEY,...", help="Label keys of the topology; else known ones."),
    ] = None,
    movable: Annotated[
        bool, typer.Option("--movable", help="Running pods that are made anew can be moved.")
    ] = False,
    accelerator: Accelerators = None,
    policy: PolicyFile = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="TIME", parser=read_seconds(1, 600), help="Of an answer."),
    ] = 20.0,
) -> None:
    """Follow a Kubernetes cluster: list and watch its objects, and plan a round when they change.

    Plans are written to a folder, with the script that would carry them out. The cluster is not
    changed, but for Events if asked.

    Example: kubectl proxy & placewright watch kubernetes -o plans
    """
    from importlib.util import find_spec

    if find_spec("httpx") is None:
        note(
            "placewright: watch kubernetes needs a package that is missing; expected the extra "
            "`watch`: pip install 'placewright[watch]'"
        )
        raise typer.Exit(ExitCode.MISSING)
    from placewright.live.watch.kubernetes import ApiServer, KubernetesActor, KubernetesSource

    if server is not None and not server.startswith(("http://", "https://")):
        raise typer.BadParameter(
            f"{server}; expected a URL such as https://10.0.0.1:6443", param_hint="--server"
        )
    asked = ApiServer(server, timeout_s=timeout)
    keys = [key.strip() for key in levels.split(",")] if levels is not None else []
    also = labels_of_accelerators(accelerator)
    source = KubernetesSource(asked, levels=keys, movable=movable, accelerators=also)
    try:
        follow(
            source,
            KubernetesActor(asked, events=events),
            output=output,
            every=every,
            time_limit=time_limit,
            max_age=max_age,
            rounds=rounds,
            despite=despite,
            policy=policy,
        )
    finally:
        source.close()
