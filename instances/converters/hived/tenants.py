"""Virtual clusters of HiveD as tenants, and the round that they make with their cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.hived.cluster import (
    Cell,
    Cells,
    Configuration,
    Nesting,
    SkuType,
    VirtualCells,
    VirtualCluster,
    chain_domain,
    cluster_of,
    gpus_of_leaf,
    level_names,
    read_cells,
)
from placewright.instances.converters.kubernetes.sources import Source, refused
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.documents.cells import OwnedCells
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import BOOKKEEPING, SOURCE
from placewright.instances.errors import InvalidInputError, Path
from placewright.instances.io.files import load_values

_KIND = "cells"


@dataclass(frozen=True, slots=True)
class Owned:
    """Cells of a virtual cluster: their chain, how far above a node, and where if pinned."""

    cluster: str
    path: Path
    chain: Nesting
    height: int
    count: int
    pinned: Cell | None = None
    pin: str = ""


@dataclass(slots=True)
class Within:
    """The domain that is each chain: `apart` are chains that need one of their own.

    A GPU model may have one chain without a domain: its hosts outside of those of the others.
    Pinned cells can be taken out of that one, and of no other.
    """

    domain_of: dict[str, str | None] = field(default_factory=dict)
    apart: set[str] = field(default_factory=set)
    _least: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Cells, owned: Sequence[Owned]) -> Within:
        """Choose, for each GPU model, the chain without a domain."""
        made = cls()
        claimed = {one.chain.chain for one in owned}
        for one in owned:
            if one.pinned is None:
                chain = one.chain.chain
                made._least[chain] = max(made._least.get(chain, 0), one.height)
        for model in dict.fromkeys(kind.model for kind in cells.chains.values()):
            chains = [name for name, kind in cells.chains.items() if kind.model == model]
            # Hosts that nobody owns would be in the chain without a domain, too.
            fit = [one for one in chains if claimed >= {*chains} - {one}]
            ranks = {
                one: (
                    sum(o.pinned is not None and o.chain.chain == one for o in owned),
                    len(cells.roots(one)),
                )
                for one in fit
            }
            free = max(fit, key=lambda one: ranks[one], default=None)
            for name in chains:
                roots = cells.roots(name)
                if name == free and (len(chains) == 1 or ranks[name] > (0, 1)):
                    made.domain_of[name] = None
                elif len(roots) == 1:
                    made.domain_of[name] = roots[0]
                else:
                    made.domain_of[name] = chain_domain(name)
                    made.apart.add(name)
        return made

    def domain(self, owned: Owned, book: Bookkeeping) -> str | None:
        """Return the domain that cells lie in."""
        inside = self.domain_of[owned.chain.chain]
        if owned.pinned is None or owned.pinned.name == inside:
            return inside
        if inside is None and owned.height >= self._least.get(owned.chain.chain, 0):
            return owned.pinned.name
        book.cannot_say("which of its chain a pinned cell is", f"{owned.cluster}/{owned.pin}")
        return inside


def read_owned(
    clusters: Mapping[str, VirtualCluster],
    cells: Cells,
    skus: Mapping[str, SkuType],
    book: Bookkeeping,
) -> list[Owned]:
    """Return the cells of virtual clusters that a round can have.

    Raises `InvalidInputError`: a cell type is not one of its chain, or a pinned cell is unknown or
    owned twice.
    """
    found: list[Owned] = []
    used: set[str] = set()
    for name, cluster in clusters.items():
        at = 0
        for i, entry in enumerate(cluster.cells):
            path: Path = ("virtualClusters", name, "virtualCells", i)
            chain = _chain(entry, cells, (*path, "cellType"))
            height = chain.height(entry.type.rpartition(".")[2])
            names = [f"{name}/{at + k}" for k in range(entry.number)]
            at += entry.number
            if names and _taken(chain, height, skus, names, book):
                found.append(Owned(name, path, chain, height, entry.number))
        for i, pin in enumerate(cluster.pinned):
            path = ("virtualClusters", name, "pinnedCells", i)
            where = (*path, "pinnedCellId")
            below = pin.id in cells.below
            cell = cells.below.get(pin.id) or cells.pinned.get(pin.id)
            if cell is None or pin.id in used:
                raise InvalidInputError(
                    "owned twice; expected one owner"
                    if pin.id in used
                    else "unknown pinned cell; expected one of physicalCells",
                    path=where,
                    value=pin.id,
                )
            used.add(pin.id)
            height = -1 if below else cell.height
            if _taken(cell.nesting, height, skus, [f"{name}/{pin.id}"], book):
                found.append(Owned(name, path, cell.nesting, height, 1, cell, pin.id))
    if unowned := [pin for pin in (*cells.pinned, *cells.below) if pin not in used]:
        book.cannot_say("pinned cells that nobody owns", *unowned)
    return found


def tenants_of(
    names: Sequence[str],
    owned: Sequence[Owned],
    levels: Sequence[str],
    within: Within,
    book: Bookkeeping,
) -> tuple[Tenant, ...]:
    """Return the tenants, each with its cells in the order of the configuration."""
    return tuple(
        Tenant(
            name=name,
            cells=tuple(
                OwnedCells(
                    level=levels[one.height],
                    gpu_model=one.chain.model,
                    within=within.domain(one, book),
                    count=one.count,
                )
                for one in owned
                if one.cluster == name
            ),
        )
        for name in names
    )


def _chain(entry: VirtualCells, cells: Cells, path: Path) -> Nesting:
    """Return the chain of virtual cells; each part of their type is made of the next one."""
    parts = tuple(entry.type.split("."))
    chain = cells.chains.get(parts[0])
    if chain is None:
        raise InvalidInputError(
            "unknown chain; expected to begin with a cellType of physicalCells",
            path=path,
            value=entry.type,
        )
    if chain.types[: len(parts)] != parts:
        raise InvalidInputError(
            f"expected {'.'.join(chain.types)}, or its beginning", path=path, value=entry.type
        )
    return chain


def _taken(
    chain: Nesting,
    height: int,
    skus: Mapping[str, SkuType],
    names: Sequence[str],
    book: Bookkeeping,
) -> bool:
    if height < 0:
        book.leave(_KIND, "smaller than a host", *names)
    elif not gpus_of_leaf(skus.get(chain.model)):
        book.leave(_KIND, "no GPU in them", *names)
    else:
        book.take(_KIND, len(names))
        return True
    return False


# The configuration of HiveD becomes a round: a cluster, and tenants with cells.


_WEIGHT_STEP = 4


def read_hived(file: str | os.PathLike[str]) -> LiveConversion:
    """Turn HiveD's scheduler configuration into a round without jobs.

    Cell types above the nodes are levels, nodes are hosts, virtual clusters are tenants with
    cells. Cells smaller than a node are left out.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is no configuration that HiveD could schedule by.
    """
    where = os.fspath(file)
    values = load_values(file)
    if not isinstance(values, dict) or "physicalCluster" not in values:
        raise InvalidInputError(
            "expected the configuration of HiveD, with physicalCluster",
            file=where,
            show_value=False,
        )
    try:
        given = Configuration.model_validate(values)
    except ValidationError as error:
        raise refused(error, Source(where, (), {})) from None
    book = Bookkeeping()
    owned: list[Owned] = []
    skus = given.physical.skus
    try:
        cells = read_cells(given.physical.types, given.physical.cells, book)
        if not cells.cells:
            raise InvalidInputError(
                "expected at least one cell",
                path=("physicalCluster", "physicalCells"),
                show_value=False,
            )
        owned = read_owned(given.virtual, cells, skus, book)
        models = {kind.model: None for kind in cells.chains.values()}
        if unknown := [model for model in models if model not in skus]:
            book.cannot_say("cores and memory of cells without a skuType", *unknown)
        levels, within = level_names(cells), Within.of(cells, owned)
        made = Round(
            name="hived",
            cluster=cluster_of(cells, skus, levels, within.apart),
            tenants=tenants_of(tuple(given.virtual), owned, levels, within, book),
            policy=Policy(
                spread_weights={name: _WEIGHT_STEP**i for i, name in enumerate(levels[1:])}
            ),
            annotations={SOURCE: "hived", BOOKKEEPING: book.annotation()},
        )
        check_round(made)
    except InvalidInputError as error:
        raise error.moved(lambda path: _place(path, (*given.virtual,), owned)).inside(
            where
        ) from None
    except ValidationError as error:
        raise refused(error, Source(where, (), {})) from None
    hosts = made.cluster.hosts
    gpus = sum(entry.gpus or 0 for entry in hosts)
    summary = (
        f"hived: {len(hosts):,} hosts, {gpus:,} GPUs; {len(made.tenants):,} virtual clusters own "
        f"{sum(one.count for one in owned):,} cells"
    )
    return LiveConversion(made, summary, book)


def _place(path: Path, names: Sequence[str], owned: Sequence[Owned]) -> Path:
    """Return where the configuration has what is wrong with an entry of cells."""
    match path:
        case ("tenants", int(t), "cells", int(c), *_):
            return [one.path for one in owned if one.cluster == names[t]][c]
    return path
