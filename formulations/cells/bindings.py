"""Which cells of a round's chains are bound, and the binding of another one."""

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


class Bindings:
    """The cells of tenants that are bound in a round, at first those in use.

    Parameters
    ----------
    round_
        A round that `references.check_round` accepts.
    unusable
        Hosts that no cell which is bound now may have.
    cost
        What it costs to claim a host, by name; of equally small cells the cheapest is bound.
    """

    def __init__(
        self, round_: Round, unusable: Collection[str], cost: Callable[[str], int]
    ) -> None:
        self._chains = chains_of(round_.cluster, round_.tenants)
        self._cost_of_host = cost
        self._cost_of_cell: dict[tuple[int, Cell], int] = {}
        self._free: dict[int, Buddy] = {}
        self._left = Counter({kind: entry.count for kind, entry in owned_cells(round_.tenants)})
        self._level = {
            kind: self._chains[kind].levels.index(entry.level)
            for kind, entry in owned_cells(round_.tenants)
        }
        for chain in self._chains.values():
            top = chain.shape.levels - 1
            roots = (Cell(top, number) for number in range(len(chain.names[top])))
            self._free.setdefault(id(chain), Buddy(chain.shape, roots))
        self.bound: list[tuple[EntryKey, Cell]] = []
        for _, kind, cell in bindings_in_use(round_, self._chains):
            self._free[id(self._chains[kind])].claim(cell)
            self._left[kind] -= 1
            self.bound.append((kind, cell))
        for chain in {id(chain): chain for chain in self._chains.values()}.values():
            for number, host in enumerate(chain.names[0]):
                if host in unusable:
                    self._free[id(chain)].claim(Cell(0, number))

    def hosts(self, kind: EntryKey, cell: Cell) -> tuple[str, ...]:
        """Return the hosts of a cell."""
        return self._chains[kind].hosts(cell)

    def domain(self, kind: EntryKey, cell: Cell) -> str:
        """Return the domain that a cell is."""
        return self._chains[kind].name(cell)

    def open_kinds(self, tenant: int) -> list[EntryKey]:
        """Return the entries of a tenant of which cells are not bound, smallest cells first."""

        def size(kind: EntryKey) -> int:
            return self._chains[kind].shape.ratio(self._level[kind], 0)

        mine = (kind for kind, left in self._left.items() if kind[0] == tenant and left)
        return sorted(mine, key=lambda kind: (size(kind), kind))

    def of_tenant(self, tenant: int) -> Iterator[tuple[EntryKey, Cell]]:
        """Yield what is bound to a tenant."""
        for kind, cell in self.bound:
            if kind[0] == tenant:
                yield kind, cell

    def bind(self, kind: EntryKey) -> Cell | None:
        """Bind one more cell of an entry, or None where hosts failed or are not to be had."""
        chain = self._chains[kind]

        def cost(cell: Cell) -> int:
            key = id(chain), cell
            known = self._cost_of_cell.get(key)
            if known is None:
                known = sum(map(self._cost_of_host, chain.hosts(cell)))
                self._cost_of_cell[key] = known
            return known

        cell = self._free[id(chain)].take(self._level[kind], cost)
        if cell is not None:
            self._left[kind] -= 1
            self.bound.append((kind, cell))
        return cell

    def unbind(self, kind: EntryKey, cell: Cell) -> None:
        """Give a bound cell back."""
        self._free[id(self._chains[kind])].give(cell)
        self._left[kind] += 1
        self.bound.remove((kind, cell))
