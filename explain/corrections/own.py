"""Changes that the owner of a job can make: to ask less, or to ask it elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from placewright.explain.corrections.change import (
    Amounts,
    Change,
    Failed,
    Form,
    Step,
    each,
    edit_of,
)
from placewright.instances.derived.hardware import hardware, links_of_hosts
from placewright.instances.derived.phrases import count, duration, linked, plural, span
from placewright.instances.documents.arrangement import GpuLinkRequest, HostCount
from placewright.instances.documents.edits import Edit
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.quantities import amount_text, write_amount
from placewright.instances.documents.round import Round
from placewright.topology.gpu_links import LINK_KINDS, Joined, link_kind
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

T = TypeVar("T")
Where = tuple[int, int]
"""A task group: index of the option, and in it."""

_UNITS = {"gpu": (1000, 50), "cpu": (1000, 100), "memory": (1024, 64), "gpu_memory": (1024, 64)}
"""By how much less is asked: of more than the first amount by it, of others by the second.

Who asks whole GPUs is not offered parts of one.
"""


def own_changes(round_: Round, job: Job, failed: Failed | None = None) -> Iterator[Change]:
    """Return what the owner of a pending job could do, in the order of application."""
    groups = {
        (o, g): group
        for o, option in enumerate(job.options)
        for g, group in enumerate(option.groups)
    }
    sources = (
        _elsewhere(round_, job, groups),
        _levels(round_, job, groups),
        _num_hosts(job, groups),
        _arrangement(job, groups),
        *(_links(round_, job, groups, asked) for asked in _asked_links(groups)),
        *(_less(job, groups, field) for field in ("cpu", "memory", "gpu_memory", "gpu")),
        _fewer_tasks(job, groups),
        _sooner(job),
        _later_due(round_, job),
        shorter_runs(round_, job, (one.start for one in round_.maintenance)),
        _other_regions(round_, job),
        _turns(round_, job),
    )
    return each(sources, failed)


def _step(kind: str, text: str, *edits: Edit) -> Step:
    return Step(kind, Form(text, edits))


def _of(job: Job, where: Where | None = None, **change: Any) -> Edit:
    """Return the edit of a job, in one task group or in all."""
    chosen = {} if where is None else {"option": where[0], "group": where[1]}
    return edit_of(job={job.name: {**chosen, **change}})


def _same(groups: dict[Where, TaskGroup], of: Callable[[TaskGroup], T]) -> dict[T, list[Where]]:
    """Return the task groups by what they ask, in order."""
    found: dict[T, list[Where]] = {}
    for where, group in groups.items():
        found.setdefault(of(group), []).append(where)
    return found


def _elsewhere(round_: Round, job: Job, groups: dict[Where, TaskGroup]) -> Iterator[Change]:
    models = dict.fromkeys(hardware(entry).gpu_model for entry in round_.cluster.hosts)
    asked = [set(group.gpu_models) for group in groups.values() if group.gpu_models is not None]
    # A cap of GPUs of a model has to know what a task group counts: it may have no other model.
    capped = {model for name in job.caps for model in round_.caps[name].gpus_by_model}
    for model in filter(None, models):
        known = all(capped.isdisjoint({model, *allowed}) for allowed in asked)
        if known and any(model not in allowed for allowed in asked):
            yield _step("models", f"allow {model}, too", _of(job, add_gpu_models=[model]))
    if any(group.hosts is not None for group in groups.values()):
        yield _step("any_host", "allow any host", _of(job, without=["hosts"]))
    for name in dict.fromkeys(name for group in groups.values() for name in group.host_sets):
        text = f"allow hosts outside of host set {name}, too"
        yield _step("any_host", text, _of(job, drop_host_sets=[name]))


def _levels(round_: Round, job: Job, groups: dict[Where, TaskGroup]) -> Iterator[Change]:
    """Yield each wider level, and none at all: applied last, since it is the widest."""
    order = (*round_.cluster.levels, HOST_LEVEL)
    of_groups = _same(groups, lambda group: group.required)
    for level, places in of_groups.items():
        if level is None:
            continue
        text = f"allow tasks of a group {_in_several(level)}"
        for wider in reversed(order[: order.index(level)]):
            edits = [_of(job, where, required=wider) for where in places]
            yield _step("level", f"{text} of one {wider}", *edits)
        edits = [_of(job, where, without=["required"]) for where in places]
        yield _step("level", text, *edits)
    for level in dict.fromkeys(option.required for option in job.options):
        if level is None:
            continue
        text = f"allow its groups {_in_several(level)}"
        indices = [o for o, option in enumerate(job.options) if option.required == level]
        for wider in reversed(order[: order.index(level)]):
            edits = [_of_option(job, o, joint_required=wider) for o in indices]
            yield _step("level", f"{text} of one {wider}", *edits)
        edits = [_of_option(job, o, without=["joint_required"]) for o in indices]
        yield _step("level", text, *edits)


def _in_several(level: str) -> str:
    return f"{'on' if level == HOST_LEVEL else 'in'} several {plural(level)}"


def _of_option(job: Job, option: int, **change: Any) -> Edit:
    return edit_of(job={job.name: {"option": option, **change}})


def _arrangement(job: Job, groups: dict[Where, TaskGroup]) -> Iterator[Change]:
    if any(group.slices is not None for group in groups.values()):
        yield _step("slices", "ask no slices", _of(job, without=["slices"]))
    if any(group.apart is not None for group in groups.values()):
        yield _step("apart", "do not keep its tasks apart", _of(job, without=["apart"]))
    if job.anti_affinity is not None:
        text = f"drop its label {job.anti_affinity.label}"
        yield _step("label", text, _of(job, without=["anti_affinity"]))


def _asked_links(groups: dict[Where, TaskGroup]) -> Iterator[GpuLinkRequest]:
    asked = dict.fromkeys(group.gpu_links for group in groups.values())
    return (one for one in asked if one is not None and one.is_required)


def _links(
    round_: Round, job: Job, groups: dict[Where, TaskGroup], asked: GpuLinkRequest
) -> Iterator[Change]:
    """Yield worse kinds of links that hosts have, narrower ones, fewer of them, and any GPUs."""
    places = [where for where, group in groups.items() if group.gpu_links == asked]
    links = [one for one in links_of_hosts(round_.cluster) if one is not None]
    kinds = {link_kind(kind) for one in links for row in one.kind for kind in row}
    widths = {mbps for one in links for row in one.mbps for mbps in row if mbps}
    required, width = asked.required, asked.at_least_mbps
    shapes: tuple[Joined, ...] = ("all", "ring", "path")
    ways: dict[str, list[Any]] = {}
    if required is not None:
        worse = LINK_KINDS[: LINK_KINDS.index(required)]
        ways["required"] = [kind for kind in reversed(worse) if kind in kinds]
    if width is not None:
        ways["at_least_mbps"] = sorted((one for one in widths if one < width), reverse=True)
    if any(groups[where].gpu > 2 * WHOLE_GPU for where in places):
        ways["joined"] = [*shapes[shapes.index(asked.joined) + 1 :]]
    for field, weaker in ways.items():
        if weaker:
            yield _weaker_links(job, places, field, weaker)
    edits = [_of(job, one, gpu_links={"required": None, "at_least_mbps": None}) for one in places]
    yield _step("gpu_links", "accept any GPUs of a host, however they are joined", *edits)


def _weaker_links(job: Job, places: Sequence[Where], field: str, weaker: Sequence[Any]) -> Amounts:
    """Return the change by which one field of what groups ask of links is weaker."""

    def text(step: int) -> str:
        return f"accept {linked(field, weaker[step - 1])}"

    def edits(step: int) -> tuple[Edit, ...]:
        return tuple(_of(job, where, gpu_links={field: weaker[step - 1]}) for where in places)

    return Amounts("gpu_links", len(weaker), text, edits)


def _num_hosts(job: Job, groups: dict[Where, TaskGroup]) -> Iterator[Change]:
    """Yield more hosts than at most, and fewer than at least."""
    asks: list[tuple[HostCount | None, int, dict[str, int]]] = [
        (option.hosts, sum(group.count for group in option.groups), {"option": o})
        for o, option in enumerate(job.options)
    ]
    asks += [
        (group.num_hosts, group.count, {"option": o, "group": g})
        for (o, g), group in groups.items()
    ]
    for asked in dict.fromkeys(number for number, _, _ in asks if number is not None):
        places = [where for number, _, where in asks if number == asked]
        tasks = max(count for number, count, _ in asks if number == asked)
        yield from _other_numbers(job, asked, tasks, places)


def _other_numbers(
    job: Job, asked: HostCount, tasks: int, places: Sequence[Mapping[str, int]]
) -> Iterator[Change]:
    def edits(**change: int | None) -> tuple[Edit, ...]:
        return tuple(edit_of(job={job.name: {**one, "num_hosts": change}}) for one in places)

    if asked.max is not None and asked.max < tasks:
        most = asked.max
        yield Amounts(
            "num_hosts",
            tasks - most,
            lambda more: f"allow up to {most + more:,} hosts",
            lambda more: edits(max=most + more),
        )
    if asked.min > 1:
        yield Amounts(
            "num_hosts",
            asked.min - 1,
            lambda fewer: f"allow as few as {count(asked.min - fewer, 'host')}",
            lambda fewer: edits(min=asked.min - fewer),
        )


def _less(job: Job, groups: dict[Where, TaskGroup], field: str) -> Iterator[Change]:
    """Yield less of a resource per task: down to one unit, not to nothing."""

    def is_ring(where: Where) -> bool:
        links = groups[where].gpu_links
        return links is not None and links.is_required and links.joined == "ring"

    able = {w: g for w, g in groups.items() if not (field.startswith("gpu") and g.mig is not None)}
    for amount, places in _same(able, lambda group: int(getattr(group, field))).items():
        whole, part = _UNITS[field]
        is_whole = amount > whole or (field == "gpu" and amount == whole)
        unit = whole if is_whole else part
        if amount > unit:
            change = _less_of(job, field, places, amount, unit)
            # GPUs in a ring of four links have no ring of three.
            yield replace(change, monotone=field != "gpu" or not any(map(is_ring, places)))


def _less_of(job: Job, field: str, places: Sequence[Where], amount: int, unit: int) -> Amounts:
    """Return the change by which some groups ask less of a resource, by units."""
    on_gpus = field == "gpu_memory"
    resource = "memory" if on_gpus else field

    def text(units: int) -> str:
        left = amount_text(resource, amount - units * unit).partition(" ")[0]
        per = "on each GPU" if on_gpus else "per task"
        return f"ask {left} instead of {amount_text(resource, amount)} {per}"

    def edits(units: int) -> tuple[Edit, ...]:
        left = write_amount(resource, amount - units * unit)
        return tuple(_of(job, where, **{field: left}) for where in places)

    def left(units: int) -> float:
        return 1 - units * unit / amount

    return Amounts(resource, (amount - 1) // unit, text, edits, left)


def _fewer_tasks(job: Job, groups: dict[Where, TaskGroup]) -> Iterator[Change]:
    alone = {o: option.hosts for o, option in enumerate(job.options) if len(option.groups) == 1}
    found: dict[tuple[int, int, int], list[Where]] = {}
    for (o, g), group in groups.items():
        numbers = (one for one in (group.num_hosts, alone.get(o)) if one is not None)
        hosts = max((one.min for one in numbers), default=1)
        size = 1 if group.slices is None else group.slices.size
        found.setdefault((group.count, size, hosts), []).append((o, g))
    for (tasks, size, hosts), places in found.items():
        if tasks > size and tasks - hosts >= size:
            yield _fewer_of(job, places, tasks, size, hosts)


def _fewer_of(job: Job, places: Sequence[Where], tasks: int, size: int, hosts: int) -> Amounts:
    """Return the change by which some groups have fewer tasks, by slices if they have any.

    They have as many as the `hosts` on which they are at least.
    """

    def text(slices: int) -> str:
        return f"ask {tasks - slices * size:,} instead of {count(tasks, 'task')}"

    def edits(slices: int) -> tuple[Edit, ...]:
        return tuple(_of(job, where, count=tasks - slices * size) for where in places)

    def left(slices: int) -> float:
        return 1 - slices * size / tasks

    return Amounts("tasks", (tasks - hosts) // size, text, edits, left)


def _sooner(job: Job) -> Iterator[Change]:
    if job.held:
        yield _step("resume", "resume it", _of(job, held=False))
    if job.not_before is not None:
        yield _step("resume", "let it start at once", _of(job, without=["not_before"]))


def _later_due(round_: Round, job: Job) -> Iterator[Change]:
    """Yield later due times, by lengths of a lease up to the horizon."""
    if job.deadline is None or not job.deadline.due:
        return
    length, horizon = round_.leases.length_s, round_.leases.horizon
    yield Amounts(
        "due",
        horizon,
        lambda leases: f"make it due {span(leases * length)} later",
        lambda leases: (_of(job, due_later_s=leases * length),),
    )


def shorter_runs(round_: Round, job: Job, times: Iterable[int | None]) -> Iterator[Amounts]:
    """Yield shorter run times: so that the job has ended by the last of some times, or an earlier.

    Jobs that run for longer have to keep off what is taken from these times on.
    """
    now, runtime = round_.now, job.expected_runtime_s
    lengths = sorted({at - now for at in times if at is not None and at > now}, reverse=True)
    shorter = [one for one in lengths if runtime is None or one < runtime]
    if shorter:
        yield Amounts(
            "runtime",
            len(shorter),
            lambda number: f"ask for a run time of at most {duration(shorter[number - 1])}",
            lambda number: (_of(job, expected_runtime_s=shorter[number - 1]),),
            lambda number: 1.0 if runtime is None else shorter[number - 1] / runtime,
        )


def _turns(round_: Round, job: Job) -> Iterator[Change]:
    """Yield what a job could waive of those with whom it takes turns."""
    profile, sharing = job.profile, round_.sharing
    if profile is None or "sharing" not in round_.policy.spec.sections:
        return
    if profile.slowdown is not None:
        yield _step("slowdown", "allow any slowdown in a group", _of(job, without=["slowdown"]))
    if profile.load and sharing.correlation is not None:
        text = "allow GPUs with jobs whose load peaks with its own"
        yield _step("load", text, _of(job, without=["load"]))
    if any(job.name in pair for pair in sharing.conflicts):
        text = "allow GPUs with jobs that it conflicts with"
        yield _step("conflicts", text, _of(job, without=["conflicts"]))


def _other_regions(round_: Round, job: Job) -> Iterator[Change]:
    if "geo" not in round_.policy.spec.sections:
        return
    if any(not read.remote for read in job.reads):
        yield _step("remote", "read its data from other regions", _of(job, remote=True))
    for region in _missing(job.regions, (one.name for one in round_.geo.regions)):
        yield _step("region", f"allow region {region}, too", _of(job, add_regions=[region]))


def _missing(allowed: Sequence[str] | None, names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if allowed is not None and name not in allowed)
