"""Virtual clusters: their cells, bound to physical ones that are split by the buddy rule."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placewright.instances.derived.cell_trees import (
    EntryKey,
    bindings_in_use,
    chains_of,
    owned_cells,
)
from placewright.instances.documents.round import Round
from placewright.topology.chain import Cell, Chain, claims_fit

# Buddy allocation (Knowlton 1965) in the trees of a chain: the smallest free cell is split.


Cost = Callable[[Cell], int]


class Buddy:
    """The free cells of a chain, as a list of the maximal ones.

    `chain`: the shape of the trees. `roots`: disjoint cells of any levels, all free at first. Free
    cells are merged no further than into a root.
    """

    def __init__(self, chain: Chain, roots: Iterable[Cell]) -> None:
        self.chain = chain
        self._roots = frozenset(roots)
        self._free: list[list[int]] = [[] for _ in range(chain.levels)]
        self._held: set[Cell] = set()
        for level, index in sorted(self._roots):
            self._free[level].append(index)

    @property
    def maximal(self) -> tuple[int, ...]:
        """Number of maximal free cells per level, innermost first."""
        return tuple(len(indices) for indices in self._free)

    def take(self, level: int, cost: Cost | None = None) -> Cell | None:
        """Take a cell of a level out of the smallest free cell that holds one; None if none does.

        Ties, also among the parts of a split, go to the least `cost`, then to the first.
        """
        for outer in range(level, self.chain.levels):
            if self._free[outer]:
                cell = Cell(outer, _cheapest(outer, self._free[outer], cost))
                while cell.level > level:
                    below = cell.level - 1
                    halves = self.chain.inside(cell, below)
                    self._split(cell)
                    cell = Cell(below, _cheapest(below, halves, cost))
                self._remove(cell)
                self._held.add(cell)
                return cell
        return None

    def claim(self, cell: Cell) -> bool:
        """Take this very cell if all of it is free; return whether it was."""
        for outer in range(cell.level, self.chain.levels):
            over = self.chain.above(cell, outer)
            if self.is_free(over):
                while over.level > cell.level:
                    self._split(over)
                    over = self.chain.above(cell, over.level - 1)
                self._remove(cell)
                self._held.add(cell)
                return True
        return False

    def give(self, cell: Cell) -> None:
        """Give a taken cell back; free buddies are merged.

        Raises
        ------
        ValueError
            If it was not taken.
        """
        if cell not in self._held:
            raise ValueError(f"{cell} is given back; expected a cell that was taken")
        self._held.remove(cell)
        while cell not in self._roots:
            over = self.chain.above(cell, cell.level + 1)
            others = [i for i in self.chain.inside(over, cell.level) if i != cell.number]
            if not all(self.is_free(Cell(cell.level, i)) for i in others):
                break
            for i in others:
                self._remove(Cell(cell.level, i))
            cell = over
        insort(self._free[cell.level], cell.number)

    def _split(self, cell: Cell) -> None:
        self._remove(cell)
        below = self._free[cell.level - 1]
        parts = self.chain.inside(cell, cell.level - 1)
        at = bisect_left(below, parts.start)
        below[at:at] = parts

    def is_free(self, cell: Cell) -> bool:
        """Whether a cell is one of the maximal free ones."""
        indices = self._free[cell.level]
        at = bisect_left(indices, cell.number)
        return at < len(indices) and indices[at] == cell.number

    def _remove(self, cell: Cell) -> None:
        indices = self._free[cell.level]
        del indices[bisect_left(indices, cell.number)]


def _cheapest(level: int, indices: Sequence[int], cost: Cost | None) -> int:
    if cost is None:
        return indices[0]
    return min(indices, key=lambda index: (cost(Cell(level, index)), index))


# Bindings of virtual cells to physical ones (HiveD): which are bound, and binding one more.


NAMED_HOST = 10**12
"""What a host is worth that a job names: more than all that is running in a cell costs."""


class Bindings:
    """The cells that are bound to tenants; at first those that running jobs use.

    `round_`: a round that `check_round` accepts. `unusable`: hosts, by name, that no newly bound
    cell may contain. `cost`: cost of claiming a host, by name; of equally small cells the cheapest
    is bound.
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


# Virtual clusters on one chain: requests as they come and go, under the binding rule.
#
# A tenant owns a number of cells of each level, its **virtual cells**. They are a cluster of its
# own: requests are buddy-allocated in them, by nothing but the tenant's own requests. A virtual
# cell is bound to one physical cell of its level while any part of it is in use, and physical
# cells are buddy-allocated to virtual ones.
#
# **What is guaranteed.** If the virtual cells of all tenants fit the chain (`claims_fit`), and no
# physical cell is withdrawn, binding never fails: of whatever claims fit, the smallest free cell
# that holds one may go to it, since claims inside that cell can change places with it; and a cell
# that is given back fits its claim. So a request is refused only where the tenant's virtual cells
# have no free cell of that level: where a cluster of its own, with the same rule, would refuse it
# as well. In particular, no request is refused as long as all that the tenant holds or may still
# ask for fits its virtual cells at once.


class Grant(NamedTuple):
    """A cell that a tenant holds: where in its own virtual cells, and where in the chain."""

    tenant: str
    virtual: Cell
    physical: Cell


class Allocator:
    """Grants cells to tenants inside what they own.

    `chain` and `tops`: the trees: their shape, and how many there are. `quotas`: per tenant, the
    cells that it owns of each level, innermost first.

    Raises
    ------
    ValueError
        If what they own does not fit the chain.
    """

    def __init__(self, chain: Chain, tops: int, quotas: Mapping[str, Sequence[int]]) -> None:
        top = chain.levels - 1
        self._physical = Buddy(chain, (Cell(top, index) for index in range(tops)))
        owned = [sum(quota[level] for quota in quotas.values()) for level in range(chain.levels)]
        if not claims_fit(chain, owned, self._physical.maximal):
            raise ValueError(f"cells {owned} are owned per level; expected what {tops} trees hold")
        self.chain = chain
        self._roots = {tenant: _virtual_cells(chain, quota) for tenant, quota in quotas.items()}
        self._virtual = {tenant: Buddy(chain, roots) for tenant, roots in self._roots.items()}
        self._withdrawn: set[Cell] = set()
        self.bound: dict[tuple[str, Cell], Cell] = {}
        """The physical cell of each virtual cell that is in use."""

    def take(self, tenant: str, level: int, cost: Cost | None = None) -> Grant | None:
        """Grant a cell of a level, or None if the tenant's own cells have none free.

        None as well if cells are withdrawn, and the others hold none that it could be bound to. Of
        several physical cells that a virtual one may be bound to, it is the least `cost`.
        """
        virtual = self._virtual[tenant].take(level)
        if virtual is None:
            return None
        root = self._root(tenant, virtual)
        if (tenant, root) not in self.bound:
            physical = self._physical.take(root.level, cost)
            if physical is None and self._withdrawn:
                self._virtual[tenant].give(virtual)
                return None
            if physical is None:
                raise AssertionError(f"no cell for {root} of {tenant}; expected one by the rows")
            self.bound[tenant, root] = physical
        return Grant(tenant, virtual, self._image(tenant, virtual, root))

    def withdraw(self, cell: Cell) -> None:
        """Take a physical cell out of use, of which nothing is bound; binding may fail then."""
        if not self._physical.claim(cell):
            raise ValueError(f"{cell} is withdrawn; expected a cell of which no part is bound")
        self._withdrawn.add(cell)

    def bring_back(self, cell: Cell) -> None:
        """Take a withdrawn cell into use again."""
        self._withdrawn.remove(cell)
        self._physical.give(cell)

    def claim(self, grant: Grant) -> None:
        """Grant this very cell, which is free: what was granted is so again, in any order."""
        root = self._root(grant.tenant, grant.virtual)
        if (grant.tenant, root) not in self.bound:
            physical = self.chain.above(grant.physical, root.level)
            self._physical.claim(physical)
            self.bound[grant.tenant, root] = physical
        self._virtual[grant.tenant].claim(grant.virtual)

    def give(self, grant: Grant) -> None:
        """Take a granted cell back; ValueError if it is not held."""
        virtual = self._virtual[grant.tenant]
        virtual.give(grant.virtual)
        root = self._root(grant.tenant, grant.virtual)
        if virtual.is_free(root):
            self._physical.give(self.bound.pop((grant.tenant, root)))

    def _root(self, tenant: str, cell: Cell) -> Cell:
        roots, chain = self._roots[tenant], self.chain
        over = (chain.above(cell, level) for level in range(cell.level, chain.levels))
        return next(root for root in over if root in roots)

    def _image(self, tenant: str, cell: Cell, root: Cell) -> Cell:
        """Return where a virtual cell is, given that its root is bound."""
        first = self.chain.inside(root, cell.level).start
        there = self.chain.inside(self.bound[tenant, root], cell.level).start
        return Cell(cell.level, there + cell.number - first)


def _virtual_cells(chain: Chain, quota: Sequence[int]) -> frozenset[Cell]:
    """Return the cells that a tenant owns as trees side by side, the largest first."""
    roots: list[Cell] = []
    end = Cell(chain.levels - 1, 0)
    for level in reversed(range(chain.levels)):
        first = chain.inside(end, level).start
        roots += [Cell(level, first + k) for k in range(quota[level])]
        end = Cell(level, first + quota[level])
    return frozenset(roots)
