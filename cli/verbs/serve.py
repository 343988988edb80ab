"""The verb `serve`: a service that other programs ask."""

from __future__ import annotations

import logging
import secrets
from typing import Annotated

import typer

from placewright.cli.format.exit_code import ExitCode
from placewright.cli.format.output import note
from placewright.cli.verbs.options import SOLVING_TIME, PolicyFile

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
