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

PLATEAU = 2 * TOLERANCE
"""Change of the excess up to which it stays as it is."""


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
    joint : bool (items,)
        Items that had better stay where they begin, with others of their job.
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
        joint: NDArray[np.bool_],
        around: Sequence[Ints],
        left: Sequence[Ints],
        unit: Floats,
    ) -> None:
        self._demand = np.vstack([demand, np.zeros_like(demand[:1])])
        # One more kind, of nothing, which may be anywhere.
        self._kind = np.append(kind, len(allowed))
        self._allowed = np.vstack([allowed, np.ones_like(allowed[:1])])
        self._anywhere = bool(allowed.all())
        self._joint = np.append(joint, False)
        self._around, self._unit = around, unit
        self._left = [one.copy() for one in left]
        # What all domains have, in units.
        self._total = sum(float(one.sum() / each) for one, each in zip(left, unit, strict=True))
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

    def search(self, session: Session) -> None:
        """Move and swap items until no domain has an excess, or hardly any.

        What is left may be a small part of the gap asked for: it costs a few jobs of many.
        """
        tuning = parameters.PARAMETERS.packing
        rng = np.random.default_rng(session.seed)
        enough = max(tuning.excess_of_gap * session.gap * self._total, TOLERANCE)
        best, found, failures = self.excess(), self.domain.copy(), 0
        while True:
            self._descend(session, rng)
            excess = self.excess()
            if excess < best - TOLERANCE:
                best, found, failures = excess, self.domain.copy(), 0
            # A deal repairs one domain, so many are beyond it.
            few = np.count_nonzero(self.lacks().any(axis=1)) <= tuning.max_deals
            if best <= enough or failures == tuning.max_deals or not few or session.expired():
                break
            failures += 1
            self._deal_anew(rng)
        for item in np.flatnonzero(self.domain != found).tolist():
            self._move(item, int(found[item]))

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
        """Sweep until no domain has an excess, or it falls too slowly."""
        tuning = parameters.PARAMETERS.packing
        before, now = np.inf, self.excess()
        while TOLERANCE < now < tuning.least_fall * before:
            before = now
            for _ in range(tuning.num_sweeps):
                if now <= TOLERANCE or session.expired():
                    return
                self._sweep(rng)
                now = self.excess()

    def _sweep(self, rng: np.random.Generator) -> None:
        """Take the best step of each domain that lacks a resource, with one of its partners."""
        full, partners = self._partners(rng)
        each = partners.shape[1]
        if not each:
            return  # all domains lack it
        width = min(int(self._number.max()), parameters.PARAMETERS.packing.max_swapped_items) + 1
        parts = -(-partners.size * width**2 // parameters.PARAMETERS.packing.max_swaps)
        for some in np.array_split(np.arange(len(full)), parts):
            a, b = np.repeat(full[some], each), partners[some].ravel()
            mine, theirs, change = self._changes(a, b, rng)
            change = change.reshape(len(some), -1)
            best = change.argmin(axis=1)
            shape = (len(some), each, mine.shape[1], theirs.shape[1])
            for n in np.flatnonzero(change.min(axis=1, initial=np.inf) < PLATEAU).tolist():
                _, pair, i, j = np.unravel_index(n * change.shape[1] + best[n], shape)
                k = n * each + int(pair)
                self._swap(int(mine[k, i]), int(theirs[k, j]), int(a[k]), int(b[k]))

    def _partners(self, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Draw domains that lack some resource, and others for each of them.

        No domain comes twice. Others that have some of that resource left come first: without them
        an excess is only passed on. Shapes are (domains,) and (domains, partners).
        """
        lacking = [k for k, left in enumerate(self._left) if (left < 0).any()]
        k = int(rng.choice(lacking))
        around, left = self._around[k], self._left[k]
        order = rng.permutation(len(around))
        has = left[around[order]]
        # One of those that share what they lack.
        full = order[has < 0][np.unique(around[order[has < 0]], return_index=True)[1]]
        others = np.concatenate([order[has > 0], order[has == 0]])
        full = rng.permutation(full)[: len(others)]
        most = parameters.PARAMETERS.packing.max_partners
        each = min(most, len(others) // max(len(full), 1))
        return full, others[: each * len(full)].reshape(each, len(full)).T

    def _changes(self, a: Ints, b: Ints, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
        """Return the items of pairs of domains, and by how much swaps of two change the excess.

        Shapes are (pairs, items), (pairs, items) and (pairs, items, items). Equal changes differ by
        less than `PLATEAU`, so that any may be the best. Joint items count a part of what they
        lower, and do not move for nothing.
        """
        mine, theirs = self._some_items(a, rng), self._some_items(b, rng)
        joint = self._joint[mine][:, :, None] + self._joint[theirs][:, None, :]
        change = TOLERANCE * rng.uniform(0, 1, joint.shape)
        for k, (around, left) in enumerate(zip(self._around, self._left, strict=True)):
            demand = self._demand[:, k]
            moved = demand[mine][:, :, None] - demand[theirs][:, None, :]
            here, there = left[around[a]][:, None, None], left[around[b]][:, None, None]
            more = np.maximum(-(here + moved), 0) + np.maximum(moved - there, 0)
            more -= np.maximum(-here, 0) + np.maximum(-there, 0)
            more[around[a] == around[b]] = 0
            change += more / self._unit[k]
        if not self._anywhere:
            change[~self._allowed[self._kind[mine], b[:, None]]] = np.inf
            change.transpose(0, 2, 1)[~self._allowed[self._kind[theirs], a[:, None]]] = np.inf
        change[(mine == NOTHING)[:, :, None] & (theirs == NOTHING)[:, None, :]] = np.inf
        change[joint & (change > -PLATEAU)] = np.inf
        change[joint] *= parameters.PARAMETERS.packing.joint_share
        return mine, theirs, change

    def _some_items(self, domains: Ints, rng: np.random.Generator) -> Ints:
        """Return items of domains, int64 (domains, items); the last one of each is nothing."""
        most = parameters.PARAMETERS.packing.max_swapped_items
        width = int(self._number[domains].max(initial=0))
        columns = np.arange(width) if width <= most else rng.choice(width, most, replace=False)
        items: Ints = self._members[domains[:, None], np.append(columns, width)]
        return items

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
