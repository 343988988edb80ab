"""Quotas that tenants have in a replay, and whether they fit hosts and trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placewright.instances.errors import InvalidInputError
from placewright.rounds.replay.ledger import Placer
from placewright.topology.chain import Chain


class Quota(NamedTuple):
    """A tenant owns so many cells, of so many GPUs each."""

    tenant: str
    cells: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.tenant}={self.cells}x{self.gpus}"


def chain_of(size: int) -> Chain:
    """Return the cells of a host: 1, 2, 4 ... GPUs up to the whole of it."""
    return Chain((2,) * (size.bit_length() - 1))


def level_of(gpus: int) -> int:
    """Return the level of the smallest cell of a host that has so many GPUs."""
    return (gpus - 1).bit_length()


def cells_by_tenant(quotas: Sequence[Quota], size: int) -> dict[str, list[int]]:
    """Return the cells of each level that tenants own."""
    owned: dict[str, list[int]] = {}
    for quota in quotas:
        cells = owned.setdefault(quota.tenant, [0] * chain_of(size).levels)
        cells[level_of(quota.gpus)] += quota.cells
    return owned


def check_quotas(
    quotas: Sequence[Quota],
    tenants: Sequence[str],
    sizes: Sequence[int],
    placer: Placer,
) -> None:
    """Check quotas against hosts and the tenants of a trace.

    Raises
    ------
    InvalidInputError
        If there are none, a tenant has no jobs, hosts are not of one size that is a power of two,
        cells are none of theirs or too many, or hosts are not told apart.
    """
    if placer == "counting":
        raise InvalidInputError(
            "expected first-fit or best-fit where tenants have quotas",
            path=("placer",),
            value=placer,
        )
    size = sizes[0]
    if set(sizes) != {size} or size & (size - 1):
        raise InvalidInputError(
            "expected hosts of equal size, a power of two, where there are quotas",
            path=("hosts",),
            value=sorted(set(sizes)),
        )
    if not quotas:
        raise InvalidInputError("expected a quota of some tenant", path=("quotas",), value="none")
    for quota in quotas:
        if quota.tenant not in tenants:
            raise InvalidInputError(
                "expected a tenant of the trace", path=("quotas",), value=quota.tenant
            )
        if quota.gpus > size or quota.gpus & (quota.gpus - 1):
            raise InvalidInputError(
                f"expected cells of a power of two of GPUs, at most {size}",
                path=("quotas",),
                value=str(quota),
            )
    owned = sum(quota.cells * quota.gpus for quota in quotas)
    if owned > sum(sizes):
        raise InvalidInputError(
            f"expected quotas of at most {sum(sizes)} GPUs in all", path=("quotas",), value=owned
        )
