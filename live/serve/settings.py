"""What the service is told when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits and names of the service.

    Parameters
    ----------
    token
        Whoever asks has to send it.
    seconds
        Most of a search, whatever a round says.
    waiting
        Most requests that wait for another one to end.
    body_mib
        Most of a request, in MiB.
    names
        Host names, beside `localhost` and addresses, by which the service may be called.
    mutual_tls
        Every connection has shown a client certificate.
    round_file, plan_file
        The round and plan to show, read again whenever they change; None: those solved last.
    policy
        Fields of a policy that take the place of those of rounds that are sent.
    """

    token: str
    seconds: float = 60.0
    waiting: int = 4
    body_mib: int = 64
    names: frozenset[str] = frozenset()
    mutual_tls: bool = False
    round_file: str | None = None
    plan_file: str | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
