"""Collectives of GPUs in order of rank: messages, the links that they cross, and their time.

A message goes by NVLink (or the PCIe hubs of its sockets) inside an NVLink domain, and through the
NICs of both ends between two of them, by the fewest links; over equally short paths it is divided
equally. Links that the cluster does not give limit nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.topology.catalogue import BETWEEN_SOCKETS_MBPS, HostModel, Link
from placewright.topology.cluster import Cluster

Pattern: TypeAlias = Literal["ring", "tree"]

BITS_PER_MIB = 8 << 20


def edges(pattern: Pattern, ranks: int) -> tuple[Ints, Ints]:
    """Return who sends to whom, as two arrays of ranks.

    `ring`: each rank to the next, the last to the first. `tree`: each rank to its parent, as the
    reduction goes, in the binary tree in which a span of ranks hangs on its middle one; so every
    subtree is a span of ranks. (Such in-order trees are those of Sanders, Speck and Traff,
    "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35,
    2009, section 3.)
    """
    if ranks < 2:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if pattern == "ring":
        rank = np.arange(ranks)
        return rank, (rank + 1) % ranks
    low, high, above = np.array([0]), np.array([ranks]), np.array([-1])
    child: list[Ints] = []
    parent: list[Ints] = []
    while len(low):
        middle = (low + high) // 2
        child.append(middle)
        parent.append(above)
        low, high = np.append(low, middle + 1), np.append(middle, high)
        above = np.append(middle, middle)
        some = low < high
        low, high, above = low[some], high[some], above[some]
    # The first one is the root, which sends nothing.
    return np.concatenate(child)[1:], np.concatenate(parent)[1:]


def time_us(pattern: Pattern, ranks: int, data_mib: int, bandwidth: Fraction | int | None) -> int:
    """Return the microseconds that a collective takes at its bottleneck, rounded up.

    A ring all-reduce sends (ranks - 1) / ranks of the data twice past every rank (Patarasuk and
    Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69, 2009); a
    tree sends all of it up, then down. Latencies are left out: they are small beside the data, and
    the catalogue's only order paths. 0 where nothing limits it.
    """
    if bandwidth is None or ranks < 2:
        return 0
    parts = Fraction(2 * (ranks - 1), ranks) if pattern == "ring" else Fraction(2)
    return ceil(parts * data_mib * BITS_PER_MIB / bandwidth)


def bottleneck(cluster: Cluster, hosts: Ints, gpus: Ints, pattern: Pattern) -> Fraction | None:
    """Return the least bandwidth per message that crosses a link, in Mbit/s.

    Over all links, both ways, the link's bandwidth divided by the messages that cross it in
    that direction; None if no message crosses a link that the cluster gives. `hosts`, `gpus` (int64
    (ranks,)): the host of each rank, and its GPU's index there.
    """
    source, target = edges(pattern, len(hosts))
    a, b = hosts[source], hosts[target]
    island = nvlink_domains(cluster)
    outside = island[a] != island[b]
    inside = ~outside
    found = [
        *_inside(cluster, a[inside], gpus[source][inside], b[inside], gpus[target][inside]),
        *_uplinks(cluster, a[outside], b[outside]),
        *_nics(cluster, a[outside], gpus[source][outside]),
        *_nics(cluster, b[outside], gpus[target][outside]),
    ]
    return min(found, default=None)


def nvlink_domains(cluster: Cluster) -> Ints:
    """Return the number of each host's NVLink domain: its own, or one that several hosts share."""
    wide = np.array([m.nvlink_hosts > 1 for m in cluster.host_models] + [False])
    own = np.arange(cluster.num_hosts)
    flat = len(cluster.levels) == 1
    leaf = np.zeros_like(own) if flat else cluster.parent[-1].astype(np.int64)
    shared = cluster.num_hosts + leaf * len(cluster.host_models) + cluster.host_model
    return np.where(wide[cluster.host_model], shared, own)


def outermost_link(cluster: Cluster) -> Link | None:
    """Return the link between outermost domains; None if there are WAN links, or no such link."""
    return None if cluster.wan else cluster.links.get(cluster.levels[0])


def _uplinks(cluster: Cluster, a: Ints, b: Ints) -> Iterator[Fraction]:
    """Links from domains to those that hold them, and between outermost ones."""
    for level, name in enumerate(cluster.levels):
        domain = cluster.domain[level]
        link = cluster.links.get(name) if level else outermost_link(cluster)
        differ = domain[a] != domain[b]
        from_, to = domain[a][differ], domain[b][differ]
        if level == len(cluster.levels) - 1:  # railed hosts have NICs instead
            railed = _railed(cluster)
            from_, to = from_[~railed[from_]], to[~railed[to]]
        for ends in (from_, to):
            if link is not None and len(ends):
                used, messages = np.unique(ends, return_counts=True)
                mbps = cluster.uplink_mbps(level)[used]
                each = set(zip(mbps.tolist(), messages.tolist(), strict=True))
                yield min(Fraction(*one) for one in each)
        if level == 0 and cluster.wan:
            yield from _wan(cluster, from_, to)
        if cluster.network is not None and level == len(cluster.levels) - 2:
            for (x, y), number in _messages(from_, to):
                yield Fraction(cluster.network.carries([x], [y]), number)


def _railed(cluster: Cluster) -> NDArray[np.bool_]:
    rails = np.array([m.nic_rails > 0 for m in cluster.host_models] + [False])
    return rails[cluster.host_model]


def _wan(cluster: Cluster, a: NDArray[np.int32], b: NDArray[np.int32]) -> Iterator[Fraction]:
    index = {name: i for i, name in enumerate(cluster.names[0])}
    link_of = {frozenset((index[x], index[y])): link for (x, y), link in cluster.wan.items()}
    for pair, messages in _messages(a, b):
        link = link_of.get(frozenset(pair))
        if link is not None:
            yield Fraction(link.bandwidth_mbps, messages)


def _messages(a: NDArray[np.int32], b: NDArray[np.int32]) -> Iterator[tuple[list[int], int]]:
    """Yield pairs of domains, from the first to the second, and the messages that go there."""
    pairs, times = np.unique(np.stack([a, b]), axis=1, return_counts=True)
    yield from zip(pairs.T.tolist(), times.tolist(), strict=True)


def _nics(cluster: Cluster, hosts: Ints, gpus: Ints) -> Iterator[Fraction]:
    """NICs and the PCIe links to them; a rail's uplink is as wide as its NICs, and never binds."""
    for index, model in enumerate(cluster.host_models):
        mine = np.flatnonzero(cluster.host_model[hosts] == index)
        if model.nic_rails and len(mine):
            gpu = hosts[mine] * model.gpus + gpus[mine]
            nic = hosts[mine] * model.nic_rails + gpus[mine] * model.nic_rails // model.gpus
            for link, ends in ((model.pcie_link, gpu), (model.nic_link, nic)):
                most = int(np.unique(ends, return_counts=True)[1].max())
                yield Fraction(link.bandwidth_mbps, most)


def _inside(cluster: Cluster, a: Ints, from_: Ints, b: Ints, to: Ints) -> Iterator[Fraction]:
    """Links of NVLink domains, from GPU `from_` of host `a` to GPU `to` of host `b`."""
    for index, model in enumerate(cluster.host_models):
        mine = np.flatnonzero(cluster.host_model[a] == index)
        if not len(mine):
            continue
        if model.mesh:
            pairs = zip(from_[mine].tolist(), to[mine].tolist(), strict=True)
            wired = [model.intra == "nvlink-mesh" or p in mesh_mbps(model) for p in pairs]
            direct, mine = mine[wired], mine[~np.array(wired)]
            yield from _mesh(cluster, model, a[direct], from_[direct], to[direct])
        if not len(mine):
            continue
        yield from _between_sockets(model, a[mine], from_[mine], to[mine])
        for host, gpu in ((a, from_), (b, to)):
            ends = host[mine] * model.gpus + gpu[mine]
            most = int(np.unique(ends, return_counts=True)[1].max())
            yield Fraction(hub_mbps(model), most)


def _between_sockets(model: HostModel, host: Ints, a: Ints, b: Ints) -> Iterator[Fraction]:
    """Links between the NUMA nodes of a host, which all messages across them share."""
    if model.intra == "pcie" and model.numa:
        numa = np.array(model.numa)
        crossing = np.stack([host, numa[a], numa[b]])[:, numa[a] != numa[b]]
        if crossing.size:
            most = int(np.unique(crossing, axis=1, return_counts=True)[1].max())
            yield Fraction(BETWEEN_SOCKETS_MBPS, most)


def most_inside_mbps(model: HostModel) -> int:
    """Return the most that one message has between two GPUs of one NVLink domain, or host."""
    if model.intra == "nvlink-mesh":
        return model.gpu_link.bandwidth_mbps
    return max(hub_mbps(model), *mesh_mbps(model).values(), 0)


def hub_mbps(model: HostModel) -> int:
    """Return what a GPU sends to all switches of its NVLink domain together, or to the PCIe hub."""
    lanes = max(model.nvswitches, 1) if model.intra == "nvswitch" else 1
    return lanes * model.gpu_link.share(lanes).bandwidth_mbps


def _mesh(cluster: Cluster, model: HostModel, host: Ints, a: Ints, b: Ints) -> Iterator[Fraction]:
    load: defaultdict[tuple[int, int, int], Fraction] = defaultdict(Fraction)
    for h, i, j in zip(host.tolist(), a.tolist(), b.tolist(), strict=True):
        for (x, y), part in _path_shares(model, int(cluster.gpu_count[h]), i, j):
            load[h, x, y] += part
    width = mesh_mbps(model)
    for (_, x, y), messages in load.items():
        yield width[x, y] / messages


@cache
def mesh_mbps(model: HostModel) -> dict[tuple[int, int], int]:
    """Return the bandwidth of each direct link of a mesh, in both directions."""
    return {pair: link.bandwidth_mbps for pair, link in model.mesh_links().items()}


@cache
def _path_shares(
    model: HostModel, gpus: int, source: int, target: int
) -> tuple[tuple[tuple[int, int], Fraction], ...]:
    """Return the part of a message on each link of a mesh, split evenly over all shortest paths."""
    links = [(x, y) for x, y in mesh_mbps(model) if max(x, y) < gpus]
    paths = {source: 1}  # shortest paths from the source to each GPU
    steps: list[dict[int, int]] = [paths]
    seen = {source}
    while target not in seen and steps[-1]:
        following: defaultdict[int, int] = defaultdict(int)
        for x, y in links:
            if x in steps[-1] and y not in seen:
                following[y] += steps[-1][x]
        seen |= set(following)
        steps.append(dict(following))
    if target not in steps[-1]:
        return ()
    parts: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
    reach = {target: Fraction(1)}
    for before in reversed(steps[:-1]):
        arrived: defaultdict[int, Fraction] = defaultdict(Fraction)
        for y, part in reach.items():
            sources = [x for x in before if (x, y) in set(links)]
            total = sum(before[x] for x in sources)
            for x in sources:
                share = part * before[x] / total
                parts[x, y] += share
                arrived[x] += share
        reach = arrived
    return tuple(parts.items())


NO_LINK_MBPS = 2**40
"""What a domain without a link has left: more than any groups send."""


@dataclass(frozen=True, eq=False, slots=True)
class Uplinks:
    """The links of the domains of one level.

    `mbps` (int64 (domains,)): bandwidth of each, one way. `domain` (int64 (hosts,)): the domain of
    each host. `exists` (bool (domains,)): whether a domain has such a link: hosts with NICs have
    none.
    """

    level: int
    mbps: Ints
    domain: Ints
    exists: NDArray[np.bool_]

    def spare_beside(self, load: Ints) -> Ints:
        """Return the Mbit/s that a load leaves of each link, less than 0 if it is overloaded."""
        return np.where(self.exists, self.mbps - load, NO_LINK_MBPS)

    def crossed_from(self, hosts: Ints) -> Ints:
        """Return the domains whose links a group on some hosts crosses."""
        used = np.unique(self.domain[hosts])
        return used[self.exists[used]] if len(used) > 1 else used[:0]


def uplinks_of(cluster: Cluster) -> list[Uplinks]:
    """Return the links of each level that has any, outermost first."""
    found = []
    for level, name in enumerate(cluster.levels):
        link = cluster.links.get(name) if level else outermost_link(cluster)
        if link is None:
            continue
        exists = np.ones(len(cluster.names[level]), dtype=np.bool_)
        if level == len(cluster.levels) - 1:
            has_nics = np.array([m.nic_rails > 0 for m in cluster.host_models] + [False])
            exists = ~has_nics[cluster.host_model]
        domain = cluster.domain[level].astype(np.int64)
        found.append(Uplinks(level, cluster.uplink_mbps(level), domain, exists))
    return found
