"""Cell chains of a cluster: hosts of one GPU model in uniform trees, of which tenants own cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from placewright.instances.derived.hardware import hardware
from placewright.instances.derived.names import check_known
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cells import OwnedCells
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, Path
from placewright.topology.chain import Cell, Chain
from placewright.topology.units import HOST_LEVEL

EntryKey: TypeAlias = tuple[int, int]
"""An entry of cells: the index of its tenant, and of the entry among the tenant's cells."""


@dataclass(frozen=True, slots=True)
class HostChain:
    """A chain of a cluster: its shape, and the domains that are its cells.

    Parameters
    ----------
    levels
        From `host` up to the outermost level that is owned.
    shape
        How many cells of a level make one of the next.
    names
        Per level the domains, in the order in which `Chain` numbers cells.
    """

    levels: tuple[str, ...]
    shape: Chain
    names: tuple[tuple[str, ...], ...]

    def name(self, cell: Cell) -> str:
        """Return the domain that a cell is."""
        return self.names[cell.level][cell.number]

    def cell(self, level: str, domain: str) -> Cell | None:
        """Return the cell that a domain of a level is, or None if it is not in the chain."""
        at = self.levels.index(level)
        return Cell(at, self.names[at].index(domain)) if domain in self.names[at] else None

    def hosts(self, cell: Cell) -> tuple[str, ...]:
        """Return the hosts of a cell."""
        inside = self.shape.inside(cell, 0)
        return self.names[0][inside.start : inside.stop]


def guaranteed(round_: Round) -> Iterator[int]:
    """Yield the indices of the guaranteed jobs: those that may use their tenant's cells."""
    owners = {tenant.name for tenant in round_.tenants if tenant.cells}
    for index, job in enumerate(round_.jobs if owners else ()):
        if job.tenant in owners and not job.opportunistic:
            yield index


def owned_cells(tenants: Sequence[Tenant]) -> Iterator[tuple[EntryKey, OwnedCells]]:
    """Yield each entry of owned cells with its key."""
    for t, tenant in enumerate(tenants):
        for c, entry in enumerate(tenant.cells):
            yield (t, c), entry


def chains_of(cluster: ClusterDocument, tenants: Sequence[Tenant]) -> dict[EntryKey, HostChain]:
    """Return the chain of each entry of cells; entries of one chain share the object.

    Raises
    ------
    InvalidInputError
        An entry names what the cluster does not have, or cells of a chain are not alike.
    """
    tree = _Tree(cluster)
    entries = dict(owned_cells(tenants))
    keys = {kind: tree.key(entry, _path(kind)) for kind, entry in entries.items()}
    outermost: dict[tuple[str, str | None], tuple[int, EntryKey]] = {}
    for kind, key in keys.items():
        # Levels are numbered outermost first.
        depth = tree.levels.index(entries[kind].level)
        outermost[key] = min(outermost.get(key, (depth, kind)), (depth, kind))
    chains: dict[tuple[str, str | None], HostChain] = {}
    for key, (depth, kind) in outermost.items():
        apart = {within for model, within in outermost if model == key[0] and within is not None}
        chains[key] = tree.chain(key, depth, apart - {key[1]}, _path(kind))
    return {kind: chains[key] for kind, key in keys.items()}


def _path(kind: EntryKey) -> Path:
    return "tenants", kind[0], "cells", kind[1]


class _Tree:
    """The containment tree of a cluster by names, without hosts that have no GPUs."""

    def __init__(self, cluster: ClusterDocument) -> None:
        self.levels = (*cluster.levels, HOST_LEVEL)
        self.depth = {entry.name: self.levels.index(entry.level) for entry in cluster.domains}
        self.parent: dict[str, str | None] = {d.name: d.parent for d in cluster.domains}
        self.gpus: dict[str, int] = {}
        self.model: dict[str, str] = {}
        for entry in cluster.hosts:
            has = hardware(entry)
            for name in expand(entry.name) if has.gpu_model is not None else ():
                self.gpus[name], self.model[name] = has.gpus, has.gpu_model or ""
                self.parent[name] = entry.parent
                self.depth[name] = len(self.levels) - 1
        self.models = sorted(set(self.model.values()))

    def key(self, entry: OwnedCells, path: Path) -> tuple[str, str | None]:
        """Return the GPU model of an entry and the domain that it is within."""
        for name, known, what in (
            ("level", self.levels, "level"),
            ("gpu_model", self.models, "GPU model with GPUs"),
            ("within", self.depth, "domain"),
        ):
            value = getattr(entry, name)
            if value is not None and value not in known:
                raise InvalidInputError(
                    f"unknown {what}; expected one of the cluster", (*path, name), value
                )
        if entry.within is not None and self.depth[entry.within] > self.levels.index(entry.level):
            raise InvalidInputError(
                f"lies inside a cell; expected a domain of level {entry.level} or above",
                (*path, "within"),
                entry.within,
            )
        if entry.gpu_model is None and len(self.models) != 1:
            raise InvalidInputError(
                f"missing; expected one of {', '.join(self.models)}", (*path, "gpu_model")
            )
        return entry.gpu_model or self.models[0], entry.within

    def chain(
        self, key: tuple[str, str | None], depth: int, apart: set[str], path: Path
    ) -> HostChain:
        """Return the chain of a GPU model, with cells up to the level of this depth.

        `apart` are the domains that are chains of their own.
        """
        model, within = key
        top = depth if within is None else self.depth[within]
        members: dict[str, dict[str, None]] = {}  # domain: what it holds, in order
        roots: dict[str, None] = {}
        taken = set[str]()
        for host in (name for name, has in self.model.items() if has == model):
            above = self._above(host)
            if within is not None and within not in above:
                continue
            root = above[-1 - top]
            roots[root] = None
            if not apart.isdisjoint(above):
                taken.add(root)
            for one, over in pairwise(above):
                members.setdefault(over, {})[one] = None
        for root in taken:
            roots.pop(root, None)
        if not roots:
            raise InvalidInputError("no cells; expected hosts of the GPU model", path)
        levels = self.levels[top:][::-1]
        names: list[tuple[str, ...]] = [tuple(roots)]
        children: list[int] = []
        for level in reversed(levels[:-1]):
            children.append(_same(names[-1], [len(members[d]) for d in names[-1]], level, path))
            names.append(tuple(one for domain in names[-1] for one in members[domain]))
        _same(names[-1], [self.gpus[host] for host in names[-1]], "GPU", path)
        return HostChain(levels, Chain(tuple(children[::-1])), tuple(names[::-1]))

    def _above(self, host: str) -> list[str]:
        """Return a host and the domains that hold it, innermost first."""
        above = [host]
        while (parent := self.parent[above[-1]]) is not None:
            above.append(parent)
        return above


def _same(domains: Sequence[str], sizes: Sequence[int], of: str, path: Path) -> int:
    """Return the one size of all domains, or refuse the cells as unlike."""
    for domain, size in zip(domains, sizes, strict=True):
        if size != sizes[0]:
            raise InvalidInputError(
                f"{domains[0]} has {sizes[0]} of level {of} and {domain} has {size}; "
                "expected cells that are alike (or `within`)",
                path,
            )
    return sizes[0]


def bindings_in_use(
    round_: Round, chains: Mapping[EntryKey, HostChain]
) -> Iterator[tuple[int, EntryKey, Cell]]:
    """Yield index, entry and cell of each binding in whose domain a job that it is for runs.

    Raises
    ------
    InvalidInputError
        A binding names what its tenant or the chain does not have.
    """
    tenants = {tenant.name: t for t, tenant in enumerate(round_.tenants)}
    used: set[tuple[str | None, str]] = set()
    for index in guaranteed(round_):
        job = round_.jobs[index]
        used.update((job.tenant, task.host) for task in (job.running.tasks if job.running else ()))
    for b, binding in enumerate(round_.bindings):
        path: Path = ("bindings", b)
        check_known(binding.tenant, tenants, "tenant", (*path, "tenant"))
        t = tenants[binding.tenant]
        cells = round_.tenants[t].cells
        if binding.cell >= len(cells):
            raise InvalidInputError(
                f"expected an index of the tenant's cells, of which there are {len(cells)}",
                (*path, "cell"),
                binding.cell,
            )
        kind, level = (t, binding.cell), cells[binding.cell].level
        cell = chains[kind].cell(level, binding.domain)
        if cell is None:
            raise InvalidInputError(
                f"expected a domain of level {level} in the chain of tenants[{t}].cells"
                f"[{binding.cell}]",
                (*path, "domain"),
                binding.domain,
            )
        if any((binding.tenant, host) in used for host in chains[kind].hosts(cell)):
            yield b, kind, cell
