"""Link matrix of a host by its wires: those between GPUs and NICs, and ways through switches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from placewright.topology.gpu_links import LINK_KINDS, GpuLinks, link_kind

Wire: TypeAlias = tuple[int, int, int, int]
"""Two ends, the kind as in `GpuLinks`, and Mbit/s. First come GPUs, then NICs, then switches."""
_Link: TypeAlias = tuple[int, int]
_NONE = (0, 0)


def wired_links(gpus: int, nics: int, through: Sequence[int], wires: Sequence[Wire]) -> GpuLinks:
    """Return the links that wires make, without a name.

    `through` is the best kind that a way through each switch can have. Of two ends, the wires
    between them and the ways through one switch count, those of the best kind together; if there
    are none, the best way through several switches: by its worst kind, then by its slowest wire.
    """
    ends = gpus + nics
    direct: defaultdict[_Link, list[_Link]] = defaultdict(list)
    spokes: list[dict[int, _Link]] = [{} for _ in range(ends)]
    between: list[Wire] = []
    for a, b, kind, mbps in wires:
        i, j = min(a, b), max(a, b)
        if j < ends:
            direct[i, j].append((kind, mbps))
        elif i < ends:
            best = max(spokes[i].get(j - ends, _NONE), (kind, mbps))
            spokes[i][j - ends] = best
        else:
            between.append((i - ends, j - ends, kind, mbps))
    ways = _Ways(through, between)

    def link(i: int, j: int) -> _Link:
        width: defaultdict[int, int] = defaultdict(int)
        for kind, mbps in direct.get((i, j), ()):
            width[kind] += mbps
        for hub in spokes[i].keys() & spokes[j].keys():
            (kind, mbps), (other, width_of_other) = spokes[i][hub], spokes[j][hub]
            width[min(kind, other, through[hub])] += min(mbps, width_of_other)
        if width:
            return max(width.items())
        return ways.between(spokes[i], spokes[j])

    if not direct and gpus > 2 and all(one == spokes[0] for one in spokes[:gpus]):
        same = link(0, 1)  # hosts of many GPUs on the same switches
        pair = {(i, j): same for i in range(gpus) for j in range(i)}
    else:
        pair = {(i, j): link(j, i) for i in range(gpus) for j in range(i)}
    near = [[link(g, gpus + n) for g in range(gpus)] for n in range(nics)]

    def rows(part: int) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(pair.get((max(i, j), min(i, j)), _NONE)[part] for j in range(gpus))
            for i in range(gpus)
        )

    def nic_rows(part: int) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(one[part] for one in row) for row in near)

    return GpuLinks("", rows(0), rows(1), nic_rows(0), nic_rows(1))


class _Ways:
    """The best ways over several switches: by kind from the best, the widest by such wires."""

    def __init__(self, through: Sequence[int], wires: Sequence[Wire]) -> None:
        self._widest: list[tuple[int, dict[_Link, int]]] = []
        for least in range(len(LINK_KINDS), 0, -1) if wires else ():
            kept = [w for w in wires if min(w[2], through[w[0]], through[w[1]]) >= least]
            self._widest.append((least, _widest(kept)))

    def between(self, a: dict[int, _Link], b: dict[int, _Link]) -> _Link:
        """Return the best way between ends that have these wires to switches."""
        for least, widest in self._widest:
            found = [
                min(widest[x, y], width, width_of_other)
                for x, (kind, width) in a.items()
                for y, (other, width_of_other) in b.items()
                if min(kind, other) >= least and (x, y) in widest
            ]
            if found:
                return least, max(found)
        return _NONE


def _widest(wires: Sequence[Wire]) -> dict[_Link, int]:
    """Return the width of the widest way between any two switches, by Kruskal's algorithm."""
    parts: dict[int, list[int]] = {}
    widest: dict[_Link, int] = {}
    for a, b, _, mbps in sorted(wires, key=lambda wire: -wire[3]):
        one, other = parts.setdefault(a, [a]), parts.setdefault(b, [b])
        if one is not other:
            widest |= {(x, y): mbps for x in one for y in other}
            widest |= {(y, x): mbps for x in one for y in other}
            one += other
            parts |= dict.fromkeys(other, one)
    return widest


def says_the_same(drawn: GpuLinks, listed: GpuLinks) -> bool:
    """Whether edges say what a matrix says; what they do not speak of counts as said."""
    nics = max(len(drawn.nic_kind), len(listed.nic_kind))
    none = ((0,) * drawn.gpus,)

    def parts(links: GpuLinks) -> tuple[object, ...]:
        padding = none * (nics - len(links.nic_kind))
        return links.kind, links.mbps, links.nic_kind + padding, links.nic_mbps + padding

    return parts(drawn) == parts(listed) and drawn.numa in ((), listed.numa)


def difference(drawn: GpuLinks, listed: GpuLinks) -> str:
    """Say where edges and a matrix differ."""
    for i in range(drawn.gpus):
        for j in range(i):
            mine, theirs = _link(drawn, i, j), _link(listed, i, j)
            if mine != theirs:
                return f"GPUs {j} and {i} have {mine}; expected {theirs}"
    return "its NICs or NUMA nodes differ; expected those"


def _link(links: GpuLinks, i: int, j: int) -> str:
    kind = link_kind(links.kind[i][j])
    return "no link" if kind is None else f"{kind} of {links.mbps[i][j]} Mbit/s"
