"""Supply of generated regions: hosts by region and GPU model, and their cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived import ranges
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.generators.geo.distributions import (
    REGION_SIGMA,
    apportion,
    log_normal,
    order,
)

HOST_GPUS = 8
MODELS = ("H100", "A100", "V100")
MODEL_SHARES = (0.3, 0.5, 0.2)
LACKING = 0.15
"""How likely a region lacks a model, but for the second one, which all have."""

_SMALL = 64
_BLOCKS_PER_DATACENTER = 8


@dataclass(frozen=True, slots=True)
class Rack:
    """Hosts of one model next to each other: `name-h0` and so on."""

    region: int
    datacenter: int
    block: int
    model: int
    name: str
    hosts: int


def supply(rng: np.random.Generator, regions: int, hosts: int) -> Ints:
    """Draw the hosts of each model in each region (regions, models).

    Regions are log-normal in size, each of one host of the second model at least; a region has
    half to one and a half of each model's share, or none of it.
    """
    size = 1 + apportion(hosts - regions, log_normal(regions, REGION_SIGMA)[order(rng, regions)])
    draw = rng.random((regions, len(MODELS)))
    share = np.array(MODEL_SHARES) * (0.5 + draw)
    absent = rng.random((regions, len(MODELS))) < LACKING
    absent[:, 1] = False
    share[absent] = 0
    return np.array([apportion(int(n), row) for n, row in zip(size, share, strict=True)])


def racks(names: Sequence[str], hosts: Ints) -> tuple[Rack, ...]:
    """Return the racks of regions with these hosts (regions, models), each rack of one model.

    A block has 16 racks of 8 hosts, or 4 of 4 where regions have 64 hosts at the mean or fewer; a
    datacenter has 8 blocks.
    """
    small = hosts.sum() <= _SMALL * len(names)
    per_rack, per_block = (4, 4) if small else (8, 16)
    found = []
    for r, name in enumerate(names):
        rack = 0
        for model, many in enumerate(hosts[r].tolist()):
            for first in range(0, many, per_rack):
                block, slot = divmod(rack, per_block)
                found.append(
                    Rack(
                        region=r,
                        datacenter=block // _BLOCKS_PER_DATACENTER,
                        block=block,
                        model=model,
                        name=f"{name}-b{block}-r{slot}",
                        hosts=min(per_rack, many - first),
                    )
                )
                rack += 1
    return tuple(found)


def cluster(title: str, names: Sequence[str], layout: Sequence[Rack]) -> ClusterDocument:
    """Return the cluster of these regions: datacenters of blocks of racks of hosts with 8 GPUs."""
    return ClusterDocument(
        name=title,
        levels=("region", "datacenter", "block", "rack"),
        domains=tuple(dict.fromkeys(_domains(names, layout))),
        hosts=tuple(
            HostEntry(
                name=ranges.of_size(f"{rack.name}-h", rack.hosts),
                parent=rack.name,
                gpus=HOST_GPUS,
                gpu_model=MODELS[rack.model],
            )
            for rack in layout
        ),
    )


def _domains(names: Sequence[str], layout: Sequence[Rack]) -> Iterator[DomainEntry]:
    """Yield the domains of all levels; those that hold several racks more than once."""
    for name in names:
        yield DomainEntry(name=name, level="region")
    for rack in layout:
        region = names[rack.region]
        datacenter, block = f"{region}-d{rack.datacenter}", f"{region}-b{rack.block}"
        yield DomainEntry(name=datacenter, level="datacenter", parent=region)
        yield DomainEntry(name=block, level="block", parent=datacenter)
        yield DomainEntry(name=rack.name, level="rack", parent=block)
