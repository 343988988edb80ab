"""Checks of magnitudes, and warnings of quantities that are hardly meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import comb
from typing import TypeAlias

from placewright.instances.derived import ranges
from placewright.instances.derived.hardware import hardware, link_matrix
from placewright.instances.derived.speed import speed
from placewright.instances.documents.base import MAX_TOTAL
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.quantities import whole_units
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path, most_similar, path_text
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

# Checks of magnitudes: demands, values and costs, and their sums, stay within exact integers.
#
# Fields have ranges of their own, but a job multiplies them: tasks by what each asks, and GPUs by
# weight, by seconds and by domains.


MAX_EACH = 10**15
"""Of one job: floats have all whole numbers up to there, and solvers take it as a coefficient."""

SMALL = 10**11
MIB_BITS = 8 * 2**20
NARROW_MBPS = 1000
"""No link of the catalogue is narrower."""
WIDE_MBPS = 10**7
"""No link between GPUs of the catalogue is wider."""

HOMELESS = 3
"""What each milli-GPU of a job without a home counts in `overload`."""

Amounts: TypeAlias = Iterator[tuple[str, int]]
"""What is counted, with its unit if it has one, and the most that there can be of it."""


Term: TypeAlias = Callable[[Job, int], Amounts]
"""From a job and the index of an option to what a term counts of it."""

VALUE = "value (milli-GPU times weight, if not given)"
STOP = "milli-GPU-seconds of a stop"


def check_magnitudes(round_: Round) -> None:
    """Refuse a round in which a job asks, is worth or may cost too much, or all of them together.

    Raises
    ------
    InvalidInputError
        For the first job with too much of something, or for all jobs.
    """
    terms = _terms(round_)
    plain = terms.keys() <= {"spread", "overload"}
    factor = (HOMELESS + sum(round_.spread_weights().values())) if terms else 0
    totals: Counter[str] = Counter()
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        if plain and _is_small(job, round_.now, factor):
            continue
        most: dict[str, int] = {}
        with errors:
            for j in range(len(job.options)):
                for what, number in _of_option(job, j, terms.values()):
                    if number > most.get(what, 0):
                        most[what] = number
                        if number > MAX_EACH:
                            raise _too_much(what, number, MAX_EACH, ("jobs", i, "options", j))
            if job.running is not None:
                most[STOP] = cost = _stop(job, round_.now)
                if cost > MAX_EACH:
                    raise _too_much(STOP, cost, MAX_EACH, ("jobs", i, "running"))
            for what, number in most.items():
                totals[what] += number
    errors.refuse()
    for what, total in totals.items():
        if total > MAX_TOTAL:
            raise _too_much(what, total, MAX_TOTAL, ("jobs",))


def _too_much(what: str, number: int, limit: int, path: Path) -> InvalidInputError:
    return InvalidInputError(f"{number:,} {what} in all; expected at most {limit:,}", path)


def _is_small(job: Job, now: int, factor: int) -> bool:
    """Whether even millions of jobs like this one are within the limits, by a quick upper bound.

    Most rounds have no others. `factor` is no less than what a milli-GPU counts in `spread` for
    each domain, all levels together, or in `overload`.
    """
    times = job.weight + factor + 1
    for option in job.options:
        if option.progress > SMALL or (option.value is not None and option.value > SMALL):
            return False
        for group in option.groups:
            asked = group.gpu + group.cpu + group.memory
            if group.resources:
                asked += sum(group.resources.values())
            if option.uses:
                asked += sum(option.uses.values())
            if asked * group.count**2 * len(option.groups) * times > SMALL:
                return False
    return job.running is None or _stop(job, now) <= SMALL


def _of_option(job: Job, index: int, terms: Iterable[Term]) -> Amounts:
    """Yield what is counted of an option, whether it fits the cluster or not."""
    option = job.options[index]
    milli = option.milli_gpu
    yield "milli-GPU", milli
    yield VALUE, milli * job.weight if option.value is None else option.value
    yield "progress", option.progress
    for group in option.groups:
        yield "millicores", group.count * group.cpu
        yield "MiB of memory", group.count * group.memory
        for name, amount in group.resources.items():
            yield f"of resource {name}", group.count * amount
    tasks = sum(group.count for group in option.groups)
    for name, amount in option.uses.items():
        yield f"of resource {name}", tasks * amount
    for term in terms:
        yield from term(job, index)


def _stop(job: Job, now: int) -> int:
    """Return the most that stopping a running job costs, in milli-GPU-seconds."""
    running = job.running
    if running is None:
        return 0
    milli = max(option.milli_gpu for option in job.options)
    default = job.options[running.option].milli_gpu * (running.unsaved_s(now) + running.restart_s)
    costs = (running.migrate_cost, running.preempt_cost, *(running.resize_costs or ()))
    return milli + max(default if cost is None else cost for cost in costs)


def _terms(round_: Round) -> dict[str, Term]:
    """Return what yields amounts of the terms of a round that count more than is asked."""
    terms = round_.policy.terms
    return {term: make(round_) for term, make in _MAKERS.items() if term in terms}


def _spread(round_: Round) -> Term:
    domains = Counter(domain.level for domain in round_.cluster.domains)
    domains[HOST_LEVEL] = sum(ranges.size(entry.name) for entry in round_.cluster.hosts)
    weights = [(weight, domains[level]) for level, weight in round_.spread_weights().items()]

    def spread(job: Job, index: int) -> Amounts:
        total = 0
        for group in job.options[index].groups:
            beyond = sum(weight * max(min(group.count, most) - 1, 0) for weight, most in weights)
            total += group.milli_gpu * beyond
        yield "spread", total

    return spread


def _overload(_round: Round) -> Term:
    def overload(job: Job, index: int) -> Amounts:
        # Where data lives is decided by what jobs ask first.
        yield "overload", 0 if index else HOMELESS * job.options[index].milli_gpu

    return overload


def _proximity(round_: Round) -> Term:
    # No two switches are further apart than there are links.
    levels = max(len(round_.cluster.levels), len(round_.cluster.fabric)) + 1

    def proximity(job: Job, index: int) -> Amounts:
        tasks = sum(group.count for group in job.options[index].groups)
        yield "proximity", levels * comb(tasks, 2)

    return proximity


def _bottleneck(round_: Round) -> Term:
    links = (*round_.cluster.links.values(), *round_.cluster.wan, *round_.cluster.fabric)
    own = [domain.uplink_mbps for domain in round_.cluster.domains]
    own += [host.uplink_mbps for host in round_.cluster.hosts]
    widths = [*(link.bandwidth_mbps for link in links), *(mbps for mbps in own if mbps)]
    narrowest = min([*widths, NARROW_MBPS])

    def bottleneck(job: Job, index: int) -> Amounts:
        for group in job.options[index].groups:
            if group.communication is not None and group.communication.data_mib is not None:
                ranks = group.count * -(-group.gpu // WHOLE_GPU)
                bits = 2 * group.communication.data_mib * MIB_BITS
                yield "microseconds of a collective", ranks * bits // narrowest

    return bottleneck


def _contention(round_: Round) -> Term:
    domains = Counter(domain.level for domain in round_.cluster.domains)
    domains[HOST_LEVEL] = sum(ranges.size(entry.name) for entry in round_.cluster.hosts)
    levels = domains if round_.cluster.fabric else round_.cluster.links
    linked = [domains[level] for level in levels]

    def contention(job: Job, index: int) -> Amounts:
        yield (
            "Mbit/s over links",
            sum(
                (group.communication.rate_mbps or 0) * min(group.count, most)
                for group in job.options[index].groups
                for most in linked
                if group.communication is not None
            ),
        )

    return contention


def _gpu_links(round_: Round) -> Term:
    matrices = [link_matrix(matrix) for matrix in round_.cluster.gpu_links]
    widest = max((mbps for one in matrices for row in one.mbps for mbps in row), default=WIDE_MBPS)

    def gpu_links(job: Job, index: int) -> Amounts:
        for group in job.options[index].groups:
            if group.gpu_links is not None:
                gpus = group.gpu // WHOLE_GPU
                links = comb(gpus, 2) if group.gpu_links.measure == "pairs" else 1
                yield "Mbit/s between GPUs", group.count * links * max(widest, WIDE_MBPS)

    return gpu_links


def _stranded(round_: Round) -> Term:
    milli = WHOLE_GPU * sum(
        hardware(entry).gpus * ranges.size(entry.name) for entry in round_.cluster.hosts
    )
    mix = round_.policy.mix
    weights = None if mix is None else sum(kind.weight for kind in mix)

    def stranded(job: Job, index: int) -> Amounts:
        if weights is None:
            yield "stranded", milli * sum(group.count for group in job.options[index].groups)

    if weights is not None and weights * milli > MAX_TOTAL:
        raise _too_much("stranded", weights * milli, MAX_TOTAL, ("policy", "mix"))
    return stranded


def _throughput(_round: Round) -> Term:
    def throughput(job: Job, index: int) -> Amounts:
        yield "weight times throughput", job.weight * speed(job, index)

    return throughput


_MAKERS: Mapping[str, Callable[[Round], Term]] = {
    "spread": _spread,
    "overload": _overload,
    "proximity": _proximity,
    "bottleneck": _bottleneck,
    "contention": _contention,
    "gpu_links": _gpu_links,
    "stranded": _stranded,
    "weighted_throughput": _throughput,
}


# Warnings of resources that nobody has: valid, but a job that asks for one fits nowhere.


def resource_warnings(round_: Round) -> Iterator[str]:
    """Yield a line for each resource that a task asks for and that no host and no pool has.

    Each is named once, where it is first asked for.
    """
    pools = {pool.resource: pool.per for pool in round_.cluster.pools}
    known = {name for host in round_.cluster.hosts for name in host.resources}
    known.update(name for name, per in pools.items() if per == "task")
    seen = set(known)
    for j, job in enumerate(round_.jobs):
        for o, option in enumerate(job.options):
            for g, group in enumerate(option.groups):
                for name, amount in group.resources.items():
                    if amount and name not in seen:
                        seen.add(name)
                        path = ("jobs", j, "options", o, "groups", g, "resources", name)
                        yield f"{path_text(path)}: {amount}: {_nobody(name, name in pools, known)}"


def _nobody(name: str, per_job: bool, known: set[str]) -> str:
    if per_job:
        return "no host has any, and its pool is per job; is uses of the option meant?"
    similar = most_similar(name, known)
    meant = "" if similar is None else f"; is {similar} meant?"
    return f"no host and no pool has any{meant}"


# Warnings of quantities that look like a number of another unit: valid, but hardly meant.


LEAST_GPU = 50
"""Milli-GPU of a task: less is rather a number of another unit."""

MOST_CORES = 1024
"""Of a host."""

_MILLI = 1000


def unit_warnings(document: Round | ClusterDocument) -> Iterator[str]:
    """Yield a line for each quantity that looks like a number of another unit.

    A task of less than 0.05 of a GPU, a quota or guarantee below one GPU, a host of more than
    1,024 cores.
    """
    if isinstance(document, ClusterDocument):
        yield from _hosts(document, ())
        return
    yield from _hosts(document.cluster, ("cluster",))
    for t, tenant in enumerate(document.tenants):
        for field in ("quota", "guarantee"):
            gpus = getattr(tenant, field).get("gpu", 0)
            if 0 < gpus < WHOLE_GPU:
                yield _line(("tenants", t, field, "gpu"), gpus, "less than one GPU")
    for j, job in enumerate(document.jobs):
        for o, option in enumerate(job.options):
            for g, group in enumerate(option.groups):
                if 0 < group.gpu < LEAST_GPU:
                    path = ("jobs", j, "options", o, "groups", g, "gpu")
                    yield _line(path, group.gpu, f"less than {LEAST_GPU / WHOLE_GPU} of a GPU")


def _hosts(cluster: ClusterDocument, at: tuple[str, ...]) -> Iterator[str]:
    for h, host in enumerate(cluster.hosts):
        if (host.cpu or 0) > MOST_CORES * _MILLI:
            yield _line((*at, "hosts", h, "cpu"), host.cpu or 0, f"more than {MOST_CORES:,} cores")


def _line(path: tuple[str | int, ...], thousandths: int, what: str) -> str:
    return f"{path_text(path)}: {whole_units(thousandths)}: {what}; is the unit meant?"
