"""Virtual clusters on one chain: requests as they come and go, under the binding rule.

A tenant owns a number of cells of each level, its **virtual cells**. They are a cluster of its own:
requests are buddy-allocated in them, by nothing but the tenant's own requests. A virtual cell is
bound to one physical cell of its level while any part of it is in use, and physical cells are
buddy-allocated to virtual ones.

**What is guaranteed.** If the virtual cells of all tenants fit the chain (`claims_fit`), and no
physical cell is withdrawn, binding never fails: of whatever claims fit, the smallest free cell that
holds one may go to it, since claims inside that cell can change places with it; and a cell that is
given back fits its claim. So a request is refused only where the tenant's virtual cells have no
free cell of that level: where a cluster of its own, with the same rule, would refuse it as well. In
particular, no request is refused as long as all that the tenant holds or may still ask for fits its
virtual cells at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placewright.formulations.cells.buddy import Buddy, Cost
from placewright.topology.chain import Cell, Chain, claims_fit


class Grant(NamedTuple):
    """A cell that a tenant holds: where in its own virtual cells, and where in the chain."""

    tenant: str
    virtual: Cell
    physical: Cell


class Allocator:
    """Grants cells to tenants inside what they own.

    Parameters
    ----------
    chain, tops
        The trees: their shape, and how many there are.
    quotas
        Per tenant, the cells that it owns of each level, innermost first.

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
        if virtual.free_root(root):
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
