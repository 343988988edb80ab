"""What jobs and reservations take of pools over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived.pools import Places, pools_of
from placewright.instances.documents.option import Option
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.topology import Cluster

Amounts: TypeAlias = tuple[Ints, ...]
"""An amount of each domain of each pool of a round, in its order; int64 (domains,)."""


class PoolProfile:
    """The pools of a round, and what jobs take of them until they are expected to end.

    Nothing comes to a pool that jobs hold more of than it has until it is within its capacity.
    """

    def __init__(self, round_: Round, cluster: Cluster) -> None:
        self._pools = pools_of(round_, cluster) if round_.cluster.pools else ()
        self._rows: list[list[tuple[int, int, int]]] = [[] for _ in self._pools]
        self._tables: list[Ints] | None = None

    def taken(self, option: Option, places: Places) -> Amounts:
        """Return what a job takes with tasks in some places; nothing without pools."""
        return tuple(pool.held([(option, places)]) for pool in self._pools)

    def run(self, end: int, option: Option, places: Places) -> None:
        """Add a job that runs from now until its end."""
        for pool, rows in zip(self._pools, self._rows, strict=True):
            rows += [(end, domain, n) for domain, n in pool.taken(option, places).items()]
        self._tables = None

    def free(self, at: int, reserved: Iterable[Amounts]) -> Amounts:
        """Return what is free at a time, at least 0, beside what is reserved then."""
        if self._tables is None:
            self._tables = [np.array(r, dtype=np.int64).reshape(-1, 3) for r in self._rows]
        left = [pool.capacity.copy() for pool in self._pools]
        for mine, table in zip(left, self._tables, strict=True):
            end, domain, amount = table.T
            np.subtract.at(mine, domain[end > at], amount[end > at])
        for taken in reserved if left else ():
            for mine, amounts in zip(left, taken, strict=True):
                mine -= amounts
        return tuple(np.maximum(mine, 0) for mine in left)

    def within_whole(self, option: Option, free: Amounts) -> bool:
        """Whether the pools of the whole cluster have enough for an option."""
        for pool, mine in zip(self._pools, free, strict=True):
            if pool.pool.level is None:
                each = pool.asked(option)
                numbers = [group.count for group in option.groups]
                asked = max(each) if pool.pool.per == "job" else np.dot(each, numbers)
                if asked > mine[0]:
                    return False
        return True

    def reserved(
        self, taken: Sequence[Amounts], name: Callable[[str], str]
    ) -> Iterator[tuple[Pool, Pool]]:
        """Yield pools of which reservations take something, and with what these leave of them.

        Domains of which they take nothing have no limit then.

        Parameters
        ----------
        name
            Renames a resource.
        """
        for k, pool in enumerate(self._pools):
            mine = sum((amounts[k] for amounts in taken), np.zeros_like(pool.capacity))
            some = np.flatnonzero(mine).tolist()
            if not some:
                continue
            left = {pool.names[d]: max(int(pool.capacity[d] - mine[d]), 0) for d in some}
            held = sum(amount for _, _, amount in self._rows[k])
            change: dict[str, Any] = {
                "resource": name(pool.pool.resource),
                # Elsewhere what there is, or is held, or more.
                "capacity": left.pop(None, int(pool.capacity.max()) + held),
                "domains": left,
            }
            yield pool.pool, pool.pool.model_copy(update=change)

    def of_levels(self, amounts: Sequence[Ints]) -> Iterator[Ints]:
        """Yield the amounts of the pools of levels, in the order of `Problem.pools`."""
        for pool, mine in zip(self._pools, amounts, strict=True):
            if pool.pool.level is not None:
                yield mine


def fit(taken: Amounts, free: Amounts) -> bool:
    """Whether what is taken of each domain is free."""
    return all(bool((mine <= left).all()) for mine, left in zip(taken, free, strict=True))


def least(first: Amounts, second: Amounts) -> Amounts:
    """Return the smaller amount of each domain."""
    return tuple(np.minimum(a, b) for a, b in zip(first, second, strict=True))
