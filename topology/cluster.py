"""The static part of a cluster, its mutable state, and how one is put together from names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placewright.topology.catalogue import CATALOGUE, LINK_MATRICES, HostModel, Link, model_links
from placewright.topology.fabric import Fabric, fabric_of
from placewright.topology.gpu_links import GpuLinks, words_of_links
from placewright.topology.graph import (
    Detail,
    GraphCluster,
    GraphError,
    GraphHost,
    Node,
    draw_graph,
    hardware_of,
)
from placewright.topology.graph_reader import read_graph
from placewright.topology.mig import NO_MIG, PRODUCTS, product_of
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

if TYPE_CHECKING:
    import networkx as nx


# The static part of a cluster: containment, capacity and links as read-only arrays.
#
# A `Cluster` never changes and may be shared by rounds and threads; what changes lies in `State`.
@dataclass(frozen=True, eq=False, slots=True)
class Cluster:
    """Hosts, the domains that hold them, what they have, and how they are linked.

    Parameters
    ----------
    name : str
        Name of the cluster.
    levels : tuple of str
        Names of the levels, outermost first; the last is ``"host"``.
    names : tuple of tuple of str
        ``names[l][i]`` is the name of domain i of level l, unique in its level.
    parent : tuple of int32 arrays
        ``parent[l][i]`` is the index in level l - 1 of the domain that holds domain i of level l;
        ``parent[0]`` is all zeros.
    resources : tuple of str
        What hosts have besides GPUs, such as ``("cpu", "memory")``.
    capacity : int64 array (hosts, resources)
        CPU in millicores, memory in MiB, other resources in their own unit.
    gpu_count : int32 array (hosts,)
        GPUs of each host.
    gpu_models : tuple of str
        Names of the GPU models.
    gpu_model : int32 array (hosts,)
        Index in `gpu_models`; -1 exactly where a host has no GPU.
    host_models : tuple of HostModel
        The kinds of hardware that occur.
    host_model : int32 array (hosts,)
        Index in `host_models`; -1 where the hardware is unknown.
    links : mapping of str to Link
        By level: what joins a domain of that level to the domain that holds it.
    own_uplinks : mapping of (str, str) to int
        By level and domain: Mbit/s of its link, where that is not the bandwidth in `links`.
    wan : mapping of (str, str) to Link
        By pair of outermost domains, each pair once.
    fabric : mapping of (str, str) to Link
        The graph of switches above the hosts, where it is no tree: by pair of innermost domains or
        switches. The uplinks of all domains are then the maximum flows out of them.
    gpu_memory : int64 array (hosts,), optional
        MiB of one GPU of each host, 0 where that is unknown; by default it is.
    product : int32 array (hosts,), optional
        What MIG can cut the GPUs of each host into, as an index in `topology.mig.PRODUCTS`; -1, the
        default, where it can not.
    gpu_links : tuple of GpuLinks
        The link matrices that occur.
    gpu_links_of : int32 array (hosts,), optional
        Index in `gpu_links` of each host, -1 where nothing is known of its links. By default links
        are those of the host models.

    Attributes
    ----------
    domain : int32 array (levels, hosts)
        The domain that holds each host, at each level; the last row is ``arange(hosts)``.
    gpu_start : int64 array (hosts + 1,)
        The GPUs of host h are ``gpu_start[h]:gpu_start[h + 1]`` in every flat per-GPU array.
    host_index : dict of str to int
        Index of each host by name.
    network : Fabric or None
        That of `fabric`.

    Raises
    ------
    ValueError
        If a shape, an index, a count or a name does not fit.
    """

    name: str
    levels: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    parent: tuple[NDArray[np.int32], ...]
    resources: tuple[str, ...]
    capacity: NDArray[np.int64]
    gpu_count: NDArray[np.int32]
    gpu_models: tuple[str, ...]
    gpu_model: NDArray[np.int32]
    host_models: tuple[HostModel, ...]
    host_model: NDArray[np.int32]
    links: Mapping[str, Link] = field(default_factory=dict)
    wan: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    own_uplinks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    gpu_memory: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    product: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    gpu_links: tuple[GpuLinks, ...] = ()
    gpu_links_of: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    fabric: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    domain: NDArray[np.int32] = field(init=False, repr=False)
    gpu_start: NDArray[np.int64] = field(init=False, repr=False)
    host_index: Mapping[str, int] = field(init=False, repr=False)
    network: Fabric | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.levels or self.levels[-1] != "host":
            raise ValueError(f"levels {self.levels} do not end with 'host'; expected it last")
        check_unique("level", self.levels)
        check_unique("resource", self.resources)
        check_unique("GPU model", self.gpu_models)
        if not len(self.names) == len(self.parent) == len(self.levels):
            raise ValueError(
                f"names for {len(self.names)} levels and parents for {len(self.parent)} do not "
                f"fit; expected {len(self.levels)} of each"
            )
        for level, names in zip(self.levels, self.names, strict=True):
            check_unique(level, names)
        self._fix_containment()
        self._fix_hosts()
        self._set("network", None)
        if self.fabric:
            self._link_by_fabric()
        self._check_links()
        self._set("host_index", {name: h for h, name in enumerate(self.hosts)})

    def _set(self, attribute: str, value: Any) -> None:
        object.__setattr__(self, attribute, value)

    def _fix_containment(self) -> None:
        parents = []
        for depth, (level, names) in enumerate(zip(self.levels, self.names, strict=True)):
            above = len(self.names[depth - 1]) if depth else 1
            parents.append(
                _indices(f"parent of {level}", self.parent[depth], (len(names),), 0, above)
            )
        domain = np.empty((len(self.levels), self.num_hosts), dtype=np.int32)
        domain[-1] = np.arange(self.num_hosts)
        for depth in range(len(self.levels) - 1, 0, -1):
            domain[depth - 1] = parents[depth][domain[depth]]
        domain.flags.writeable = False
        self._set("parent", tuple(parents))
        self._set("domain", domain)

    def _fix_hosts(self) -> None:
        hosts = (self.num_hosts,)
        capacity = _frozen(
            "capacity", self.capacity, np.dtype(np.int64), (*hosts, len(self.resources))
        )
        if capacity.size and capacity.min() < 0:
            host, resource = (int(i) for i in np.argwhere(capacity < 0)[0])
            raise ValueError(
                f"{self.resources[resource]} {capacity[host, resource]} of host "
                f"{self.hosts[host]!r} is negative; expected 0 or more"
            )
        # 2**20 GPUs in one host is far beyond any hardware and keeps every sum within int64.
        gpu_count = _indices("gpu_count", self.gpu_count, hosts, 0, 2**20)
        gpu_model = _indices("gpu_model", self.gpu_model, hosts, -1, len(self.gpu_models))
        odd = np.flatnonzero((gpu_count == 0) != (gpu_model == -1))
        if odd.size:
            raise ValueError(
                f"host {self.hosts[odd[0]]!r} has {gpu_count[odd[0]]} GPUs and GPU model index "
                f"{gpu_model[odd[0]]}; expected a model exactly where there are GPUs"
            )
        host_model = _indices("host_model", self.host_model, hosts, -1, len(self.host_models))
        for index, model in enumerate(self.host_models):
            over = np.flatnonzero((host_model == index) & (gpu_count > model.gpus))
            if over.size:
                raise ValueError(
                    f"host {self.hosts[over[0]]!r} has {gpu_count[over[0]]} GPUs, more than its "
                    f"model {model.name!r}; expected at most {model.gpus}"
                )
        unknown = np.zeros(self.num_hosts, dtype=np.int64)
        gpu_memory = _frozen(
            "gpu_memory",
            self.gpu_memory if len(self.gpu_memory) else unknown,
            np.dtype(np.int64),
            hosts,
        )
        product = _indices(
            "product", self.product if len(self.product) else unknown - 1, hosts, -1, len(PRODUCTS)
        )
        if not len(self.gpu_links_of):
            self._link_by_model(gpu_count, host_model)
        links_of = _indices("gpu_links_of", self.gpu_links_of, hosts, -1, len(self.gpu_links))
        for index, links in enumerate(self.gpu_links):
            odd = np.flatnonzero((links_of == index) & (gpu_count != links.gpus))
            if odd.size:
                raise ValueError(
                    f"host {self.hosts[odd[0]]!r} has {gpu_count[odd[0]]} GPUs, its links "
                    f"{links.name!r} are of {links.gpus}; expected as many"
                )
        start = np.zeros(self.num_hosts + 1, dtype=np.int64)
        np.cumsum(gpu_count, out=start[1:])
        start.flags.writeable = False
        self._set("capacity", capacity)
        self._set("gpu_count", gpu_count)
        self._set("gpu_model", gpu_model)
        self._set("host_model", host_model)
        self._set("gpu_start", start)
        self._set("gpu_memory", gpu_memory)
        self._set("product", product)
        self._set("gpu_links_of", links_of)

    def _link_by_model(self, gpu_count: NDArray[np.int32], host_model: NDArray[np.int32]) -> None:
        """Give hosts the links that their models have."""
        number: dict[tuple[int, int], int] = {}
        pairs = zip(host_model.tolist(), gpu_count.tolist(), strict=True)
        links_of = [
            number.setdefault(pair, len(number)) if pair[0] >= 0 and pair[1] else -1
            for pair in pairs
        ]
        links = tuple(model_links(self.host_models[m]).first(gpus) for m, gpus in number)
        self._set("gpu_links", links)
        self._set("gpu_links_of", np.array(links_of, dtype=np.int32))

    def _link_by_fabric(self) -> None:
        """Give each domain that has others beside it the maximum flow to these as its uplink."""
        if len(self.levels) < 2 or self.wan:
            raise ValueError(
                "fabric given without a level above the host, or beside wan; expected a level "
                "whose domains it joins, and no wan"
            )
        network = fabric_of(self.names[-2], tuple(self.fabric.items()))
        links = {level: link for level, link in self.links.items() if level == HOST_LEVEL}
        own = {ends: mbps for ends, mbps in self.own_uplinks.items() if ends[0] == HOST_LEVEL}
        at = np.arange(len(self.names[-2]), dtype=np.int32)
        for depth in range(len(self.levels) - 2, -1, -1):
            parts = [(np.flatnonzero(at == d), np.flatnonzero(at != d)) for d in np.unique(at)]
            if len(parts) > 1:
                flows = [network.carries(inside, outside) for inside, outside in parts]
                usual = max(sorted(set(flows)), key=flows.count)
                links[self.levels[depth]] = Link(usual, 0.0)
                names = (self.names[depth][d] for d in np.unique(at))
                own |= {
                    (self.levels[depth], name): mbps
                    for name, mbps in zip(names, flows, strict=True)
                    if mbps != usual
                }
            at = self.parent[depth][at]
        self._set("fabric", dict(self.fabric))
        self._set("network", network)
        self._set("links", links)
        self._set("own_uplinks", own)

    def _check_links(self) -> None:
        self._set("links", dict(self.links))
        self._set("wan", dict(self.wan))
        for level in self.links:
            self.level_index(level)
        known = {level: set(self.names[self.level_index(level)]) for level, _ in self.own_uplinks}
        for level, name in self.own_uplinks:
            if level not in self.links or name not in known[level]:
                raise ValueError(
                    f"uplink of {level} {name!r} has no link of its level, or is of no domain; "
                    f"expected a domain of a level in links"
                )
        outermost = set(self.names[0])
        for a, b in self.wan:
            for end in (a, b):
                if end not in outermost:
                    raise ValueError(
                        f"WAN link end {end!r} is not a {self.levels[0]}; "
                        f"expected the name of an outermost domain"
                    )
            if a == b or (b, a) in self.wan:
                raise ValueError(
                    f"WAN link {(a, b)} joins a domain to itself or occurs twice; "
                    f"expected each pair of domains once"
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cluster):
            return NotImplemented
        return self is other or self._told() == other._told()

    def __hash__(self) -> int:
        return hash((self.name, self.levels, self.num_hosts, self.num_gpus))

    def _told(self) -> tuple[object, ...]:
        """Return all that the arrays say, with names in place of indices of tables."""
        return (
            (self.name, self.levels, self.names, self.resources),
            [parent.tolist() for parent in self.parent],
            self.capacity.tolist(),
            self.gpu_count.tolist(),
            [self.gpu_models[i] if i >= 0 else None for i in self.gpu_model.tolist()],
            [self.host_models[i] if i >= 0 else None for i in self.host_model.tolist()],
            self.links,
            dict(self.own_uplinks),
            {frozenset(ends): link for ends, link in self.wan.items()},
            {frozenset(ends): link for ends, link in self.fabric.items()},
            self.gpu_memory.tolist(),
            self.product.tolist(),
            [self.gpu_links[i] if i >= 0 else None for i in self.gpu_links_of.tolist()],
        )

    @classmethod
    def from_graph(cls, graph: nx.Graph[Any]) -> Cluster:
        """Return the cluster that a NetworkX graph describes, as `topology/graph.py` has it.

        Raises GraphError, a ValueError, that names the node or edge that is not as it should be;
        also if a host is not healthy, or the graph has pools: arrays say nothing of these, and
        `ClusterDocument.from_graph` reads them.
        """
        return _cluster_of(read_graph(graph))

    def to_graph(self, detail: Detail = "host", state: State | None = None) -> nx.Graph[Node]:
        """Return the NetworkX graph of the cluster, from which `from_graph` makes an equal one.

        Only host models that are not in the catalogue have no place in a graph.

        `detail`: down to hosts, or to GPUs, NICs, switches and links. `state`: adds `healthy` and
        `busy` to hosts and `free` (milli-GPU) to GPUs. Raises ValueError if `detail` is neither, or
        more hosts lie in one NVLink domain than their model allows.
        """
        graph = draw_graph(_graph_cluster(self), detail)
        if state is not None:
            healthy, busy, free = (
                state.healthy.tolist(),
                state.busy.tolist(),
                state.gpu_free.tolist(),
            )
            for node, data in graph.nodes(data=True):
                if node[0] == HOST_LEVEL:
                    data |= {"healthy": healthy[data["index"]], "busy": busy[data["index"]]}
                elif node[0] == "gpu" and "host" in data:
                    data["free"] = free[data["index"]]
        return graph

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts."""
        return self.names[-1]

    @property
    def num_hosts(self) -> int:
        """How many hosts there are."""
        return len(self.names[-1])

    @property
    def num_gpus(self) -> int:
        """How many GPUs there are."""
        return int(self.gpu_start[-1])

    def uplink_mbps(self, depth: int) -> NDArray[np.int64]:
        """Return the Mbit/s of the link of each domain of a level that has links, (domains,)."""
        level = self.levels[depth]
        found = np.full(len(self.names[depth]), self.links[level].bandwidth_mbps, dtype=np.int64)
        own = {name: mbps for (of, name), mbps in self.own_uplinks.items() if of == level}
        if own:
            for i, name in enumerate(self.names[depth]):
                found[i] = own.get(name, found[i])
        return found

    def level_index(self, level: str) -> int:
        """Return the index of a level in `levels`.

        Raises ValueError if the cluster has no such level.
        """
        if level not in self.levels:
            raise ValueError(f"level {level!r} is unknown; expected one of {list(self.levels)}")
        return self.levels.index(level)

    def hosts_of(self, level: str, domain: str) -> NDArray[np.int64]:
        """Return the indices of the hosts in a domain, ascending.

        Raises ValueError if the cluster has no such level or the level no such domain.
        """
        depth = self.level_index(level)
        if domain not in self.names[depth]:
            raise ValueError(f"{level} {domain!r} is unknown; expected a name of that level")
        return np.flatnonzero(self.domain[depth] == self.names[depth].index(domain))


def check_unique(what: str, names: Iterable[str]) -> None:
    """Raise ValueError if a name occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} {name!r} occurs twice; expected unique names")
        seen.add(name)


def _frozen(
    what: str, values: ArrayLike, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> NDArray[Any]:
    """Return a read-only copy of integers in the given type, or raise ValueError."""
    array = np.asarray(values)
    if array.size == 0 and array.shape != shape and 0 in shape:
        array = np.empty(shape, dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{what} has shape {array.shape}; expected {shape}")
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{what} has type {array.dtype}; expected integers")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(dtype).max:
        raise ValueError(f"{what} {array.max()} is too large; expected {dtype}")
    copy = array.astype(dtype)
    copy.flags.writeable = False
    return copy


def _indices(
    what: str, values: ArrayLike, shape: tuple[int, ...], low: int, high: int
) -> NDArray[np.int32]:
    """Return a read-only int32 copy whose entries lie in ``range(low, high)``."""
    array = _frozen(what, values, np.dtype(np.int64), shape)
    wrong = array[(array < low) | (array >= high)]
    if wrong.size:
        raise ValueError(f"{what} {wrong[0]} is out of range; expected {low} to {high - 1}")
    copy = array.astype(np.int32)
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """The mutable state of a cluster; its owner may write the arrays.

    - `free` (int64 array (hosts, resources)): free capacity per host, in the units of
      `Cluster.capacity`.
    - `gpu_free` (int32 array (gpus,)): free milli-GPU of each GPU, 0 to 1000; the order is that of
      `Cluster.gpu_start`.
    - `healthy` (bool array (hosts,)): False where nothing may be placed.
    - `busy` (bool array (hosts,)): True where some task runs.
    - `gpu_memory` (int64 array (gpus,) or None): free MiB of each GPU. None: nobody asks, all are
      as the cluster has them.
    - `slices` (int16 array (gpus,) or None): what MIG slices take of each GPU: bit i is memory
      slice i, bit 8 the media extensions. None: there are no slices.
    """

    free: NDArray[np.int64]
    gpu_free: NDArray[np.int32]
    healthy: NDArray[np.bool_]
    busy: NDArray[np.bool_]
    gpu_memory: NDArray[np.int64] | None = None
    slices: NDArray[np.int16] | None = None

    @classmethod
    def empty(cls, cluster: Cluster) -> State:
        """Return the state in which every host is healthy and nothing runs."""
        return cls(
            free=cluster.capacity.copy(),
            gpu_free=np.full(cluster.num_gpus, WHOLE_GPU, dtype=np.int32),
            healthy=np.ones(cluster.num_hosts, dtype=np.bool_),
            busy=np.zeros(cluster.num_hosts, dtype=np.bool_),
        )

    @classmethod
    def shared(cls, cluster: Cluster) -> State:
        """Return the empty state of a cluster with the memory and the slices of its GPUs."""
        return replace(
            cls.empty(cluster),
            gpu_memory=np.repeat(cluster.gpu_memory, cluster.gpu_count),
            slices=np.zeros(cluster.num_gpus, dtype=np.int16),
        )

    def copy(self) -> State:
        """Return a state that shares no array with this one."""
        return State(
            self.free.copy(),
            self.gpu_free.copy(),
            self.healthy.copy(),
            self.busy.copy(),
            None if self.gpu_memory is None else self.gpu_memory.copy(),
            None if self.slices is None else self.slices.copy(),
        )

    def whole_free(self, cluster: Cluster) -> NDArray[np.int32]:
        """Return per host how many of its GPUs are wholly free, whether it is healthy or not."""
        free_before = np.zeros(cluster.num_gpus + 1, dtype=np.int32)
        np.cumsum(self.gpu_free == WHOLE_GPU, out=free_before[1:])
        return np.diff(free_before[cluster.gpu_start])


def assemble(
    name: str,
    levels: Sequence[str],
    domains: Iterable[tuple[str, str, str | None]],
    hosts: Sequence[tuple[str, str | None]],
    *,
    gpu_count: ArrayLike,
    gpu_model: Sequence[str | None],
    resources: Sequence[str],
    capacity: ArrayLike,
    host_model: Sequence[str | None] | None = None,
    links: Mapping[str, Link] | None = None,
    wan: Mapping[tuple[str, str], Link] | None = None,
    own_uplinks: Mapping[tuple[str, str], int] | None = None,
    fabric: Mapping[tuple[str, str], Link] | None = None,
    gpu_memory: ArrayLike = (),
    product: ArrayLike = (),
    gpu_links: Sequence[GpuLinks] = (),
    gpu_links_of: ArrayLike = (),
) -> Cluster:
    """Build a cluster from names; domains and hosts keep the order in which they are given.

    - `levels`: levels above the host, outermost first.
    - `domains`: name, level and the name of the domain one level above that holds it, None for the
      outermost level. A domain may come before the one that holds it.
    - `hosts`: name and the innermost domain that holds it, None if there are no levels above.
    - `gpu_count` (array_like of int (hosts,)): GPUs of each host.
    - `gpu_model` (sequence of str or None (hosts,)): None exactly where a host has no GPU.
    - `resources`: what hosts have besides GPUs.
    - `capacity` (array_like of int (hosts, resources)): CPU in millicores, memory in MiB.
    - `host_model` (sequence of str or None (hosts,)): keys of `CATALOGUE`; None where the hardware
      is unknown.
    - `links`, `wan`, `own_uplinks`, `fabric`, `gpu_memory`, `product`, `gpu_links`,
      `gpu_links_of`: as in `Cluster`.

    Raises ValueError if a level, a parent or a host model is unknown, a domain is not one level
    below its parent, or anything that `Cluster` checks does not fit.
    """
    all_levels = (*levels, "host")
    check_unique("level", all_levels)
    names: dict[str, list[str]] = {level: [] for level in levels}
    parents: dict[str, list[str | None]] = {level: [] for level in levels}
    for domain, level, parent in domains:
        if level not in names:
            raise ValueError(
                f"level {level!r} of domain {domain!r} is unknown; expected one of {list(levels)}"
            )
        names[level].append(domain)
        parents[level].append(parent)
    names["host"] = [host for host, _ in hosts]
    parents["host"] = [parent for _, parent in hosts]

    parent_index = []
    above: str | None = None
    for level in all_levels:
        parent_index.append(
            _look_up(level, names[level], parents[level], above, names[above] if above else [])
        )
        above = level

    gpu_models, gpu_model_index = _encode(gpu_model)
    kinds, host_model_index = _encode(host_model or [None] * len(hosts))
    for kind in kinds:
        if kind not in CATALOGUE:
            raise ValueError(f"host model {kind!r} is unknown; expected one of {sorted(CATALOGUE)}")
    return Cluster(
        name=name,
        levels=all_levels,
        names=tuple(tuple(names[level]) for level in all_levels),
        parent=tuple(parent_index),
        resources=tuple(resources),
        capacity=np.asarray(capacity),
        gpu_count=np.asarray(gpu_count),
        gpu_models=gpu_models,
        gpu_model=gpu_model_index,
        host_models=tuple(CATALOGUE[kind] for kind in kinds),
        host_model=host_model_index,
        links=links or {},
        wan=wan or {},
        own_uplinks=own_uplinks or {},
        fabric=fabric or {},
        gpu_memory=np.asarray(gpu_memory, dtype=np.int64),
        product=np.asarray(product, dtype=np.int32),
        gpu_links=tuple(gpu_links),
        gpu_links_of=np.asarray(gpu_links_of, dtype=np.int32),
    )


def _look_up(
    level: str,
    names: Sequence[str],
    parents: Sequence[str | None],
    above: str | None,
    above_names: Sequence[str],
) -> NDArray[np.int32]:
    """Return the index of each parent among the domains of the level above."""
    if above is None:
        for name, parent in zip(names, parents, strict=True):
            if parent is not None:
                raise ValueError(
                    f"parent {parent!r} of {level} {name!r} is not allowed; "
                    f"expected none for the outermost level"
                )
        return np.zeros(len(names), dtype=np.int32)
    index: dict[str | None, int] = {name: i for i, name in enumerate(above_names)}
    found = [index.get(parent, -1) for parent in parents]
    if -1 in found:
        lost = found.index(-1)
        raise ValueError(
            f"parent {parents[lost]!r} of {level} {names[lost]!r} is unknown; "
            f"expected the name of a {above}"
        )
    return np.array(found, dtype=np.int32)


def _encode(
    values: Sequence[str | None],
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the distinct values in order of appearance and each value's index, None as -1."""
    distinct = tuple(value for value in dict.fromkeys(values) if value is not None)
    index: dict[str | None, int] = {value: i for i, value in enumerate(distinct)}
    index[None] = -1
    return distinct, np.array([index[value] for value in values], dtype=np.int32)


# To and from what a graph says.


def _cluster_of(said: GraphCluster) -> Cluster:
    """Return the arrays of what a graph says."""
    if said.further.get("pools"):
        raise GraphError("graph: has pools, arrays have none; expected ClusterDocument.from_graph")
    has = [hardware_of(host.attributes) for host in said.hosts]
    capacity = []
    for host, one in zip(said.hosts, has, strict=True):
        if not host.attributes.get("healthy", True):
            raise GraphError(
                f"node {host.node!r}: healthy is False, arrays do not say so; expected "
                f"ClusterDocument.from_graph"
            )
        own = host.attributes.get("resources", {})
        capacity.append({"cpu": one.cpu, "memory": one.memory, **own})
    extra = sorted({name for row in capacity for name in row} - {"cpu", "memory"})
    resources = said.further.get("resources", ["cpu", "memory", *extra])
    links: dict[GpuLinks, int] = {}
    return assemble(
        said.name,
        said.levels,
        said.domains,
        [(host.name, host.parent) for host in said.hosts],
        gpu_count=[one.gpus for one in has],
        gpu_model=[one.gpu_model for one in has],
        resources=resources,
        capacity=np.array(
            [[row.get(name, 0) for name in resources] for row in capacity], dtype=np.int64
        ).reshape(len(has), len(resources)),
        host_model=[host.attributes.get("model") for host in said.hosts],
        links=said.links,
        wan=said.wan,
        own_uplinks=said.own_uplinks,
        fabric=said.fabric,
        gpu_memory=[one.gpu_memory or 0 for one in has],
        product=[one.product for one in has],
        gpu_links_of=[
            -1 if host.links is None else links.setdefault(host.links, len(links))
            for host in said.hosts
        ],
        gpu_links=tuple(links),
    )


def _graph_cluster(cluster: Cluster) -> GraphCluster:
    """Return what a graph says of the arrays."""
    matrices: dict[str, GpuLinks] = {}
    for links in cluster.gpu_links:
        if links.gpus > matrices.get(links.name, links).gpus or links.name not in matrices:
            matrices[links.name] = links
    parents = [
        [None] * len(names)
        if depth == 0
        else [cluster.names[depth - 1][i] for i in cluster.parent[depth].tolist()]
        for depth, names in enumerate(cluster.names)
    ]
    domains = [
        (name, level, parent)
        for level, names, above in zip(cluster.levels[:-1], cluster.names, parents, strict=False)
        for name, parent in zip(names, above, strict=True)
    ]
    further = {
        "resources": list(cluster.resources),
        "gpu_links": [
            words_of_links(links)
            for name, links in matrices.items()
            if name not in LINK_MATRICES or links != LINK_MATRICES[name].first(links.gpus)
        ],
    }
    hosts = [_graph_host(cluster, h, parents[-1][h]) for h in range(cluster.num_hosts)]
    drawn = [level for level in cluster.links if not cluster.fabric or level == HOST_LEVEL]
    return GraphCluster(
        name=cluster.name,
        levels=cluster.levels[:-1],
        domains=domains,
        hosts=hosts,
        links={level: cluster.links[level] for level in drawn},
        wan=cluster.wan,
        own_uplinks={of: mbps for of, mbps in cluster.own_uplinks.items() if of[0] in drawn},
        fabric=cluster.fabric,
        further=further,
    )


def _graph_host(cluster: Cluster, h: int, parent: str | None) -> GraphHost:
    gpus, memory = int(cluster.gpu_count[h]), int(cluster.gpu_memory[h])
    gpu_model = cluster.gpu_models[cluster.gpu_model[h]] if gpus else None
    model = cluster.host_models[cluster.host_model[h]] if cluster.host_model[h] >= 0 else None
    links = cluster.gpu_links[cluster.gpu_links_of[h]] if cluster.gpu_links_of[h] >= 0 else None
    said: dict[str, Any] = {"gpus": gpus}
    if model is not None:
        said["model"] = model.name
    if gpu_model is not None:
        said |= {"gpu_model": gpu_model, "gpu_memory_mib": memory}
        if cluster.product[h] == NO_MIG != product_of(gpu_model, memory):
            said["mig"] = False
    if links is not None and (model is None or links.name != model.name):
        said["gpu_links"] = links.name
    amounts = dict(zip(cluster.resources, cluster.capacity[h].tolist(), strict=True))
    for name, resource in (("cpu_milli", "cpu"), ("memory_mib", "memory")):
        if resource in amounts:
            said[name] = amounts.pop(resource)
    if any(amounts.values()):
        said["resources"] = {name: amount for name, amount in amounts.items() if amount}
    return GraphHost(cluster.hosts[h], parent, said, gpus, gpu_model, memory, model, links)
