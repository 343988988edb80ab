"""Hosts and quotas of the verb `replay`, as they are typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from placewright.rounds.replay.policy_lists import Quota

_HOSTS = re.compile(r"([0-9]{1,6})x([0-9]{1,4})")
_QUOTA = re.compile(r"(.+)=([0-9]{1,6})x([0-9]{1,4})", re.DOTALL)
MAX_HOSTS = 200_000


def quotas_of(texts: list[str]) -> tuple[Quota, ...]:
    """Read quotas such as vision=2x4."""
    from placewright.rounds.replay.policy_lists import Quota

    quotas = []
    for text in texts:
        match = _QUOTA.fullmatch(text)
        if match is None or not int(match[2]) or not int(match[3]):
            raise typer.BadParameter(f"{text}: expected TENANT=NxG", param_hint="--quota")
        quotas.append(Quota(match[1], int(match[2]), int(match[3])))
    return tuple(quotas)


def host_sizes(text: str) -> tuple[int, ...]:
    """Read hosts such as 16x8 or 4x8,2x4."""
    sizes: list[int] = []
    for part in text.split(","):
        match = _HOSTS.fullmatch(part.strip())
        number, gpus = (int(match[1]), int(match[2])) if match else (0, 0)
        if not number or not gpus or len(sizes) + number > MAX_HOSTS:
            raise typer.BadParameter(
                f"{text}: expected NxG, at most {MAX_HOSTS} hosts", param_hint="--hosts"
            )
        sizes += [gpus] * number
    return tuple(sizes)
