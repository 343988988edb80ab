"""Edits of hosts: drained, failed, restored, released from reservations, or added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from placewright.instances.checks.round import hosts_by_name, known_hosts
from placewright.instances.derived import ranges
from placewright.instances.derived.names import check_known
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.documents.edits import AddEdit
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.edits.pools import pools_with_copies
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import GANG
from placewright.instances.presets.health import with_health

REMAINING = "remaining"
MAX_NAME = 253


def drain(round_: Round, hosts: Sequence[str]) -> Round:
    """Let nothing arrive on hosts, and leave as little there as possible before all other terms."""
    policy = round_.policy
    if "policy.vacate" not in policy.spec.fields:
        raise InvalidInputError(
            f"policy {policy.formulation} drains no hosts, only {GANG.name} does; expected fail: "
            "nothing arrives there, and who runs there starts anew elsewhere",
            value=", ".join(hosts),
        )
    known = expanded(round_, hosts)
    drained = {name for entry in policy.vacate for name in ranges.expand(entry)}
    if known <= drained:
        return round_
    terms = policy.terms if REMAINING in policy.terms else (REMAINING, *policy.terms)
    vacate = tuple(dict.fromkeys((*policy.vacate, *hosts)))
    return _with_policy(round_, terms=terms, vacate=vacate)


def fail(round_: Round, hosts: Sequence[str]) -> Round:
    """Make hosts unhealthy; who runs there is pending again, pinned or not."""
    failed = expanded(round_, hosts)
    round_ = _with_cluster(round_, with_health(round_.cluster, dict.fromkeys(failed, False)))
    jobs = tuple(
        job.model_copy(update={"running": None}) if _runs_on(job, failed) else job
        for job in round_.jobs
    )
    return round_ if jobs == round_.jobs else round_.model_copy(update={"jobs": jobs})


def restore(round_: Round, hosts: Sequence[str]) -> Round:
    """Make hosts healthy, without outages and no longer drained; reservations stay."""
    back = expanded(round_, hosts)
    round_ = _with_cluster(round_, with_health(round_.cluster, dict.fromkeys(back, True)))
    if round_.leases.outages:
        outages = tuple(
            one if name == one.host else one.model_copy(update={"host": name})
            for one in round_.leases.outages
            for name in _without(one.host, back)
        )
        leases = round_.leases.model_copy(update={"outages": outages})
        round_ = round_.model_copy(update={"leases": leases})
    policy = round_.policy
    vacate = tuple(name for entry in policy.vacate for name in _without(entry, back))
    if vacate == policy.vacate:
        return round_
    terms = policy.terms
    if not vacate:
        terms = tuple(term for term in terms if term != REMAINING) or policy.spec.default
    return _with_policy(round_, terms=terms, vacate=vacate)


def release(round_: Round, hosts: Sequence[str]) -> Round:
    """Take away the reservations on hosts, or on some of their GPUs."""
    released = expanded(round_, hosts)
    reserved = {name for one in round_.reservations for name in ranges.expand(one.host)}
    if not released & reserved:
        raise InvalidInputError(
            "not reserved; expected hosts with a reservation", value=tuple(hosts)
        )
    left = tuple(
        one if name == one.host else Reservation(host=name, gpus=one.gpus)
        for one in round_.reservations
        for name in _without(one.host, released)
    )
    return round_.model_copy(update={"reservations": left})


def add(round_: Round, edit: AddEdit) -> Round:
    """Add hosts and domains: those given, or copies of a domain with all that is in it."""
    cluster = round_.cluster
    domains, hosts = list(edit.domains), list(edit.hosts)
    sets, pools = dict(round_.host_sets), cluster.pools
    for i, name in enumerate(edit.host_sets):
        check_known(name, sets, "host set", ("host_sets", i))
        sets[name] = (*sets[name], *(entry.name for entry in hosts))
    if edit.like is not None:
        taken = {one.name for one in cluster.domains} | hosts_by_name(cluster).keys()
        check_known(edit.like, taken, "domain or host", ("like",))
        numbers = _free_numbers(edit.like, taken)
        for _ in range(edit.count):
            prefix = f"new{next(numbers)}-"
            more_domains, more_hosts = _copied(cluster, edit.like, prefix)
            domains += more_domains
            hosts += more_hosts
            sets = _with_copies(sets, more_hosts, prefix)
            pools = pools_with_copies(pools, more_domains, more_hosts, prefix)
    update: dict[str, object] = {
        "domains": (*cluster.domains, *domains),
        "hosts": (*cluster.hosts, *hosts),
    }
    update["pools"] = pools
    round_ = _with_cluster(round_, cluster.model_copy(update=update))
    return round_ if sets == round_.host_sets else round_.model_copy(update={"host_sets": sets})


def expanded(round_: Round, hosts: Sequence[str]) -> frozenset[str]:
    """Return the hosts that names and ranges stand for.

    Raises
    ------
    InvalidInputError
        If one is not of the cluster; the path is its index.
    """
    known = hosts_by_name(round_.cluster)
    return frozenset(one for i, name in enumerate(hosts) for one in known_hosts(name, known, (i,)))


def _runs_on(job: Job, hosts: frozenset[str]) -> bool:
    return job.running is not None and any(task.host in hosts for task in job.running.tasks)


def _with_policy(round_: Round, **update: object) -> Round:
    return round_.model_copy(update={"policy": round_.policy.model_copy(update=update)})


def _with_cluster(round_: Round, cluster: ClusterDocument) -> Round:
    return round_ if cluster == round_.cluster else round_.model_copy(update={"cluster": cluster})


def _without(entry: str, gone: frozenset[str]) -> Iterable[str]:
    """Return a name or range as it is, or the names of it that are left."""
    names = ranges.expand(entry)
    left = [name for name in names if name not in gone]
    return (entry,) if len(left) == len(names) else left


def _with_copies(
    sets: Mapping[str, tuple[str, ...]], copies: Sequence[HostEntry], prefix: str
) -> dict[str, tuple[str, ...]]:
    """Return host sets in which copies of hosts are, too, if these are; copies have a prefix."""
    copied = {name.removeprefix(prefix) for one in copies for name in ranges.expand(one.name)}
    found = {}
    for name, entries in sets.items():
        more: list[str] = []
        for entry in entries:
            mine = [host for host in ranges.expand(entry) if host in copied]
            whole = len(mine) == ranges.size(entry)
            more += [f"{prefix}{entry}"] if whole else [f"{prefix}{host}" for host in mine]
        found[name] = (*entries, *more)
    return found


def _free_numbers(like: str, taken: set[str]) -> Iterator[int]:
    number = 0
    while True:
        number += 1
        if f"new{number}-{like}" not in taken:
            yield number


def _copied(
    cluster: ClusterDocument, like: str, prefix: str
) -> tuple[list[DomainEntry], list[HostEntry]]:
    """Return the entries of a domain or host and all that is in it, under new names."""
    inside = {like}
    domains: list[DomainEntry] = []
    for entry in sorted(cluster.domains, key=lambda one: cluster.levels.index(one.level)):
        if entry.name == like or entry.parent in inside:
            inside.add(entry.name)
            domains.append(entry)
    hosts = [entry for entry in cluster.hosts if domains and entry.parent in inside]
    if not domains:
        alone = next(entry for entry in cluster.hosts if like in ranges.expand(entry.name))
        hosts = [alone.model_copy(update={"name": like})]

    def renamed(name: str) -> str:
        if len(prefix) + len(name) > MAX_NAME:
            raise InvalidInputError(
                f"too long a name to copy; expected at most {MAX_NAME - len(prefix)} characters",
                path=("like",),
                value=name,
            )
        return prefix + name

    def parent(entry: DomainEntry | HostEntry) -> str | None:
        own = entry.parent
        return own if own is None or own not in inside or entry.name == like else prefix + own

    return (
        [
            one.model_copy(update={"name": renamed(one.name), "parent": parent(one)})
            for one in domains
        ],
        [
            one.model_copy(
                update={
                    "name": renamed(one.name),
                    "parent": parent(one),
                    "healthy": True,
                    "annotations": {},  # they say which host of the source this is
                }
            )
            for one in hosts
        ],
    )
