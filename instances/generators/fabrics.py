"""Clusters on networks of published rules: fat trees, rails of scalable units, dragonflies.

A cluster is a tree of levels: docs/cli.md says what of each network it keeps.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from operator import mul
from typing import Literal, NamedTuple

from placewright.instances.checks.cluster import MAX_HOSTS
from placewright.instances.derived import ranges
from placewright.instances.derived.names import check_known
from placewright.instances.documents.cluster import (
    ClusterDocument,
    DomainEntry,
    HostEntry,
    LinkEntry,
)
from placewright.instances.errors import InvalidInputError
from placewright.topology.catalogue import CATALOGUE, HostModel
from placewright.topology.units import HOST_LEVEL

FabricName = Literal["fat-tree", "rail", "dragonfly"]

LATENCIES_US = (2.0, 3.0, 5.0)
"""Of uplinks from the host up, as those of `topology.builders.TREE_LINKS`."""

MAX_RADIX = 1024


class Tier(NamedTuple):
    """A level: how much of what is below one of its domains holds, and the links out of that."""

    level: str
    holds: int
    links: int


def fat_tree(radix: int, rails: int) -> list[Tier]:
    """Return the tiers of a fat tree of switches of `radix` ports, the innermost first.

    Al-Fares, Loukissas, Vahdat, A scalable, commodity data center network architecture, SIGCOMM
    2008: k pods of k/2 edge and k/2 aggregation switches. All NICs of a host are at one edge.
    """
    half = radix // 2
    return [Tier("leaf", half // rails, half), Tier("spine", half, half**2), Tier("core", radix, 0)]


def rail(radix: int, rails: int) -> list[Tier]:
    """Return the tiers of scalable units, each with a leaf for each rail.

    NVIDIA DGX SuperPOD reference architecture (H100, B200): units of 32 hosts at eight leaves of 64
    ports, up to eight units under one row of spines. With more of them pods of four units, with
    half as many spines, are joined by core switches, as in a fat tree: so many spines and cores its
    tables have.
    """
    half = radix // 2
    leaf = Tier("leaf", half, rails * half)
    return [leaf, Tier("spine", half // rails, half**2), Tier("core", radix, 0)]


def dragonfly(radix: int, rails: int) -> list[Tier]:
    """Return the tiers of a balanced dragonfly.

    Kim, Dally, Scott, Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008: p
    terminals a router, a = 2p routers a group, h = p global links a router, up to ah + 1 groups. A
    terminal is a NIC; all of a host are at one router.
    """
    p = (radix + 1) // 4
    a, h = 2 * p, p
    router = Tier("router", p // rails, a - 1 + h)
    return [router, Tier("group", a, a * h), Tier("network", a * h + 1, 0)]


def nvlink_racks(host: HostModel) -> list[Tier]:
    """Return the tiers of racks whose hosts share NVLink, in units with leaves for each rail.

    NVIDIA DGX SuperPOD reference architecture, GB200: units of 8 racks, up to 128 racks and beyond;
    it has no table of switches, so that as many links leave a unit as enter it.
    """
    nics = host.nic_rails * host.nvlink_hosts
    rack = Tier("rack", host.nvlink_hosts, nics)
    return [rack, Tier("leaf", 8, 8 * nics), Tier("spine", 16, 0)]


RULES = {"fat-tree": fat_tree, "rail": rail, "dragonfly": dragonfly}


def generate_fabric(
    fabric: FabricName,
    gpus: int,
    *,
    model: str = "dgx-h100",
    radix: int = 64,
    oversubscription: float = 1.0,
) -> ClusterDocument:
    """Make a cluster of hosts of one model on a network, its domains filled one after another.

    Parameters
    ----------
    fabric
        The rule of the network.
    gpus
        A multiple of those of a host.
    model
        The host model; all links are as fast as one of its NICs. Without any it has one.
    radix
        Ports of a switch; of no effect on racks with NVLink.
    oversubscription
        What is below an uplink over the uplink, from leaves or groups of routers on.

    Raises
    ------
    InvalidInputError
        An argument is out of range, or the network is too small for so many GPUs.
    """
    check_known(model, CATALOGUE, "host model", ("model",))
    host = CATALOGUE[model]
    rails = max(1, host.nic_rails)
    if host.nvlink_hosts > 1 and fabric != "rail":
        what = "shares its NVLink with other hosts; expected another model, or fabric rail"
        raise InvalidInputError(what, ("model",), model)
    if not 1 <= oversubscription <= MAX_RADIX:
        what = f"expected a number from 1 to {MAX_RADIX}"
        raise InvalidInputError(what, ("oversubscription",), oversubscription)
    tiers = RULES[fabric](radix, rails) if 0 < radix <= MAX_RADIX else []
    if radix % 2 or not all(tier.holds for tier in tiers) or not tiers:
        what = f"expected an even number up to {MAX_RADIX}, with enough ports for a host's NICs"
        raise InvalidInputError(what, ("radix",), radix)
    if host.nvlink_hosts > 1:
        tiers = nvlink_racks(host)
    most = min(MAX_HOSTS, prod(tier.holds for tier in tiers)) * host.gpus
    row = radix // rails
    if fabric == "rail" and host.nvlink_hosts == 1 and gpus <= row * tiers[0].holds * host.gpus:
        tiers[1:] = [tiers[1]._replace(holds=row, links=0)]
    if not host.gpus <= gpus <= most or gpus % host.gpus:
        what = f"expected a multiple of {host.gpus} from {host.gpus} to {most:,}"
        raise InvalidInputError(what, ("gpus",), gpus)
    return _document(f"{fabric}-{gpus}", tiers, gpus // host.gpus, host, oversubscription)


def _document(
    name: str, tiers: list[Tier], hosts: int, model: HostModel, oversubscription: float
) -> ClusterDocument:
    """Return a cluster of these tiers, up to the first of which one domain holds all hosts."""
    sizes = list(accumulate((tier.holds for tier in tiers), mul))
    top = next(i for i, size in enumerate(sizes) if size >= hosts)
    domains: list[DomainEntry] = []
    names: list[str] = []
    for i in range(top, -1, -1):
        level, holds = tiers[i].level, tiers[i + 1].holds if i < top else 1
        above, names = names, []
        for j in range(-(-hosts // sizes[i])):
            parent = above[j // holds] if above else None
            names.append(f"{parent}-{level[0]}{j % holds}" if parent else f"{level[0]}{j}")
            domains.append(DomainEntry(name=names[-1], level=level, parent=parent))
    nic = model.nic_link.bandwidth_mbps
    uplinks = {HOST_LEVEL: max(1, model.nic_rails) * nic}
    for tier in tiers[:top]:
        over = 1 if tier.level in ("router", "rack") else oversubscription
        uplinks[tier.level] = int(tier.links * nic / over)
    return ClusterDocument(
        name=name,
        levels=tuple(tier.level for tier in reversed(tiers[: top + 1])),
        domains=tuple(domains),
        hosts=tuple(
            HostEntry(
                name=ranges.of_size(f"{leaf}-h", min(sizes[0], hosts - i * sizes[0])),
                parent=leaf,
                model=model.name,
            )
            for i, leaf in enumerate(names)
        ),
        links={
            level: LinkEntry(bandwidth_mbps=mbps, latency_us=latency)
            for (level, mbps), latency in zip(uplinks.items(), LATENCIES_US, strict=False)
        },
    )
