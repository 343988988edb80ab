"""What a job asks: of all its options and task groups each distinct statement once.

In the order of preference: amounts, tasks, GPU models, hosts, host sets, levels from the outermost
inwards, slices, apart, links between GPUs, numbers of hosts, label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from placewright.explain.facts.fact import Edit, Fact, Stratum, edit_job, named
from placewright.instances.derived.phrases import joined_by, of_hosts, several
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.topology.units import HOST_LEVEL

_NO_GPU = {"gpu": 0, "gpu_memory": 0, "mig": None, "communication": None, "gpu_links": None}
_ONE_TASK = dict.fromkeys(("slices", "apart", "num_hosts", "communication")) | {"count": 1}
T = TypeVar("T")


def asks(round_: Round, name: str) -> list[Fact]:
    """Return what a pending job asks, in the order of preference."""
    job = named(name, round_)
    groups = tuple(group for option in job.options for group in option.groups)
    levels = (*round_.cluster.levels, HOST_LEVEL)
    return [
        *_gpus(name, groups),
        *_amounts(name, groups),
        *_uses(job),
        *_tasks(name, groups),
        *_places(name, groups),
        *_host_sets(name, groups),
        *_levels(job, levels),
        *_arrangement(name, groups),
        *_num_hosts(job, groups),
        *_label(job),
    ]


def _fact(kind: str, text: str, edit: Edit, **about: Any) -> Fact:
    return Fact(Stratum.ASKS, kind, text, edit, about)


def _edit_groups(
    name: str, holds: Callable[[TaskGroup], bool], change: Callable[[TaskGroup], dict[str, Any]]
) -> Edit:
    """Return the edit that changes the task groups of a job of which a statement holds."""

    def of_group(group: TaskGroup) -> TaskGroup:
        return group.model_copy(update=change(group)) if holds(group) else group

    def of_option(option: Option) -> Option:
        changed, hosts = tuple(map(of_group, option.groups)), option.hosts
        if hosts is not None:
            least = min(hosts.min, sum(group.count for group in changed))
            hosts = hosts.model_copy(update={"min": least})
        return option.model_copy(update={"groups": changed, "hosts": hosts})

    def of_job(job: Job) -> Job:
        return job.model_copy(update={"options": tuple(map(of_option, job.options))})

    return edit_job(name, of_job)


def _edit_field(name: str, field: str, value: Any, update: dict[str, Any]) -> Edit:
    """Return the edit that updates the task groups of a job in which a field has some value."""
    return _edit_groups(name, lambda g: bool(getattr(g, field) == value), lambda _: update)


def _distinct(values: Iterable[T | None]) -> list[T]:
    """Return each value once, in order, without those that ask nothing."""
    return [value for value in dict.fromkeys(values) if value]


def _gpus(name: str, groups: Sequence[TaskGroup]) -> Iterator[Fact]:
    for amount in _distinct(g.gpu for g in groups if g.mig is None):

        def holds(group: TaskGroup, amount: int = amount) -> bool:
            return group.mig is None and group.gpu == amount

        edit = _edit_groups(name, holds, lambda _: _NO_GPU)
        yield _fact("gpu", f"{amount_text('gpu', amount)} per task", edit, amount=amount)
    for profile in _distinct(g.mig for g in groups):
        edit = _edit_field(name, "mig", profile, _NO_GPU)
        yield _fact("mig", f"a MIG slice {profile} per task", edit, profile=profile)
    for amount in _distinct(g.gpu_memory for g in groups):
        text = f"{amount_text('memory', amount)} on each GPU"
        edit = _edit_field(name, "gpu_memory", amount, {"gpu_memory": 0})
        yield _fact("gpu_memory", text, edit, amount=amount)


def _amounts(name: str, groups: Sequence[TaskGroup]) -> Iterator[Fact]:
    """Yield the cores, memory and other resources that a task asks."""
    for field in ("cpu", "memory"):
        for amount in _distinct(getattr(g, field) for g in groups):
            edit = _edit_field(name, field, amount, {field: 0})
            yield _fact(field, f"{amount_text(field, amount)} per task", edit, amount=amount)
    for resource, amount in _distinct(pair for g in groups for pair in g.resources.items()):
        if not amount:
            continue

        def holds(group: TaskGroup, resource: str = resource, amount: int = amount) -> bool:
            return group.resources.get(resource) == amount

        def change(group: TaskGroup, resource: str = resource) -> dict[str, Any]:
            left = {name: a for name, a in group.resources.items() if name != resource}
            return {"resources": left}

        yield _fact(
            "resource",
            f"{amount_text(resource, amount)} per task",
            _edit_groups(name, holds, change),
            resource=resource,
            amount=amount,
        )


def _uses(job: Job) -> Iterator[Fact]:
    """Yield what the job uses of pools, or counts in caps, whatever its tasks ask."""
    for resource, amount in _distinct(pair for o in job.options for pair in o.uses.items()):
        if not amount:
            continue

        def of_option(option: Option, resource: str = resource, amount: int = amount) -> Option:
            left = {n: a for n, a in option.uses.items() if (n, a) != (resource, amount)}
            return option.model_copy(update={"uses": left})

        def of_job(one: Job, change: Callable[[Option], Option] = of_option) -> Job:
            return one.model_copy(update={"options": tuple(map(change, one.options))})

        yield _fact(
            "uses",
            amount_text(resource, amount) + ("" if "@" in resource else " wherever it has tasks"),
            edit_job(job.name, of_job),
            resource=resource,
            amount=amount,
        )


def _tasks(name: str, groups: Sequence[TaskGroup]) -> Iterator[Fact]:
    for count in _distinct(g.count for g in groups if g.count > 1):
        edit = _edit_field(name, "count", count, _ONE_TASK)
        yield _fact("count", f"all {count:,} tasks start together", edit, count=count)


def _places(name: str, groups: Sequence[TaskGroup]) -> Iterator[Fact]:
    for field in ("gpu_models", "hosts"):
        for names in _distinct(getattr(g, field) for g in groups):
            edit = _edit_field(name, field, names, {field: None})
            yield _fact(
                field, f"on {several(names, conjunction='or')} only", edit, names=list(names)
            )


def _host_sets(name: str, groups: Sequence[TaskGroup]) -> Iterator[Fact]:
    for host_set in dict.fromkeys(one for g in groups for one in g.host_sets):

        def holds(group: TaskGroup, host_set: str = host_set) -> bool:
            return host_set in group.host_sets

        def change(group: TaskGroup, host_set: str = host_set) -> dict[str, Any]:
            return {"host_sets": tuple(one for one in group.host_sets if one != host_set)}

        edit = _edit_groups(name, holds, change)
        yield _fact("host_set", f"on hosts of host set {host_set} only", edit, host_set=host_set)


def _levels(job: Job, levels: Sequence[str]) -> Iterator[Fact]:
    """Yield the levels whose domains hold all tasks of a group, and all groups of an option.

    Tasks in one rack are in one block, too: whoever takes the rack away leaves the block.
    """
    of_groups = [g.required for option in job.options for g in option.groups]
    of_options = [option.required for option in job.options]
    for whole, asked in ((False, of_groups), (True, of_options)):
        inner = max((levels.index(level) for level in asked if level is not None), default=-1)
        for depth in range(inner + 1):
            level = levels[depth]
            wider = levels[depth - 1] if depth else None
            edit = _widen(job.name, level, wider, whole=whole)
            what = "all groups" if whole else "tasks of a group"
            where = "on" if level == HOST_LEVEL else "in"
            kind = "all_required" if whole else "required"
            yield _fact(kind, f"{what} lie {where} one {level}", edit, level=level)


def _widen(name: str, level: str, wider: str | None, *, whole: bool) -> Edit:
    if not whole:
        return _edit_field(name, "required", level, {"required": wider})

    def of_option(option: Option) -> Option:
        return option.model_copy(update={"required": wider}) if option.required == level else option

    return edit_job(
        name,
        lambda job: job.model_copy(update={"options": tuple(map(of_option, job.options))}),
    )


def _arrangement(name: str, groups: Sequence[TaskGroup]) -> Iterator[Fact]:
    for size, level in _distinct((g.slices.size, g.slices.required) for g in groups if g.slices):

        def in_slices(group: TaskGroup, asked: tuple[int, str] = (size, level)) -> bool:
            return group.slices is not None and (group.slices.size, group.slices.required) == asked

        edit = _edit_groups(name, in_slices, lambda _: {"slices": None})
        text = f"each {size:,} tasks in turn lie in one {level}"
        yield _fact("slices", text, edit, size=size, level=level)
    for most, level in _distinct((g.apart.most, g.apart.level) for g in groups if g.apart):

        def is_apart(group: TaskGroup, asked: tuple[int, str] = (most, level)) -> bool:
            return group.apart is not None and (group.apart.most, group.apart.level) == asked

        edit = _edit_groups(name, is_apart, lambda _: {"apart": None})
        tasks = "1 task" if most == 1 else f"{most:,} tasks"
        text = f"at most {tasks} of a group on one {level}"
        yield _fact("apart", text, edit, most=most, level=level)
    for links in _distinct(group.gpu_links for group in groups):
        if links.is_required:
            edit = _edit_field(name, "gpu_links", links, {"gpu_links": None})
            about = links.model_dump(exclude={"measure"}, exclude_none=True)
            yield _fact("gpu_links", f"GPUs of a task are {joined_by(links)}", edit, **about)


def _num_hosts(job: Job, groups: Sequence[TaskGroup]) -> Iterator[Fact]:
    for number in _distinct(group.num_hosts for group in groups):
        edit = _edit_field(job.name, "num_hosts", number, {"num_hosts": None})
        about = number.model_dump(exclude_none=True)
        yield _fact("num_hosts", f"tasks of a group lie on {of_hosts(number)}", edit, **about)
    for number in _distinct(option.hosts for option in job.options):

        def of_option(option: Option, number: HostCount = number) -> Option:
            same = option.hosts == number
            return option.model_copy(update={"hosts": None}) if same else option

        def of_job(one: Job, change: Callable[[Option], Option] = of_option) -> Job:
            return one.model_copy(update={"options": tuple(map(change, one.options))})

        about = number.model_dump(exclude_none=True)
        text = f"all tasks lie on {of_hosts(number)}"
        yield _fact("num_hosts", text, edit_job(job.name, of_job), **about)


def _label(job: Job) -> Iterator[Fact]:
    rule = job.anti_affinity
    if rule is not None:
        edit = edit_job(job.name, lambda one: one.model_copy(update={"anti_affinity": None}))
        text = f"keeps out of every {rule.level} with a job labelled {rule.label}"
        yield _fact("label", text, edit, label=rule.label, level=rule.level)
