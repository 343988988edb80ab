"""Clusters from named domains and hosts, as documents and traces give them."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placewright.topology.catalogue import CATALOGUE
from placewright.topology.cluster import Cluster, check_unique
from placewright.topology.links import Link


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
    gpu_memory: ArrayLike = (),
    product: ArrayLike = (),
) -> Cluster:
    """Build a cluster from names; domains and hosts keep the order in which they are given.

    Parameters
    ----------
    name : str
        Name of the cluster.
    levels : sequence of str
        Levels above the host, outermost first.
    domains : iterable of (str, str, str or None)
        Name, level and the name of the domain one level above that holds it, None for the
        outermost level. A domain may come before the one that holds it.
    hosts : sequence of (str, str or None)
        Name and the innermost domain that holds it, None if there are no levels above.
    gpu_count : array_like of int (hosts,)
        GPUs of each host.
    gpu_model : sequence of str or None (hosts,)
        None exactly where a host has no GPU.
    resources : sequence of str
        What hosts have besides GPUs.
    capacity : array_like of int (hosts, resources)
        CPU in millicores, memory in MiB.
    host_model : sequence of str or None (hosts,), optional
        Keys of `CATALOGUE`; None where the hardware is unknown.
    links, wan, gpu_memory, product : optional
        As in `Cluster`.

    Raises
    ------
    ValueError
        If a level, a parent or a host model is unknown, a domain is not one level below its
        parent, or anything that `Cluster` checks does not fit.
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
        gpu_memory=np.asarray(gpu_memory, dtype=np.int64),
        product=np.asarray(product, dtype=np.int32),
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
