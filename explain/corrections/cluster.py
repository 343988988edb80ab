"""Changes that others than the owner of a job can make, and what time brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from placewright.explain.corrections.change import Amounts, Change, Form, Names, Step, edit_of
from placewright.instances.derived.durations import duration
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import expected_end
from placewright.instances.documents.edits import Edit
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.quantities import amount_text, write_amount
from placewright.instances.documents.round import Round

MAX_NAMES = 3
"""Hosts or jobs of a change that its text names."""

_UNITS = {"gpu": (1000, 50), "cpu": (1000, 1000), "memory": (1024, 1024)}
"""Steps of a quota: where whole units are asked, and else."""


def cluster_changes(round_: Round, job: Job, started: Sequence[str] = ()) -> Iterator[Change]:
    """Yield what would let a pending job start without changing what it asks.

    Parameters
    ----------
    started
        Names of jobs that a plan starts: they could give way.
    """
    yield from _quotas(round_, job)
    yield from _hosts_back(round_)
    yield from _ends(round_, set(started))
    if started:
        priority = {one.name: one.priority for one in round_.jobs}
        yield Names(
            "give_way",
            tuple(sorted(started, key=priority.__getitem__)),
            lambda names: f"without the start of {some(names, 'job')}",
            lambda names: (edit_of(remove=list(names)),),
        )
    yield from _data(round_, job)


def _quotas(round_: Round, job: Job) -> Iterator[Change]:
    tenant = next((one for one in round_.tenants if one.name == job.tenant), None)
    if tenant is None:
        return
    running = [
        one.options[one.running.option]
        for one in round_.jobs
        if one.running is not None and one.tenant == job.tenant
    ]
    for resource, limit in tenant.quota.items():
        asked = max(_asked(option, resource) for option in job.options)
        excess = asked + sum(_asked(option, resource) for option in running) - limit
        if excess <= 0:
            continue
        whole, part = _UNITS.get(resource, (1, 1))
        yield _more_quota(tenant.name, resource, excess, whole if asked % whole == 0 else part)


def _more_quota(tenant: str, resource: str, excess: int, unit: int) -> Amounts:
    """Return the change by which a tenant may hold more of a resource, by units."""

    def text(units: int) -> str:
        return f"{amount_text(resource, units * unit)} more of quota for {tenant}"

    def edits(units: int) -> tuple[Edit, ...]:
        more = {resource: write_amount(resource, units * unit)}
        return (edit_of(quota={tenant: {"more": more}}),)

    return Amounts("quota", -(-excess // unit), text, edits)


def _asked(option: Option, resource: str) -> int:
    """Return how much of a resource an option asks in all."""
    if resource == "gpu":
        return option.milli_gpu
    amounts = ((g.count, {"cpu": g.cpu, "memory": g.memory, **g.resources}) for g in option.groups)
    return sum(count * asked.get(resource, 0) for count, asked in amounts)


def _hosts_back(round_: Round) -> Iterator[Change]:
    reserved = _expanded(one.host for one in round_.reservations)
    if reserved:
        yield Names("release", reserved, lambda n: f"release {some(n, 'host')}", _edits("release"))
    vacated = _expanded(round_.policy.vacate)
    if vacated:
        text = "keep using {}".format
        yield Names("keep_using", vacated, lambda n: text(some(n, "host")), _edits("restore"))
    away = _expanded(entry.name for entry in round_.cluster.hosts if not entry.healthy)
    if away:
        yield Names("repair", away, lambda n: f"repair {some(n, 'host')}", _edits("restore"))


def _edits(verb: str) -> Callable[[Sequence[str]], tuple[Edit, ...]]:
    return lambda names: (edit_of(**{verb: list(names)}),)


def _ends(round_: Round, taken: set[str]) -> Iterator[Change]:
    """Yield the time when running jobs are expected to end, and the end of all others."""
    now = round_.now
    running = [one for one in round_.jobs if one.running is not None and one.name not in taken]
    ends = {one.name: expected_end(one, now) for one in running}
    known = sorted({end for end in ends.values() if end is not None and end > now})
    if known:

        def text(index: int) -> str:
            at = known[index - 1]
            ended = [name for name, end in ends.items() if end is not None and end <= at]
            return f"in {duration(at - now)}, once {_ended(ended)}"

        yield Amounts("time", len(known), text, lambda i: (edit_of(at=known[i - 1]),))
    others = tuple(name for name, end in ends.items() if end is None)
    if others:
        yield Names("ended", others, lambda n: f"once {_ended(n)}", _edits("end"))


def _data(round_: Round, job: Job) -> Iterator[Change]:
    """Yield further replicas of what a job reads."""
    if "geo" not in round_.policy.spec.sections:
        return
    regions = [one.name for one in round_.geo.regions]
    for dataset in round_.geo.datasets:
        if all(read.dataset != dataset.name for read in job.reads):
            continue
        for region in regions if dataset.regions is None else dataset.regions:
            if region in dataset.replicas or region not in (job.regions or regions):
                continue
            edit = edit_of(replicate={"dataset": dataset.name, "regions": [region]})
            form = Form(f"copy {dataset.name} to region {region}", (edit,))
            yield Step("replicate", form)


def _expanded(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for name in names for host in expand(name)))


def _ended(names: Sequence[str]) -> str:
    return f"{some(names, 'job')} {'has' if len(names) == 1 else 'have'} ended"


def some(names: Sequence[str], noun: str) -> str:
    """Write the first names, and how many there are of several: `job old`, `4 jobs (a, b, ...)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    shown = ", ".join(names[:MAX_NAMES])
    return f"{len(names):,} {noun}s ({shown}{', ...' if len(names) > MAX_NAMES else ''})"
