"""The term `share` and the section `shares`: dominant shares of tenants, recomputed.

A tenant's dominant share is the largest, over the resources that healthy hosts have, of what its
jobs hold, out of what these hosts have in all, divided by its weight; in parts of `UNIT`, rounded
down. The term stands for one term per tenant that has jobs: the sums of the smallest one, two, ...
shares, `MOST` of them at most, the last of which is then the sum of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.instances.errors import Path, value_text
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule
from placewright.topology.units import WHOLE_GPU

KIND = "shares"
TERM = "share"
UNIT = 100_000
MOST = 8
ALL = f"{TERM}_all"
NAMES = (TERM, *(f"{TERM}_{k}" for k in range(2, MOST + 1)))


class Share(NamedTuple):
    """The dominant share of a tenant, and the resource of which that is."""

    tenant: str
    share: int
    resource: str | None


def shares(reading: Reading) -> list[Share]:
    """Return the dominant share of each tenant that has jobs, in the round's order."""
    capacity = Counter[str]()
    for host in reading.cluster.hosts.values():
        if host.healthy:
            capacity["gpu"] += host.hardware.gpus * WHOLE_GPU
            capacity.update(host.hardware.capacity)
    held = {name: Counter[str]() for name in _counting(reading.round)}
    for placed in (*reading.kept, *reading.placed_anew):
        if placed.job.tenant in held:
            _add(held[placed.job.tenant], placed.option)
    found = []
    for tenant in reading.round.tenants:
        if tenant.name in held:
            mine = held[tenant.name]
            of = {
                name: UNIT * mine[name] // (most * tenant.weight)
                for name, most in capacity.items()
                if most
            }
            dominant = max(of, key=lambda name: (of[name], name), default=None)
            found.append(Share(tenant.name, max(of.values(), default=0), dominant))
    return found


def sums(reading: Reading) -> dict[str, int]:
    """Return the terms that `share` stands for in this round; none if its policy has it not."""
    if not _asked(reading):
        return {}
    ordered = sorted(one.share for one in shares(reading))
    numbers = range(1, max(min(len(ordered), MOST), 1) + 1)
    found = {name: sum(ordered[:k]) for name, k in zip(NAMES, numbers, strict=False)}
    if len(ordered) > MOST:
        found.popitem()
        found[ALL] = sum(ordered)
    return found


def _counting(round_: Round) -> list[str]:
    owners = {job.tenant for job in round_.jobs}
    return [tenant.name for tenant in round_.tenants if tenant.name in owners]


def _add(held: Counter[str], option: Option) -> None:
    for group in option.groups:
        held["gpu"] += group.milli_gpu
        for resource, amount in demand(group):
            held[resource] += group.count * amount


def form(reading: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require the shares recomputed, and nothing else; `sections.section` applies it."""
    expected = [one._asdict() for one in shares(reading)] if _asked(reading) else []
    given = entry.get("tenants")
    if not isinstance(given, list | tuple):
        yield Finding(
            (*path, "tenants"),
            f"tenants {value_text(given)} is no list; expected an entry per tenant",
        )
        return
    for name in entry:
        if name not in ("kind", "tenants"):
            yield Finding(
                (*path, name),
                f"field {value_text(name)} of section {KIND!r} is unknown; "
                "expected kind and tenants",
            )
    if len(given) != len(expected):
        yield Finding(
            (*path, "tenants"),
            f"{len(given)} tenants are listed; expected the {len(expected)} that have jobs, "
            "if the policy has the term share",
        )
    for number, (mine, right) in enumerate(zip(given, expected, strict=False)):
        if mine != right:
            yield Finding(
                (*path, "tenants", number),
                f"{value_text(mine)} is not the tenant's share; expected {value_text(right)}",
            )


def listed(reading: Reading) -> Iterator[Finding]:
    """Require one section `shares` if the policy has the term `share`."""
    given = [i for i, entry in enumerate(reading.plan.sections) if entry.get("kind") == KIND]
    for index in given[1:]:
        yield Finding(
            ("sections", index), f"section {KIND!r} is given more than once; expected one"
        )
    if _asked(reading) and not given:
        yield Finding(("sections",), f"no section {KIND!r} with the term {TERM}; expected one")


def _asked(reading: Reading) -> bool:
    return TERM in reading.round.policy.terms


RULES_OF_SHARES: tuple[Rule[Reading], ...] = (Rule("shares", listed),)
