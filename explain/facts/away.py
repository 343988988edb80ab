"""Hosts that are away: unhealthy, reserved, to be vacated, or taken by maintenance too early.

A host with several of these, or with some reserved GPUs, is one fact: without it the host is as
good as any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from placewright.explain.facts.fact import Fact, Stratum, group, named
from placewright.instances.derived.phrases import count, several
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import expected_end, hosts_away
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Outage
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.presets.presets import with_health

UNHEALTHY, RESERVED, PARTLY = "unhealthy", "reserved", "reserved in part"
TO_VACATE, MAINTENANCE = "to be vacated", "soon in maintenance"
Listed = TypeVar("Listed", Reservation, Outage)


def away(round_: Round, name: str, able: Collection[str] = ()) -> list[Fact]:
    """Return all hosts that are away for a pending job as one fact; nothing if none is.

    Of those some are `able` to hold a task of it: if there are any, it names these alone.
    """
    causes = causes_of(round_, named(name, round_))
    if not causes:
        return []
    names = (host for entry in round_.cluster.hosts for host in expand(entry.name))
    away_now = tuple(host for host in names if host in causes)
    return [_hosts(away_now, causes, _domains(round_.cluster), able)]


def causes_of(round_: Round, job: Job) -> dict[str, tuple[str, ...]]:
    """Return why hosts are away for a pending job, by name."""
    causes: defaultdict[str, list[str]] = defaultdict(list)
    for entry in round_.cluster.hosts:
        for host in () if entry.healthy else expand(entry.name):
            causes[host].append(UNHEALTHY)
    for one in round_.reservations:
        for host in expand(one.host):
            causes[host].append(RESERVED if one.gpus is None else PARTLY)
    for listed in round_.policy.vacate:
        for host in expand(listed):
            causes[host].append(TO_VACATE)
    for host in hosts_away(round_, round_.now, expected_end(job, round_.now)):
        causes[host].append(MAINTENANCE)
    return {host: tuple(dict.fromkeys(why)) for host, why in causes.items()}


def _hosts(
    names: tuple[str, ...],
    causes: Mapping[str, tuple[str, ...]],
    domains: Sequence[Mapping[str, str]],
    able: Collection[str],
    depth: int = 0,
) -> Fact:
    """Return the fact that some hosts are away.

    From depth 1 on they are away for the same causes, from depth 2 on in one domain of the first
    level, and so on.
    """
    where = f" in {domains[depth - 2][names[0]]}" if depth > 1 else ""
    shown = [name for name in names if name in able] or names
    each = " and " if len({causes[name] for name in shown}) == 1 else " or "
    why = each.join(dict.fromkeys(cause for name in shown for cause in causes[name]))
    if len(shown) == 1:
        text = f"host {shown[0]} is {why}"
    else:
        text = f"{count(len(shown), 'host')}{where} are {why}: {several(shown)}"

    def partitions(_: Sequence[Fact]) -> Iterable[Sequence[Fact]]:
        for deeper in range(depth + 1, len(domains) + 2):
            parts = _parts(names, causes, domains[: deeper - 1])
            yield [_hosts(part, causes, domains, able, deeper) for part in parts]
        yield [_hosts((name,), causes, domains, able) for name in names]

    about = {
        "hosts": list(names),
        "causes": list(dict.fromkeys(c for n in names for c in causes[n])),
    }
    return group(Stratum.AWAY, "hosts", text, names, back, about, partitions)


def _parts(
    names: Sequence[str],
    causes: Mapping[str, tuple[str, ...]],
    domains: Sequence[Mapping[str, str]],
) -> Iterator[tuple[str, ...]]:
    """Yield the hosts that are away for the same causes in the same domains."""
    parts: defaultdict[Hashable, list[str]] = defaultdict(list)
    for name in names:
        parts[causes[name], tuple(level[name] for level in domains)].append(name)
    return map(tuple, parts.values())


def _domains(cluster: ClusterDocument) -> list[dict[str, str]]:
    """Return the domain of each host, of each level from the outermost inwards."""
    parent = {domain.name: domain.parent for domain in cluster.domains}
    level_of = {domain.name: domain.level for domain in cluster.domains}
    domains: dict[str, dict[str, str]] = {level: {} for level in cluster.levels}
    for entry in cluster.hosts:
        above: dict[str, str] = {}
        domain = entry.parent
        while domain is not None:
            above[level_of[domain]] = domain
            domain = parent[domain]
        for name in expand(entry.name):
            for level, holder in above.items():
                domains[level][name] = holder
    return [domains[level] for level in cluster.levels]


def back(round_: Round, hosts: Collection[str]) -> Round:
    """Return the round in which some hosts are as good as any other."""
    cluster = with_health(round_.cluster, dict.fromkeys(hosts, True))
    policy = round_.policy
    vacate: list[str] = []
    for listed in policy.vacate:
        names = _names_left(listed, hosts)
        vacate += [listed] if names is None else names
    return round_.model_copy(
        update={
            "cluster": cluster,
            "reservations": tuple(_left_of(round_.reservations, hosts)),
            "maintenance": tuple(_left_of(round_.maintenance, hosts)),
            "policy": policy.model_copy(update={"vacate": tuple(vacate)}),
        }
    )


def _left_of(entries: Sequence[Listed], hosts: Collection[str]) -> Iterator[Listed]:
    """Yield the entries without some hosts; a range of which some are left, host by host."""
    for entry in entries:
        names = _names_left(entry.host, hosts)
        if names is None:
            yield entry
        else:
            for name in names:
                yield entry.model_copy(update={"host": name})


def _names_left(listed: str, hosts: Collection[str]) -> list[str] | None:
    """Return what a name or range is without some hosts; None if none of them is in it."""
    names = expand(listed)
    left = [name for name in names if name not in hosts]
    return None if len(left) == len(names) else left
