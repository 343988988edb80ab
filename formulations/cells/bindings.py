"""Bindings of virtual cells to physical ones (HiveD): which are bound, and binding one more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from placewright.formulations.cells.buddy import Buddy
from placewright.instances.derived.cell_trees import (
    EntryKey,
    bindings_in_use,
    chains_of,
    owned_cells,
)
from placewright.instances.documents.round import Round
from placewright.topology.chain import Cell

NAMED_HOST = 10**12
"""What a host is worth that a job names: more than all that is running in a cell costs."""


class Bindings:
    """The cells that are bound to tenants; at first those that running jobs use.

    Parameters
    ----------
    round_
        A round that `check_round` accepts.
    unusable
        Hosts, by name, that no newly bound cell may contain.
    cost
        Cost of claiming a host, by name; of equally small cells the cheapest is bound.
    """

    def __init__(
        self, round_: Round, unusable: Collection[str], cost: Callable[[str], int]
    ) -> None:
        self._chains = chains_of(round_.cluster, round_.tenants)
        self._cost_of_host = cost
        self._cost_of_cell: dict[tuple[int, Cell, frozenset[str]], int] = {}
        self._free: dict[int, Buddy] = {}
        self._left = Counter({key: entry.count for key, entry in owned_cells(round_.tenants)})
        self._level = {
            key: self._chains[key].levels.index(entry.level)
            for key, entry in owned_cells(round_.tenants)
        }
        for chain in self._chains.values():
            top = chain.shape.levels - 1
            roots = (Cell(top, number) for number in range(len(chain.names[top])))
            self._free.setdefault(id(chain), Buddy(chain.shape, roots))
        self.bound: list[tuple[EntryKey, Cell]] = []
        for _, key, cell in bindings_in_use(round_, self._chains):
            self._free[id(self._chains[key])].claim(cell)
            self._left[key] -= 1
            self.bound.append((key, cell))
        for chain in {id(chain): chain for chain in self._chains.values()}.values():
            for number, host in enumerate(chain.names[0]):
                if host in unusable:
                    self._free[id(chain)].claim(Cell(0, number))

    def hosts(self, key: EntryKey, cell: Cell) -> tuple[str, ...]:
        """Return the hosts of a cell."""
        return self._chains[key].hosts(cell)

    def domain(self, key: EntryKey, cell: Cell) -> str:
        """Return the name of the domain that is a cell."""
        return self._chains[key].name(cell)

    def unbound_entries(self, tenant: int) -> list[EntryKey]:
        """Return the entries of a tenant with unbound cells, smallest cells first."""

        def size(key: EntryKey) -> int:
            return self._chains[key].shape.ratio(self._level[key], 0)

        mine = (key for key, left in self._left.items() if key[0] == tenant and left)
        return sorted(mine, key=lambda key: (size(key), key))

    def of_tenant(self, tenant: int) -> Iterator[tuple[EntryKey, Cell]]:
        """Yield the cells bound to a tenant, each with its entry."""
        for key, cell in self.bound:
            if key[0] == tenant:
                yield key, cell

    def bind(self, key: EntryKey, named: frozenset[str] = frozenset()) -> Cell | None:
        """Bind one more cell of an entry and return it; None if no usable cell is free.

        Of equally small cells one with the most of the `named` hosts, if there are any, is bound.
        """
        chain = self._chains[key]

        def cost(cell: Cell) -> int:
            of_chain = id(chain), cell, named
            known = self._cost_of_cell.get(of_chain)
            if known is None:
                hosts = chain.hosts(cell)
                inside = sum(host in named for host in hosts) if named else 0
                known = sum(map(self._cost_of_host, hosts)) - NAMED_HOST * inside
                self._cost_of_cell[of_chain] = known
            return known

        cell = self._free[id(chain)].take(self._level[key], cost)
        if cell is not None:
            self._left[key] -= 1
            self.bound.append((key, cell))
        return cell

    def unbind(self, key: EntryKey, cell: Cell) -> None:
        """Give a bound cell back."""
        self._free[id(self._chains[key])].give(cell)
        self._left[key] += 1
        self.bound.remove((key, cell))
