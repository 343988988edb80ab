"""Edits as sentences: what each of them changes, in plain English."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from placewright.instances.derived import ranges
from placewright.instances.derived.phrases import (
    count,
    linked,
    of_hosts,
    plural,
    several,
    span,
)
from placewright.instances.documents.arrangement import GpuLinkRequest
from placewright.instances.documents.edits import (
    AddEdit,
    CapEdit,
    Edit,
    GpuLinksEdit,
    JobEdit,
    LimitsEdit,
    PoolEdit,
    QuotaEdit,
    ReplicateEdit,
)
from placewright.instances.documents.job import Job
from placewright.instances.documents.quantities import amount_text


def sentence_of(edit: Edit) -> str:
    """Return an edit as one sentence: `Host b0 fails.`."""
    return f"{_TEXTS[edit.verb](edit.value)}."


def _hosts(one: str, many: str) -> Callable[[Sequence[str]], str]:
    """Return what says something of hosts, of one or of many."""

    def text(names: Sequence[str]) -> str:
        single = len(names) == 1 and ranges.size(names[0]) == 1
        noun, says = ("Host", one) if single else ("Hosts", many)
        return f"{noun} {several(names)} {says}"

    return text


def _jobs(one: str, many: str) -> Callable[[Sequence[str]], str]:
    def text(names: Sequence[str]) -> str:
        noun, says = ("Job", one) if len(names) == 1 else ("Jobs", many)
        return f"{noun} {several(names)} {says}"

    return text


def _add(edit: AddEdit) -> str:
    if edit.like is not None:
        copies = "A copy" if edit.count == 1 else f"{edit.count} copies"
        return f"{copies} of {edit.like} {'is' if edit.count == 1 else 'are'} added"
    parts = [
        f"{noun if len(names) == 1 else plural(noun)} {several(names)}"
        for noun, names in (
            ("domain", [one.name for one in edit.domains]),
            ("host", [one.name for one in edit.hosts]),
        )
        if names
    ]
    text = " and ".join(parts)
    many = len(edit.domains) + len(edit.hosts) > 1 or any(
        ranges.size(one.name) > 1 for one in edit.hosts
    )
    return f"{text[0].upper()}{text[1:]} {'are' if many else 'is'} added"


def _gpu_links(edit: GpuLinksEdit) -> str:
    name = edit.to if isinstance(edit.to, str) else edit.to.name
    return f"GPUs of {several(edit.hosts)} are joined as in {name}"


def _quota(edits: Mapping[str, QuotaEdit]) -> str:
    return "; ".join(
        f"tenant {name} {said}" if i else f"Tenant {name} {said}"
        for i, (name, edit) in enumerate(edits.items())
        for said in [", ".join(_quota_of_tenant(edit)) or "keeps its quota"]
    )


def _quota_of_tenant(edit: QuotaEdit) -> Iterator[str]:
    for resource, amount in edit.to.items():
        yield f"may hold {amount_text(resource, amount)}"
    for resource, amount in edit.more.items():
        yield f"may hold {amount_text(resource, amount)} more"
    for resource, amount in edit.less.items():
        yield f"may hold {amount_text(resource, amount)} less"
    for resource in edit.without:
        yield f"has no quota of {resource}"
    for region, amount in edit.in_regions.items():
        yield f"may hold {amount_text('gpu', amount)} in region {region}"


def _cap(edits: Mapping[str, CapEdit]) -> str:
    return "; ".join(
        f"cap {name} {said}" if i else f"Cap {name} {said}"
        for i, (name, edit) in enumerate(edits.items())
        for said in [", ".join(_cap_of(edit)) or "stays"]
    )


def _cap_of(edit: CapEdit) -> Iterator[str]:
    for cap, how in ((edit.to, ""), (edit.more, " more"), (edit.less, " less")):
        for measure, amount in cap.limits.items():
            yield f"allows {measure.text(amount)}{how}"
    for key in edit.without:
        yield f"no longer limits {key}"


def _pool(edits: Mapping[str, PoolEdit]) -> str:
    text = "; ".join(_pool_of(resource, edit) for resource, edit in edits.items())
    return f"{text[0].upper()}{text[1:]}"


def _pool_of(resource: str, edit: PoolEdit) -> str:
    where, has = "the cluster", "has"
    if edit.level is not None:
        where = f"each {edit.level}"
    if edit.domains:
        where = f"{edit.level} {several(edit.domains)}"
        has = "has" if len(edit.domains) == 1 else "have"
    for amount, how in ((edit.to, ""), (edit.more, " more"), (edit.less, " less")):
        if amount is not None:
            return f"{where} {has} {amount_text(resource, amount)}{how}"
    return f"{where} {has} as much {resource} as before"


def _limits(edit: LimitsEdit) -> str:
    parts = [
        f"{name} is {_limit(name, getattr(edit.to, name))}"
        for name in sorted(edit.to.model_fields_set)
        if getattr(edit.to, name) is not None
    ]
    parts += [f"{name} is no longer limited" for name in edit.without]
    return f"Disruption: {', '.join(parts) or 'limits stay'}"


def _limit(name: str, value: int) -> str:
    return amount_text("gpu", value) if name == "preempted_gpus" else str(value)


def _job(edits: Mapping[str, JobEdit]) -> str:
    return "; ".join(
        f"{'job' if i else 'Job'} {name} {', '.join(_changes(edit))}"
        for i, (name, edit) in enumerate(edits.items())
    )


def _changes(edit: JobEdit) -> Iterator[str]:
    for name, text in _FIELDS.items():
        if name in edit.model_fields_set and getattr(edit, name) not in (None, (), {}):
            yield text(getattr(edit, name))
    for name in edit.without:
        yield f"asks no {_WITHOUT[name]}"
    chosen = [
        f"{what} {number}"
        for what, number in (("option", edit.option), ("group", edit.group))
        if number is not None
    ]
    if chosen:
        yield f"in {' and '.join(chosen)} alone"


def _seconds(later: int) -> str:
    return f"is due {span(abs(later))} {'later' if later >= 0 else 'earlier'}"


def _resources(amounts: Mapping[str, int]) -> str:
    return f"asks {' and '.join(amount_text(*one) for one in amounts.items())} per task"


def _asks(resource: str) -> Callable[[int], str]:
    return lambda amount: f"asks {amount_text(resource, amount)} per task"


_FIELDS: Mapping[str, Callable[[Any], str]] = {
    "priority": lambda value: f"has priority {value}",
    "weight": lambda value: f"has weight {value}",
    "held": lambda value: "is held" if value else "is no longer held",
    "not_before": lambda at: f"does not start before {at}",
    "expected_runtime_s": lambda seconds: f"runs for {span(seconds)}",
    "anti_affinity": lambda one: f"keeps out of each {one.level} of label {one.label}",
    "due": lambda due: f"is due at {several([str(one.at) for one in due])}",
    "due_later_s": _seconds,
    "regions": lambda names: f"may run in {several(names)}",
    "add_regions": lambda names: f"may also run in {several(names)}",
    "remote": lambda value: (
        "may read its data from other regions" if value else "reads its data only where it runs"
    ),
    "only": lambda option: f"has option {option} only",
    "count": lambda tasks: f"has {count(tasks, 'task')}",
    "gpu": _asks("gpu"),
    "cpu": _asks("cpu"),
    "memory": _asks("memory"),
    "gpu_memory": lambda mib: f"uses {amount_text('memory', mib)} of each GPU",
    "resources": _resources,
    "gpu_models": lambda names: f"runs on {several(names)}",
    "add_gpu_models": lambda names: f"also runs on {several(names)}",
    "hosts": lambda names: f"runs on hosts {several(names)}",
    "host_sets": lambda names: f"runs in {_host_sets(names)}",
    "drop_host_sets": lambda names: f"also runs outside {_host_sets(names)}",
    "required": lambda level: f"needs one {level} for the tasks of a group",
    "joint_required": lambda level: f"needs one {level} for all its tasks",
    "slices": lambda one: f"needs one {one.required} for each {one.size} tasks",
    "apart": lambda one: f"has at most {one.most} tasks in one {one.level}",
    "gpu_links": lambda asked: f"asks for {_links(asked) or 'links between GPUs'}",
    "num_hosts": lambda number: f"runs on {of_hosts(number)}",
}
_WITHOUT: Mapping[str, str] = {
    "required": "common domain for the tasks of a group",
    "joint_required": "common domain for all its tasks",
    "slices": "slices",
    "apart": "tasks apart",
    "gpu_links": "links between GPUs",
    "num_hosts": "particular number of hosts",
    "anti_affinity": "distance from other jobs",
    "gpu_models": "particular GPU model",
    "hosts": "particular hosts",
    "host_sets": "particular host set",
    "due": "due time",
    "regions": "particular region",
    "not_before": "later start",
    "expected_runtime_s": "end of its run",
    "slowdown": "limit of its slowdown",
    "load": "load that peaks apart from others'",
    "conflicts": "GPU without the jobs that it conflicts with",
}


def _host_sets(names: Sequence[str]) -> str:
    return f"host {'set' if len(names) == 1 else 'sets'} {several(names)}"


def _links(asked: GpuLinkRequest) -> str:
    fields = (name for name in type(asked).model_fields if name in asked.model_fields_set)
    return " and ".join(linked(name, getattr(asked, name)) for name in fields)


def _submit(jobs: Sequence[Job]) -> str:
    return _jobs("is submitted", "are submitted")([one.name for one in jobs])


def _replicate(edit: ReplicateEdit) -> str:
    return f"Dataset {edit.dataset} has replicas in {several(edit.regions)}, too"


_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "drain": _hosts("is drained", "are drained"),
    "fail": _hosts("fails", "fail"),
    "restore": _hosts("is back", "are back"),
    "release": _hosts("is no longer reserved", "are no longer reserved"),
    "add": _add,
    "gpu_links": _gpu_links,
    "quota": _quota,
    "cap": _cap,
    "pool": _pool,
    "limits": _limits,
    "job": _job,
    "remove": _jobs("is removed", "are removed"),
    "end": _jobs("has ended", "have ended"),
    "submit": _submit,
    "replicate": _replicate,
    "at": lambda now: f"The clock is at {now}",
    "advance_s": lambda seconds: f"The clock is {span(seconds)} later",
}
