"""Vector bin packing by local search: items change domains until none holds more than it has.

An item of a domain that holds too much changes places with one of another domain, or either moves
alone, whichever lowers the excess most; steps that leave it as it is are taken, too (a plateau). If
that ends in a local optimum, items of such a domain and of a few others are dealt anew: iterated
local search (Lourenço, Martin and Stützle 2003). The excess of a domain is what it lacks of each
resource, in units of a domain's mean.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.session import Session

NOTHING = -1
"""An item that stands for none: one that changes places with it moves alone."""

TOLERANCE = 1e-9


class DomainSwaps:
    """The domain of each item, and what the domains have left.

    Attributes
    ----------
    domain : int64 (items,)

    Parameters
    ----------
    demand : int64 (items, resources)
    kind : int64 (items,)
        Row of `allowed` of each item.
    allowed : bool (kinds, domains)
    around : sequence of int64 (domains,)
        Per resource the domain that gives it: of this level, or one around it that others share.
    left : sequence of int64
        Per resource what those domains have without any item.
    unit : float64 (resources,)
    """

    def __init__(
        self,
        demand: Ints,
        kind: Ints,
        allowed: NDArray[np.bool_],
        around: Sequence[Ints],
        left: Sequence[Ints],
        unit: Floats,
    ) -> None:
        self._demand = np.vstack([demand, np.zeros_like(demand[:1])])
        # One more kind, of nothing, which may be anywhere.
        self._kind = np.append(kind, len(allowed))
        self._allowed = np.vstack([allowed, np.ones_like(allowed[:1])])
        self._around, self._unit = around, unit
        self._left = [one.copy() for one in left]
        self._number = np.zeros(allowed.shape[1], dtype=np.int64)
        self._members = np.full((allowed.shape[1], 1), NOTHING, dtype=np.int64)
        self.domain = np.full(len(demand), NOTHING, dtype=np.int64)

    def deal(self, together: Sequence[Ints]) -> None:
        """Deal sets of items that begin in one domain, the largest first, where most is left."""
        size = [(self._demand[items] / self._unit).sum(axis=0) for items in together]
        has = sum(
            left[around] / unit
            for left, around, unit in zip(self._left, self._around, self._unit, strict=True)
        )
        heap = [(-one, d) for d, one in enumerate(np.asarray(has).tolist())]
        heapq.heapify(heap)
        order = np.argsort([-one.max() for one in size], kind="stable")
        for k in order.tolist():
            may = self._allowed[self._kind[together[k]]].all(axis=0)
            passed = []
            while heap:
                least, d = heapq.heappop(heap)
                if may[d]:
                    for item in together[k].tolist():
                        self._put(item, d)
                    heapq.heappush(heap, (least + float(size[k].sum()), d))
                    break
                passed.append((least, d))
            for entry in passed:
                heapq.heappush(heap, entry)

    def search(self, session: Session) -> bool:
        """Move and swap items until no domain has an excess; return whether none has."""
        tuning = parameters.PARAMETERS.packing
        rng = np.random.default_rng(session.seed)
        best, found, failures = self.excess(), self.domain.copy(), 0
        while True:
            self._descend(session, rng)
            excess = self.excess()
            if excess < best - TOLERANCE:
                best, found, failures = excess, self.domain.copy(), 0
            if best <= TOLERANCE or failures == tuning.max_deals or session.expired():
                break
            failures += 1
            self._deal_anew(rng)
        for item in np.flatnonzero(self.domain != found).tolist():
            self._move(item, int(found[item]))
        return best <= TOLERANCE

    def excess(self) -> float:
        """Return what all domains lack, in units."""
        return sum(
            float(np.maximum(-left, 0).sum() / unit)
            for left, unit in zip(self._left, self._unit, strict=True)
        )

    def lacks(self) -> Ints:
        """Return what each domain and those around it lack, int64 (domains, resources)."""
        return np.stack(
            [
                np.maximum(-left, 0)[around]
                for left, around in zip(self._left, self._around, strict=True)
            ],
            axis=1,
        )

    def _descend(self, session: Session, rng: np.random.Generator) -> None:
        """Take steps until no domain has an excess, or many have not lowered it."""
        now = least = self.excess()
        idle = 0
        while idle < parameters.PARAMETERS.packing.max_idle_swaps and not session.expired():
            full = np.flatnonzero(self.lacks().any(axis=1))
            if not len(full):
                return
            now += self._step(int(rng.choice(full)), rng)
            idle = 0 if now < least - TOLERANCE else idle + 1
            least = min(least, now)

    def _step(self, a: int, rng: np.random.Generator) -> float:
        """Take the best swap or move between a domain and some others; return what it changes."""
        mine, theirs, others = self._neighbourhood(a, rng)
        diff = self._demand[mine][:, None, :] - self._demand[theirs][None, :, :]
        change = np.zeros(diff.shape[:2])
        for k, (around, left) in enumerate(zip(self._around, self._left, strict=True)):
            here, there = int(left[around[a]]), left[around[others]]
            more = np.maximum(-(here + diff[:, :, k]), 0) + np.maximum(diff[:, :, k] - there, 0)
            more -= max(-here, 0) + np.maximum(-there, 0)
            change += np.where(around[others] == around[a], 0, more) / self._unit[k]
        change[~self._allowed[self._kind[mine]][:, others]] = np.inf
        change[:, ~self._allowed[self._kind[theirs], a]] = np.inf
        change[np.ix_(mine == NOTHING, theirs == NOTHING)] = np.inf
        least = float(change.min(initial=np.inf))
        if least > TOLERANCE:
            return 0.0
        ties = np.flatnonzero(change <= least + TOLERANCE)
        i, j = divmod(int(rng.choice(ties)), change.shape[1])
        self._swap(int(mine[i]), int(theirs[j]), a, int(others[j]))
        return least

    def _neighbourhood(self, a: int, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """Return items of a domain, items of some others, and the domains of those."""
        tuning = parameters.PARAMETERS.packing
        size = len(self._number)
        mine = self._members[a, : self._number[a]]
        if len(mine) > tuning.max_swapped_items:
            mine = rng.choice(mine, tuning.max_swapped_items, replace=False)
        some = np.arange(size)
        if size > tuning.max_swapped_domains:
            some = np.unique(rng.integers(size, size=tuning.max_swapped_domains))
        some = some[some != a]
        width = int(self._number[some].max(initial=0)) + 1
        theirs, others = self._members[some, :width].ravel(), np.repeat(some, width)
        most = tuning.max_swapped_items * tuning.max_swapped_domains
        if len(theirs) > most:
            kept = rng.choice(len(theirs), most, replace=False)
            theirs, others = theirs[kept], others[kept]
        return np.append(mine, NOTHING), theirs, others

    def _deal_anew(self, rng: np.random.Generator) -> None:
        """Let items of a domain with an excess, and of a few others, change places at random."""
        full = np.flatnonzero(self.lacks().any(axis=1))
        few = rng.integers(len(self._number), size=parameters.PARAMETERS.packing.num_dealt_domains)
        items = rng.permutation(
            np.flatnonzero(np.isin(self.domain, np.append(few, rng.choice(full))))
        )
        half = len(items) // 2
        for i, j in zip(items[:half].tolist(), items[half : 2 * half].tolist(), strict=True):
            a, b = int(self.domain[i]), int(self.domain[j])
            if a != b and self._allowed[self._kind[i], b] and self._allowed[self._kind[j], a]:
                self._swap(i, j, a, b)

    def _swap(self, i: int, j: int, a: int, b: int) -> None:
        if i != NOTHING:
            self._move(i, b)
        if j != NOTHING:
            self._move(j, a)

    def _move(self, item: int, d: int) -> None:
        a = int(self.domain[item])
        if a != NOTHING:
            last = int(self._number[a]) - 1
            at = int(np.flatnonzero(self._members[a, : last + 1] == item)[0])
            self._members[a, at] = self._members[a, last]
            self._members[a, last] = NOTHING
            self._number[a] = last
            self._charge(item, a, -1)
        self._put(item, d)

    def _put(self, item: int, d: int) -> None:
        number = int(self._number[d])
        # One column more than any domain has items: each ends with nothing.
        if number + 1 == self._members.shape[1]:
            wider = np.full_like(self._members, NOTHING)
            self._members = np.concatenate([self._members, wider], axis=1)
        self._members[d, number] = item
        self._number[d] = number + 1
        self.domain[item] = d
        self._charge(item, d, 1)

    def _charge(self, item: int, d: int, times: int) -> None:
        for k, (around, left) in enumerate(zip(self._around, self._left, strict=True)):
            left[around[d]] -= times * self._demand[item, k]
