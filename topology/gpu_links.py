"""Link matrix of a host: how its GPUs and NICs reach each other, and how well sets are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints

LinkKind: TypeAlias = Literal["system", "numa", "pcie", "xgmi", "nvlink"]
LINK_KINDS: tuple[LinkKind, ...] = ("system", "numa", "pcie", "xgmi", "nvlink")
"""Ways between two GPUs, the worst first.

`system`: across sockets. `numa`: through the host bridges of one NUMA node. `pcie`: through PCIe
switches alone. `xgmi`, `nvlink`: direct, or through switches of their own.
"""
Joined: TypeAlias = Literal["all", "ring", "path"]

MOST_GPUS = 16
"""Of a host whose links differ: the tables of a matrix have an entry for each set of its GPUs."""
_BEST = np.int64(1) << 62


@dataclass(frozen=True)
class GpuLinks:
    """The links between the GPUs of a host, and from its NICs to them.

    Two GPUs between which no link is known have none: kind 0 and 0 Mbit/s.

    Parameters
    ----------
    name : str
        By which hosts name it.
    kind : tuple of tuples of int (gpus, gpus)
        One more than the index in `LINK_KINDS`, 0 where no link is known; symmetric, 0 for i, i.
    mbps : tuple of tuples of int (gpus, gpus)
        Mbit/s in each direction.
    nic_kind, nic_mbps : tuple of tuples of int (nics, gpus)
        The same from each NIC to each GPU.
    numa : tuple of int (gpus,)
        NUMA node of each GPU; empty where it is unknown.
    source : str
        Where the figures are from.
    """

    name: str
    kind: tuple[tuple[int, ...], ...]
    mbps: tuple[tuple[int, ...], ...]
    nic_kind: tuple[tuple[int, ...], ...] = ()
    nic_mbps: tuple[tuple[int, ...], ...] = ()
    numa: tuple[int, ...] = ()
    source: str = field(default="", compare=False)

    @property
    def gpus(self) -> int:
        """GPUs of the host."""
        return len(self.kind)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether any two GPUs are joined alike."""
        pairs = {(self.kind[i][j], self.mbps[i][j]) for i in range(self.gpus) for j in range(i)}
        return len(pairs) <= 1

    def first(self, gpus: int) -> GpuLinks:
        """Return the links between the first GPUs alone, as a host has them that has no more."""
        if gpus == self.gpus:
            return self
        if gpus not in self._parts:
            self._parts[gpus] = GpuLinks(
                self.name,
                tuple(row[:gpus] for row in self.kind[:gpus]),
                tuple(row[:gpus] for row in self.mbps[:gpus]),
                tuple(row[:gpus] for row in self.nic_kind),
                tuple(row[:gpus] for row in self.nic_mbps),
                self.numa[:gpus],
                self.source,
            )
        return self._parts[gpus]

    @cached_property
    def _parts(self) -> dict[int, GpuLinks]:
        return {}


_WORDS: Mapping[LinkKind, str] = {
    "system": "SYS",
    "numa": "NODE",
    "pcie": "PIX",
    "xgmi": "XGMI",
    "nvlink": "NV",
}
"""By which `nvidia-smi topo -m` and `rocm-smi --showtopo` call them."""


def links_of_words(matrix: Mapping[str, Any]) -> GpuLinks:
    """Return a link matrix of words, as the Cluster document has it, as numbers."""
    classes = matrix["classes"]
    kind = {word: LINK_KINDS.index(one["kind"]) + 1 for word, one in classes.items()}
    mbps = {word: one["bandwidth_mbps"] for word, one in classes.items()}

    def numbers(part: str, of: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
        rows = matrix.get(part, ())
        return tuple(tuple(of.get(word, 0) for word in row.split()) for row in rows)

    return GpuLinks(
        matrix["name"],
        numbers("gpus", kind),
        numbers("gpus", mbps),
        numbers("nics", kind),
        numbers("nics", mbps),
        tuple(matrix.get("numa", ())),
        matrix.get("source", ""),
    )


def words_of_links(links: GpuLinks) -> dict[str, Any]:
    """Return a link matrix as words, as the Cluster document has it: `links_of_words` undoes it."""
    rows = [
        [*zip(kinds, mbps, strict=True)]
        for kinds, mbps in zip(
            (*links.kind, *links.nic_kind), (*links.mbps, *links.nic_mbps), strict=True
        )
    ]
    found = sorted({pair for row in rows for pair in row if pair[0]})
    kinds = [kind for kind, _ in found]
    word = {
        (kind, mbps): _WORDS[LINK_KINDS[kind - 1]] + (f"-{mbps}" if kinds.count(kind) > 1 else "")
        for kind, mbps in found
    }
    classes = {
        name: {"kind": LINK_KINDS[kind - 1], "bandwidth_mbps": mbps}
        for (kind, mbps), name in word.items()
    }
    texts = [
        " ".join("X" if i == j else word.get(pair, "-") for j, pair in enumerate(row))
        for i, row in enumerate(rows)
    ]
    matrix: dict[str, Any] = {
        "name": links.name,
        "classes": classes,
        "gpus": texts[: links.gpus],
        "nics": texts[links.gpus :],
    }
    if links.numa:
        matrix["numa"] = list(links.numa)
    if links.source:
        matrix["source"] = links.source
    return matrix


def link_kind(kind: int) -> LinkKind | None:
    """Return the name of an entry of `GpuLinks.kind`, None where no link is known."""
    return LINK_KINDS[kind - 1] if kind else None


def joining_links(
    links: GpuLinks, required: LinkKind | None, at_least_mbps: int
) -> NDArray[np.bool_]:
    """Return which pairs have a link of the required kind or better, bool (gpus, gpus).

    The link also has the bandwidth that is asked; any link that is known will do without a kind.
    """
    kind, mbps = np.array(links.kind), np.array(links.mbps)
    least = 1 if required is None else LINK_KINDS.index(required) + 1
    found: NDArray[np.bool_] = (kind >= least) & (mbps >= at_least_mbps)
    return found


# Tables over all sets of GPUs: entry m is of the GPUs i for which bit i of m is set.


def pairs_in(weight: Ints) -> Ints:
    """Return the sum of the weights of the pairs in each set, int64 (2 ** gpus,)."""
    gpus = len(weight)
    total = np.zeros(1 << gpus, dtype=np.int64)
    for i in range(gpus):
        # Of sets in which i is the last one: the pairs without it, and those with it.
        size = 1 << i
        with_i = np.zeros(size, dtype=np.int64)
        for j in range(i):
            with_i += np.where(np.arange(size) >> j & 1, weight[i, j], 0)
        total[size : 2 * size] = total[:size] + with_i
    return total


def slowest_link(weight: Ints, shape: Literal["ring", "path"]) -> Ints:
    """Return the largest least weight of a ring or path through each set, int64 (2 ** gpus,).

    That is the bottleneck travelling salesman problem, by the dynamic program over sets of Held
    and Karp ("A dynamic programming approach to sequencing problems", SIAM J. 10, 1962): `end[m,
    j]` is of the paths through m that end in j, and of a ring begin at its first GPU. The ring of
    two GPUs is their link; one GPU alone has none, and weight 0.
    """
    gpus = len(weight)
    sets = np.arange(1 << gpus)
    size = np.array([m.bit_count() for m in range(1 << gpus)])
    lowest = np.array([(m & -m).bit_length() - 1 for m in range(1 << gpus)])
    end = np.zeros((1 << gpus, gpus), dtype=np.int64)
    for i in range(gpus):
        end[1 << i, i] = _BEST
    for number in range(2, gpus + 1):
        mine = sets[size == number]
        for j in range(gpus):
            with_j = mine[mine >> j & 1 > 0]
            if shape == "ring":
                with_j = with_j[lowest[with_j] != j]
            before = np.minimum(end[with_j ^ 1 << j], weight[j])
            end[with_j, j] = before.max(axis=1, initial=0)
    if shape == "path":
        found: Ints = end.max(axis=1, initial=0)
    else:
        found = np.minimum(end, weight[lowest]).max(axis=1, initial=0)
    found[size < 2] = 0
    return found


@lru_cache(maxsize=64)
def best_ring(links: GpuLinks) -> Ints:
    """Return the slowest link of the best ring through each set of GPUs, int64 (2 ** gpus,)."""
    return slowest_link(np.array(links.mbps), "ring")


def ring_mbps(links: GpuLinks, gpus: Iterable[int]) -> int:
    """Return the slowest link of the best ring through some GPUs; 0 for one alone."""
    chosen = set(gpus)
    if links.is_uniform:
        return links.mbps[0][-1] if len(chosen) > 1 else 0
    return int(best_ring(links)[sum(1 << gpu for gpu in chosen)])


@lru_cache(maxsize=256)
def best_rings(links: GpuLinks) -> tuple[int, ...]:
    """Return the slowest link of the best ring through any 0, 1, 2, ... GPUs."""
    if links.is_uniform:
        return (0, 0, *[links.mbps[0][-1]] * (links.gpus - 1))
    size = np.array([m.bit_count() for m in range(1 << links.gpus)])
    return tuple(int(best_ring(links)[size == n].max()) for n in range(links.gpus + 1))


def canonical_form(links: GpuLinks, gpus: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the links among some GPUs, the same for all sets that are joined alike.

    Two sets have one form exactly if a bijection between them keeps kinds and bandwidths: the form
    is the least matrix over all orders of the GPUs that refinement of their colours allows. GPUs
    that have the same links to all others, and so could change places, are tried once.
    """
    label = {(i, j): (links.kind[i][j], links.mbps[i][j]) for i in gpus for j in gpus if i != j}
    best: list[tuple[tuple[int, int], ...]] = []

    def refine(colour: dict[int, int]) -> dict[int, int]:
        while True:
            key = {
                i: (colour[i], *sorted((colour[j], label[i, j]) for j in colour if j != i))
                for i in colour
            }
            number = {k: n for n, k in enumerate(sorted(set(key.values())))}
            if len(number) == len(set(colour.values())):
                return {i: number[key[i]] for i in colour}
            colour = {i: number[key[i]] for i in colour}

    def search(colour: dict[int, int]) -> None:
        cells: dict[int, list[int]] = {}
        for i in sorted(colour, key=lambda i: colour[i]):
            cells.setdefault(colour[i], []).append(i)
        cell = next((c for c in cells.values() if len(c) > 1), None)
        if cell is None:
            order = [c[0] for c in cells.values()]
            form = tuple(label[i, j] for n, i in enumerate(order) for j in order[:n])
            if not best or form < best[0]:
                best[:] = [form]
            return
        tried: list[int] = []
        for i in cell:
            if any(_are_twins(label, i, other, colour) for other in tried):
                continue
            tried.append(i)
            search(refine({j: 2 * colour[j] + (j != i) for j in colour}))

    search(refine(dict.fromkeys(gpus, 0)))
    return best[0]


def _are_twins(
    label: dict[tuple[int, int], tuple[int, int]], i: int, j: int, gpus: dict[int, int]
) -> bool:
    return all(label[i, k] == label[j, k] for k in gpus if k not in (i, j))
