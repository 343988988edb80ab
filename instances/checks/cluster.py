"""Checks of a cluster: a containment tree of its levels, and each host given once and in full.

Domain names are unique in the whole tree, host names among all hosts once ranges are expanded.
"""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.checks.pools import check_pools
from placewright.instances.derived import ranges
from placewright.instances.derived.hardware import hardware
from placewright.instances.derived.names import check_known, check_unique
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry
from placewright.instances.errors import Errors, InvalidInputError, Path
from placewright.topology import CATALOGUE
from placewright.topology.units import HOST_LEVEL

MAX_HOSTS = 200_000
MAX_GPUS = 4_000_000


def check_cluster(document: ClusterDocument) -> None:
    """Refuse a cluster whose names, containment tree or hosts make no sense.

    Raises
    ------
    InvalidInputError
        All faults of levels, or else of domains and hosts, with their paths in the Cluster
        document.
    """
    errors = Errors()
    with errors:
        check_unique(document.levels, "level", ("levels",), ())
    for i, level in enumerate(document.levels):
        if level == HOST_LEVEL:
            with errors:
                raise InvalidInputError(
                    "is always the innermost level; expected the levels above it",
                    path=("levels", i),
                    value=level,
                )
    errors.refuse()
    for check in (_check_tree, _check_host_names, _check_hardware):
        with errors:
            check(document)
    levels = (*document.levels, HOST_LEVEL)
    for level in document.links:
        with errors:
            check_known(level, levels, "level", ("links", level))
    with errors:
        check_pools(document)
    errors.refuse()
    _check_wan(document)


def _check_tree(document: ClusterDocument) -> None:
    depth_of = {level: depth for depth, level in enumerate(document.levels)}
    domains: dict[str, DomainEntry] = {}
    errors = Errors()
    for i, domain in enumerate(document.domains):
        with errors:
            check_known(domain.level, depth_of, "level", ("domains", i, "level"))
        other = domains.setdefault(domain.name, domain)
        if other is not domain:
            twice = other.level == domain.level and other.parent != domain.parent
            with errors:
                raise InvalidInputError(
                    f"domain with two parents, {other.parent} and {domain.parent}; expected one"
                    if twice
                    else "domain given twice; expected each name once",
                    path=("domains", i, "name"),
                    value=domain.name,
                )
    errors.refuse()
    for i, domain in enumerate(document.domains):
        depth = depth_of[domain.level]
        above = document.levels[depth - 1] if depth else None
        with errors:
            _check_parent(domain.parent, above, domains, ("domains", i, "parent"), domain.name)
    innermost = document.levels[-1] if document.levels else None
    for i, host in enumerate(document.hosts):
        with errors:
            _check_parent(host.parent, innermost, domains, ("hosts", i, "parent"))
    errors.refuse()


def _check_parent(
    parent: str | None,
    level: str | None,
    domains: Mapping[str, DomainEntry],
    path: Path,
    child: str | None = None,
) -> None:
    """Refuse a parent that is not a domain of the level (None: there must be no parent)."""
    if level is None:
        if parent is None:
            return
        problem = "no level lies above; expected no parent"
    elif parent is None:
        raise InvalidInputError(
            f"missing; expected a domain of level {level}", path=path, show_value=False
        )
    elif parent not in domains:
        problem = f"unknown domain; expected one of level {level}"
    elif domains[parent].level != level:
        problem = f"is a domain of level {domains[parent].level}; expected one of level {level}"
    else:
        return
    if child is not None and _leads_back(child, parent, domains):
        problem = f"is inside {child} itself, a cycle; expected a tree"
    unknown = None if parent is None or parent in domains else (parent, domains)
    raise InvalidInputError(problem, path=path, value=parent, unknown=unknown)


def _leads_back(child: str, parent: str | None, domains: Mapping[str, DomainEntry]) -> bool:
    seen: set[str] = set()
    while parent is not None and parent in domains and parent not in seen:
        if parent == child:
            return True
        seen.add(parent)
        parent = domains[parent].parent
    return False


def _check_host_names(document: ClusterDocument) -> None:
    names: set[str] = set()
    total = 0
    errors = Errors()
    for i, entry in enumerate(document.hosts):
        size = ranges.size(entry.name)
        total += size
        problem = None
        if size < 1:
            problem = "range runs backwards; expected its first number to be the smaller"
        elif total > MAX_HOSTS:
            problem = f"makes {total:,} hosts; expected at most {MAX_HOSTS:,} in all"
        else:
            expanded = ranges.expand(entry.name)
            if not names.isdisjoint(expanded):
                twice = next(name for name in expanded if name in names)
                problem = f"host {twice} given twice; expected each name once"
            names.update(expanded)
        if problem:
            with errors:
                raise InvalidInputError(problem, path=("hosts", i, "name"), value=entry.name)
    errors.refuse()


def _check_hardware(document: ClusterDocument) -> None:
    total = 0
    errors = Errors()
    for i, entry in enumerate(document.hosts):
        with errors:
            if entry.model is not None:
                check_known(entry.model, CATALOGUE, "host model", ("hosts", i, "model"))
            elif entry.gpus is None:
                raise InvalidInputError(
                    "missing; expected the number of GPUs, or a host model",
                    path=("hosts", i, "gpus"),
                    show_value=False,
                )
            has = hardware(entry)
            if has.gpus and has.gpu_model is None:
                raise InvalidInputError(
                    "missing; expected the model of the GPUs, or a host model",
                    path=("hosts", i, "gpu_model"),
                    show_value=False,
                )
            total += ranges.size(entry.name) * has.gpus
            if total > MAX_GPUS:
                raise InvalidInputError(
                    f"makes {total:,} GPUs; expected at most {MAX_GPUS:,} in all",
                    path=("hosts", i, "gpus"),
                    value=has.gpus,
                )
    errors.refuse()


def _check_wan(document: ClusterDocument) -> None:
    outermost = {d.name for d in document.domains if d.level == document.levels[0]}
    pairs: set[frozenset[str]] = set()
    for i, link in enumerate(document.wan):
        for side, name in enumerate(link.between):
            check_known(
                name, outermost, "domain of the outermost level", ("wan", i, "between", side)
            )
        pair = frozenset(link.between)
        if len(pair) < 2 or pair in pairs:
            raise InvalidInputError(
                "expected two different domains, and each pair once",
                path=("wan", i, "between"),
                value=link.between,
            )
        pairs.add(pair)
