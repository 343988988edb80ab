"""Checks of a cluster, its pools and host sets, and of topology constraints on it.

What is wrong is an `InvalidInputError` with its path in the Cluster or Round document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from placewright.instances.derived import ranges
from placewright.instances.derived.hardware import hardware, link_matrix
from placewright.instances.derived.names import check_known, check_unique, is_anywhere, known_hosts
from placewright.instances.derived.phrases import count
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.cluster import (
    ClusterDocument,
    DomainEntry,
    HostEntry,
    LinkMatrix,
)
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path
from placewright.topology import CATALOGUE, LINK_MATRICES, Link
from placewright.topology.fabric import fabric_of
from placewright.topology.gpu_links import MOST_GPUS
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

# Checks of pools: their domains exist, each is given once, and options use what there is.


def check_pools(document: ClusterDocument) -> None:
    """Refuse pools of levels or domains that the cluster does not have, or given twice.

    All pools of a resource count per task, or all count per job.
    """
    errors = Errors()
    first: dict[str, int] = {}
    seen: set[tuple[str, str | None]] = set()
    for i, pool in enumerate(document.pools):
        path: Path = ("pools", i)
        before = first.setdefault(pool.resource, i)
        with errors:
            if (pool.resource, pool.level) in seen:
                raise InvalidInputError(
                    f"pool of this level given twice; expected each pool of {pool.resource} once",
                    (*path, "level"),
                    pool.level,
                )
            if pool.per != document.pools[before].per:
                raise InvalidInputError(
                    f"expected {document.pools[before].per} as in pools[{before}], "
                    f"which is of {pool.resource}, too",
                    (*path, "per"),
                    pool.per,
                )
            _check_domains(pool, path, document)
        seen.add((pool.resource, pool.level))
    errors.refuse()


def _check_domains(pool: Pool, path: Path, document: ClusterDocument) -> None:
    if pool.level is None:
        if pool.domains:
            raise InvalidInputError(
                "given without a level; expected the level of these domains", (*path, "domains")
            )
        return
    check_known(pool.level, (*document.levels, HOST_LEVEL), "level", (*path, "level"))
    if not pool.domains:
        return
    if pool.level == HOST_LEVEL:
        known = {name for entry in document.hosts for name in expand(entry.name)}
    else:
        known = {domain.name for domain in document.domains if domain.level == pool.level}
    errors = Errors()
    for name in pool.domains:
        errors.note(
            check_known, name, known, f"domain of level {pool.level}", (*path, "domains", name)
        )
    errors.refuse()


def check_uses(round_: Round) -> None:
    """Refuse options that use what no pool has per job, and no cap limits that no host has."""
    pools = {pool.resource: pool.per for pool in round_.cluster.pools}
    per_job = {resource for resource, per in pools.items() if per == "job"}
    capped = {name for cap in round_.caps.values() for name in cap.resources if "@" in name}
    if capped:
        capped -= {name for entry in round_.cluster.hosts for name in entry.resources}
        per_job |= capped - pools.keys()
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        for j, option in enumerate(job.options):
            for name in option.uses:
                with errors:
                    path = ("jobs", i, "options", j, "uses", name)
                    if pools.get(name) == "task":
                        raise InvalidInputError(
                            "its pool has per: task; expected in resources of the task groups",
                            path,
                            option.uses[name],
                        )
                    what = "resource of a pool with per: job, or of a cap"
                    check_known(name, per_job, what, path)
    errors.refuse()


# Checks of a cluster: a containment tree of its levels, and each host given once and in full.
#
# Domain names are unique in the whole tree, host names among all hosts once ranges are expanded.


MAX_HOSTS = 200_000
MAX_GPUS = 4_000_000
MAX_FLOW_WORK = 500_000
"""Domains times links of a fabric: the maximum flow out of each domain looks at all links."""


def check_cluster(document: ClusterDocument) -> None:
    """Refuse a cluster whose names, containment tree or hosts make no sense.

    Raises
    ------
    InvalidInputError
        All faults of levels, or else of domains and hosts, with their paths in the Cluster
        document.
    """
    errors = Errors()
    errors.note(check_unique, document.levels, "level", ("levels",), ())
    for i, level in enumerate(document.levels):
        if level == HOST_LEVEL:
            errors.add(
                InvalidInputError(
                    "is always the innermost level; expected the levels above it",
                    ("levels", i),
                    level,
                )
            )
    errors.refuse()
    for check in (_check_tree, _check_host_names, _check_hardware, _check_link_matrices):
        errors.note(check, document)
    levels = (*document.levels, HOST_LEVEL)
    for level in document.links:
        errors.note(check_known, level, levels, "level", ("links", level))
    outermost = [name for level, name in _by_level(document) if level == levels[0]]
    own: list[tuple[Path, str, int | None, bool]] = [
        *((("domains", i), d.level, d.uplink_mbps, False) for i, d in enumerate(document.domains)),
        *(
            (("hosts", i), HOST_LEVEL, h.uplink_mbps, _has_nics(h))
            for i, h in enumerate(document.hosts)
        ),
    ]
    for path, level, mbps, has_nics in own:
        problem = ""
        if level not in document.links:
            problem = f"given without a link of its level; expected links of {level}, too"
        elif level == levels[0] and (document.wan or len(outermost) < 2):
            problem = "given for an outermost domain that has no uplink; expected none"
        elif has_nics:
            problem = "given for a host whose model has NICs of its own; expected none"
        if mbps is not None and problem:
            errors.add(InvalidInputError(problem, (*path, "uplink_mbps"), mbps))
    errors.note(check_pools, document)
    errors.refuse()
    _check_wan(document)
    if document.fabric:
        _check_fabric(document)


def _check_fabric(document: ClusterDocument) -> None:
    """Refuse a graph of switches that leaves domains apart, or links that say otherwise."""
    links = {one.between: Link(one.bandwidth_mbps, one.latency_us) for one in document.fabric}
    problem = ""
    if not document.levels or document.wan or document.links.keys() - {HOST_LEVEL}:
        problem = "given beside wan, links of levels above the host, or no level; expected neither"
    elif len(document.domains) * len(links) > MAX_FLOW_WORK:
        problem = (
            f"has {len(links):,} links for {len(document.domains):,} domains; expected at most "
            f"{MAX_FLOW_WORK:,} if multiplied"
        )
    elif len(links) < len(document.fabric):
        problem = "has two links between the same ends; expected each pair once"
    else:
        innermost = document.levels[-1]
        try:
            leaves = tuple(one.name for one in document.domains if one.level == innermost)
            fabric_of(leaves, tuple(links.items()))
        except ValueError as error:
            problem = str(error)
    if problem:
        raise InvalidInputError(problem, ("fabric",), show_value=False)


def _by_level(document: ClusterDocument) -> Iterator[tuple[str, str]]:
    """Yield level and name of each domain, and of each entry of hosts twice if it is a range."""
    yield from ((domain.level, domain.name) for domain in document.domains)
    for entry in document.hosts:
        yield from [(HOST_LEVEL, entry.name)] * min(ranges.size(entry.name), 2)


def _has_nics(entry: HostEntry) -> bool:
    model = CATALOGUE.get(entry.model or "")
    return model is not None and model.nic_rails > 0


def _check_tree(document: ClusterDocument) -> None:
    depth_of = {level: depth for depth, level in enumerate(document.levels)}
    domains: dict[str, DomainEntry] = {}
    errors = Errors()
    for i, domain in enumerate(document.domains):
        errors.note(check_known, domain.level, depth_of, "level", ("domains", i, "level"))
        other = domains.setdefault(domain.name, domain)
        if other is not domain:
            twice = other.level == domain.level and other.parent != domain.parent
            errors.add(
                InvalidInputError(
                    f"domain with two parents, {other.parent} and {domain.parent}; expected one"
                    if twice
                    else "domain given twice; expected each name once",
                    ("domains", i, "name"),
                    domain.name,
                )
            )
    errors.refuse()
    for i, domain in enumerate(document.domains):
        depth = depth_of[domain.level]
        above = document.levels[depth - 1] if depth else None
        errors.note(
            _check_parent, domain.parent, above, domains, ("domains", i, "parent"), domain.name
        )
    innermost = document.levels[-1] if document.levels else None
    for i, host in enumerate(document.hosts):
        errors.note(_check_parent, host.parent, innermost, domains, ("hosts", i, "parent"))
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
        raise InvalidInputError(f"missing; expected a domain of level {level}", path)
    elif parent not in domains:
        problem = f"unknown domain; expected one of level {level}"
    elif domains[parent].level != level:
        problem = f"is a domain of level {domains[parent].level}; expected one of level {level}"
    else:
        return
    if child is not None and _leads_back(child, parent, domains):
        problem = f"is inside {child} itself, a cycle; expected a tree"
    unknown = None if parent is None or parent in domains else (parent, domains)
    raise InvalidInputError(problem, path, parent, unknown=unknown)


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
            errors.add(InvalidInputError(problem, ("hosts", i, "name"), entry.name))
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
                    "missing; expected the number of GPUs, or a host model", ("hosts", i, "gpus")
                )
            has = hardware(entry)
            if has.gpus and has.gpu_model is None:
                raise InvalidInputError(
                    "missing; expected the model of the GPUs, or a host model",
                    ("hosts", i, "gpu_model"),
                )
            if entry.model is not None and has.gpus > CATALOGUE[entry.model].gpus:
                raise InvalidInputError(
                    f"expected at most the {CATALOGUE[entry.model].gpus} of the host model",
                    ("hosts", i, "gpus"),
                    has.gpus,
                )
            total += ranges.size(entry.name) * has.gpus
            if total > MAX_GPUS:
                raise InvalidInputError(
                    f"makes {total:,} GPUs; expected at most {MAX_GPUS:,} in all",
                    ("hosts", i, "gpus"),
                    has.gpus,
                )
    errors.refuse()


def _check_link_matrices(document: ClusterDocument) -> None:
    """Refuse matrices that are no matrices, and hosts with other GPUs than their matrix has."""
    errors = Errors()
    names = [matrix.name for matrix in document.gpu_links]
    errors.note(check_unique, names, "link matrix", ("gpu_links",), ("name",))
    for i, matrix in enumerate(document.gpu_links):
        errors.note(_check_link_matrix, matrix, ("gpu_links", i))
    errors.refuse()
    gpus = {name: links.gpus for name, links in LINK_MATRICES.items()}
    gpus |= {matrix.name: len(matrix.gpus) for matrix in document.gpu_links}
    for i, entry in enumerate(document.hosts):
        if entry.gpu_links is None:
            continue
        with errors:
            path: Path = ("hosts", i, "gpu_links")
            check_known(entry.gpu_links, gpus, "link matrix", path)
            if hardware(entry).gpus > gpus[entry.gpu_links]:
                raise InvalidInputError(
                    f"has {count(gpus[entry.gpu_links], 'GPU')}; expected at least the host's "
                    f"{hardware(entry).gpus}",
                    path,
                    entry.gpu_links,
                )
    errors.refuse()


def _check_link_matrix(matrix: LinkMatrix, path: Path) -> None:
    if matrix.name in LINK_MATRICES:
        raise InvalidInputError(
            "is the name of a host model; expected another", (*path, "name"), matrix.name
        )
    for part in ("gpus", "nics"):
        for i, row in enumerate(getattr(matrix, part)):
            words, here = row.split(), (*path, part, i)
            if len(words) != len(matrix.gpus):
                raise InvalidInputError(
                    f"has {count(len(words), 'word')}; expected one for each of "
                    f"{count(len(matrix.gpus), 'GPU')}",
                    here,
                    row,
                )
            for j, word in enumerate(words):
                if (word == "X") != (part == "gpus" and i == j):
                    raise InvalidInputError(
                        f"word {j} is {word}; expected X for the GPU itself, and only there",
                        here,
                        row,
                    )
                if word not in ("X", "-"):
                    check_known(word, matrix.classes, "link class", here)
    rows = [row.split() for row in matrix.gpus]
    for i, words in enumerate(rows):
        for j in range(i):
            if words[j] != rows[j][i]:
                raise InvalidInputError(
                    f"GPU {i} has {words[j]} to GPU {j}, which has {rows[j][i]} to it; "
                    f"expected the same both ways",
                    (*path, "gpus", i),
                    matrix.gpus[i],
                )
    if len(rows) > MOST_GPUS and not link_matrix(matrix).is_uniform:
        raise InvalidInputError(
            f"has {len(rows)} GPUs with different links; expected at most {MOST_GPUS}, or the "
            f"same link between any two",
            (*path, "gpus"),
        )
    if matrix.numa and len(matrix.numa) != len(rows):
        raise InvalidInputError(
            f"has {len(matrix.numa)} entries; expected one for each of {len(rows)} GPUs",
            (*path, "numa"),
        )


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
                ("wan", i, "between"),
                link.between,
            )
        pairs.add(pair)


# Checks of hosts that task groups name, in lists and by host sets.


MAX_MEMBERS = 20_000_000
"""Of all host sets together."""


def check_host_sets(round_: Round, hosts: Collection[str]) -> None:
    """Refuse host sets with hosts that the cluster does not have, or too large together."""
    members = sum(ranges.size(name) for names in round_.host_sets.values() for name in names)
    if members > MAX_MEMBERS:
        raise InvalidInputError(
            f"stand for {members:,} hosts; expected at most {MAX_MEMBERS:,} in all sets",
            ("host_sets",),
        )
    errors = Errors()
    for name, entries in round_.host_sets.items():
        for m, entry in enumerate(entries):
            if entry not in hosts:  # a range, or unknown
                errors.note(known_hosts, entry, hosts, ("host_sets", name, m))
    errors.refuse()


def check_allowed_hosts(round_: Round, hosts: Collection[str]) -> None:
    """Refuse task groups that name hosts or host sets that the round does not have."""
    errors = Errors()
    seen: set[str] = set()  # jobs that share a list are many, and a range is long
    for i, job in enumerate(round_.jobs):
        for j, option in enumerate(job.options):
            for k, group in enumerate(option.groups):
                if is_anywhere(group):
                    continue
                path: Path = ("jobs", i, "options", j, "groups", k)
                for m, name in enumerate(group.hosts or ()):
                    if name not in seen:
                        with errors:
                            known_hosts(name, hosts, (*path, "hosts", m))
                            seen.add(name)
                for m, name in enumerate(group.host_sets):
                    if name not in round_.host_sets:
                        errors.note(
                            check_known, name, round_.host_sets, "host set", (*path, "host_sets", m)
                        )
    errors.refuse()


# Checks of topology constraints: known levels, and no contradictions.


def check_arrangement(round_: Round) -> None:
    """Refuse unknown levels, wrong slices and numbers of hosts, GPUs that cannot communicate."""
    levels = (*round_.cluster.levels, HOST_LEVEL)
    level_of: dict[str, str] = {}
    errors = Errors()
    links_decide = "gpu_links" in round_.policy.spec.terms
    links_decide &= not any(tenant.cells for tenant in round_.tenants)
    links_decide &= round_.policy.backfill is None
    for i, job in enumerate(round_.jobs):
        rule = job.anti_affinity
        if rule is not None:
            path: Path = ("jobs", i, "anti_affinity", "level")
            with errors:
                check_known(rule.level, levels, "level", path)
                if level_of.setdefault(rule.label, rule.level) != rule.level:
                    raise InvalidInputError(
                        f"another job with the label {rule.label} has level "
                        f"{level_of[rule.label]}; expected one level for each label",
                        path,
                        rule.level,
                    )
        for j, option in enumerate(job.options):
            if option.required is not None:
                path = ("jobs", i, "options", j, "required")
                errors.note(check_known, option.required, levels, "level", path)
            for k, group in enumerate(option.groups):
                path = ("jobs", i, "options", j, "groups", k)
                asked = group.slices, group.apart, group.communication, group.gpu_links
                if any(one is not None for one in asked):
                    errors.note(_check_group, group, levels, path)
                if group.gpu_links is not None and not links_decide:
                    errors.add(
                        InvalidInputError(
                            "not used by policies other than gang, nor beside cells or backfill; "
                            "expected none",
                            (*path, "gpu_links"),
                        )
                    )
            errors.note(_check_num_hosts, option, ("jobs", i, "options", j))
    errors.refuse()


def _check_group(group: TaskGroup, levels: Collection[str], path: Path) -> None:
    slices = group.slices
    if slices is not None:
        check_known(slices.required, levels, "level", (*path, "slices", "required"))
        if group.count % slices.size:
            raise InvalidInputError(
                f"expected a divisor of the group's {group.count} tasks",
                (*path, "slices", "size"),
                slices.size,
            )
    if group.apart is not None:
        check_known(group.apart.level, levels, "level", (*path, "apart", "level"))
    asked = group.communication
    timed = asked is not None and asked.data_mib is not None
    if timed and (group.gpu < WHOLE_GPU or group.mig is not None):
        raise InvalidInputError(
            "given for tasks without a whole GPU; expected at least 1 GPU of each task",
            (*path, "communication", "data_mib"),
        )
    if group.gpu_links is not None and group.gpu < 2 * WHOLE_GPU:
        raise InvalidInputError(
            "given for tasks without two GPUs; expected at least 2 GPUs of each task",
            (*path, "gpu_links"),
        )


def _check_num_hosts(option: Option, path: Path) -> None:
    """Refuse numbers of hosts on which the tasks of a group, or of all groups, cannot be."""
    fewest, most = 1, 0
    for k, group in enumerate(option.groups):
        least, largest = 1, group.count
        if group.apart is not None and group.apart.level == HOST_LEVEL:
            least = -(-group.count // group.apart.most)
        if group.slices is not None and group.slices.required == HOST_LEVEL:
            largest //= group.slices.size
        if HOST_LEVEL in (group.required, option.required):
            largest = 1
        least, largest = _within(group.num_hosts, least, largest, (*path, "groups", k, "num_hosts"))
        fewest, most = max(fewest, least), most + largest
    _within(option.hosts, fewest, 1 if option.required == HOST_LEVEL else most, (*path, "hosts"))


def _within(asked: HostCount | None, fewest: int, most: int, path: Path) -> tuple[int, int]:
    """Return how few and how many hosts are left of those that tasks can be on."""
    if asked is None:
        return fewest, most
    if asked.min > most:
        raise InvalidInputError(
            f"its tasks can be on {most} at most; expected no more", (*path, "min"), asked.min
        )
    if asked.max is not None and asked.max < fewest:
        raise InvalidInputError(
            f"its tasks need {fewest} at least; expected no fewer", (*path, "max"), asked.max
        )
    return max(fewest, asked.min), min(most, asked.max or most)
