"""The configuration of HiveD becomes a round: a cluster, and tenants with cells."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pydantic import ValidationError

from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.hived.cells import read_cells
from placewright.instances.converters.hived.cluster import cluster_of, level_names
from placewright.instances.converters.hived.records import Configuration
from placewright.instances.converters.hived.tenants import Owned, Within, read_owned, tenants_of
from placewright.instances.converters.kubernetes.sources import Source, refused
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import BOOKKEEPING, SOURCE
from placewright.instances.errors import InvalidInputError, Path
from placewright.instances.io.files import load_values

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
