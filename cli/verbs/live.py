"""Verbs that follow a cluster: `serve` and `watch`."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import note, read_seconds
from placewright.cli.interrupts import ExitCode
from placewright.cli.verbs.options import (
    SOLVING_TIME,
    Accelerators,
    Despite,
    PolicyFile,
    labels_of_accelerators,
)

if TYPE_CHECKING:
    from placewright.live.watch.loop import Actor, Source


EXTRA = "placewright: serve needs packages that are missing; expected the extra `serve`: "
INSTALL = "pip install 'placewright[serve]'"
NEEDED = "fastapi", "uvicorn", "prometheus_client"
MIN_TOKEN = 16
LOOPBACK = "127.0.0.1"


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0 is everywhere.")
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65_535, help="0 is any free one.")
    ] = 8470,
    time_limit: Annotated[
        float,
        typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Most of a search: 90, 2m."),
    ] = 60.0,
    waiting: Annotated[
        int, typer.Option(metavar="N", min=0, max=64, help="Most requests that wait their turn.")
    ] = 4,
    max_body: Annotated[
        int, typer.Option(metavar="MIB", min=1, max=256, help="Most of a request, in MiB.")
    ] = 64,
    token_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Has the token of requests; else one is printed."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name of the service; may be repeated."),
    ] = None,
    policy: PolicyFile = None,
    round_file: Annotated[
        str | None, typer.Option("--round", metavar="FILE", help="Show this round, with --plan.")
    ] = None,
    plan_file: Annotated[
        str | None,
        typer.Option(
            "--plan", metavar="FILE", help="And its plan; both are read when they change."
        ),
    ] = None,
    certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="For TLS: the certificate, in PEM.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="For TLS: its key.")] = None,
    client_ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Who connects needs a certificate that it signed."),
    ] = None,
) -> None:
    """Answer other programs over HTTP: solve, verify, explain, admit, kube-scheduler, metrics.

    Example: placewright serve --time-limit 30 --token-file token
    """
    _check_extra()
    if (certificate is None) is not (key is None):
        raise typer.BadParameter("expected both or neither", param_hint="--certificate, --key")
    if client_ca is not None and certificate is None:
        raise typer.BadParameter("expected with --certificate", param_hint="--client-ca")
    if (round_file is None) is not (plan_file is None):
        raise typer.BadParameter("expected both or neither", param_hint="--round, --plan")
    token = secrets.token_urlsafe(32) if token_file is None else _token_of(token_file)

    from placewright.instances.converters.support.live import GivenPolicy
    from placewright.live.serve.app import Tls, listen, run
    from placewright.live.serve.service import Settings

    given = None if policy is None else GivenPolicy(policy)
    settings = Settings(
        token=token,
        seconds=time_limit,
        waiting=waiting,
        body_mib=max_body,
        names=frozenset(name.lower() for name in allow_host or ()),
        mutual_tls=client_ca is not None,
        round_file=round_file,
        plan_file=plan_file,
        policy={} if given is None else given.fields,
    )
    tls = None if certificate is None or key is None else Tls(certificate, key, client_ca)
    bound = listen(host, port)
    scheme, shown = "http" if tls is None else "https", f"[{host}]" if ":" in host else host
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("placewright.serve").setLevel(logging.INFO)
    if tls is None and host not in (LOOPBACK, "::1", "localhost"):
        note("placewright: warning: without --certificate the token is sent as plain text")
    note(f"placewright: serves on {scheme}://{shown}:{bound.getsockname()[1]}")
    note(f"placewright: {given or 'policy: as each round says'}")
    if token_file is None:
        note(f"placewright: token {token}")
    run(settings, bound, tls)


def _check_extra() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in NEEDED):
        note(f"{EXTRA}{INSTALL}")
        raise typer.Exit(ExitCode.MISSING)


def _token_of(file: str) -> str:
    """Return the token in a file.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or has none that is long enough.
    """
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_text

    token = load_text(file).strip()
    if len(token) < MIN_TOKEN or not token.isascii() or any(c.isspace() for c in token):
        raise InvalidInputError(
            f"expected one token of at least {MIN_TOKEN} ASCII characters, without spaces",
            file=file,
            show_value=False,
        )
    return token


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


watch = typer.Typer(
    name="watch", help="Follow a cluster, and plan a round when it changes.", no_args_is_help=True
)
watch.command("slurm")(watch_slurm)
watch.command("kubernetes")(watch_kubernetes)
