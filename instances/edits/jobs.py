"""Edits of jobs: what they ask, and which there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placewright.instances.derived.source_words import check_in_round
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.edits import JobEdit
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import WHOLE_GPU

_CLEARED = ("not_before", "expected_runtime_s", "anti_affinity", "regions")
_OF_JOB = ("priority", "weight", "held", *_CLEARED)
_NO_PROFILE: Mapping[str, Any] = {"slowdown": None, "load": ()}
_OF_GROUP = (
    "count",
    "gpu",
    "cpu",
    "memory",
    "gpu_memory",
    "gpu_models",
    "hosts",
    "host_sets",
    "required",
    "slices",
    "apart",
    "gpu_links",
)


def job(round_: Round, edits: dict[str, JobEdit]) -> Round:
    """Change what jobs ask, by name."""
    of = {one.name: name for name in edits for one in check_in_round(round_, name, (name,))}
    jobs: list[Job] = []
    for one in round_.jobs:
        try:
            jobs.append(_changed(one, edits[of[one.name]]) if one.name in of else one)
        except InvalidInputError as error:
            raise error.under(of[one.name]) from None
    update: dict[str, Any] = {"jobs": tuple(jobs)}
    free = {name for name, edit in of.items() if "conflicts" in edits[edit].without}
    if free:
        left = tuple(p for p in round_.sharing.conflicts if not free.intersection(p))
        update["sharing"] = round_.sharing.model_copy(update={"conflicts": left})
    return round_.model_copy(update=update)


def remove(round_: Round, names: Sequence[str]) -> Round:
    """Take jobs away as if they had never been."""
    return round_.without_jobs(_all_called(round_, names))


def end(round_: Round, names: Sequence[str]) -> Round:
    """Take running jobs away as if they had ended."""
    known = {one.name: one for one in round_.jobs}
    for i, name in enumerate(names):
        if any(known[one].running is None for one in _all_called(round_, [name], i)):
            raise InvalidInputError("does not run; expected a running job", (i,), name)
    return round_.without_jobs(_all_called(round_, names))


def _all_called(round_: Round, names: Sequence[str], first: int = 0) -> frozenset[str]:
    """Return the jobs of some names, in the round or in its source."""
    found = (check_in_round(round_, name, (i,)) for i, name in enumerate(names, first))
    return frozenset(job.name for jobs in found for job in jobs)


def submit(round_: Round, jobs: Sequence[Job]) -> Round:
    """Add pending jobs."""
    taken = {one.name for one in round_.jobs}
    for i, one in enumerate(jobs):
        if one.name in taken:
            raise InvalidInputError(
                "job exists already; expected a new name", (i, "name"), one.name
            )
        if one.running is not None:
            raise InvalidInputError("given; expected a pending job", (i, "running"))
        taken.add(one.name)
    return round_.model_copy(update={"jobs": (*round_.jobs, *jobs)})


def _changed(one: Job, edit: JobEdit) -> Job:
    update: dict[str, Any] = {
        name: getattr(edit, name) for name in _OF_JOB if getattr(edit, name) is not None
    }
    for name in _CLEARED:
        if name in edit.without:
            update[name] = None
    if edit.add_regions and one.regions is not None:
        update["regions"] = tuple(dict.fromkeys((*one.regions, *edit.add_regions)))
    if edit.remote is not None:
        update["reads"] = tuple(r.model_copy(update={"remote": edit.remote}) for r in one.reads)
    if edit.due is not None or edit.due_later_s is not None or "due" in edit.without:
        update["deadline"] = _deadline(one, edit)
    profile: dict[str, Any] = {n: value for n, value in _NO_PROFILE.items() if n in edit.without}
    if profile and one.profile is not None:
        update["profile"] = one.profile.model_copy(update=profile)
    update["options"] = _options(one, edit)
    changed = one.model_copy(update=update)
    return changed if edit.only is None else _only(changed, edit.only)


def _deadline(one: Job, edit: JobEdit) -> Any:
    deadline = one.deadline
    if deadline is None:
        raise InvalidInputError(
            "the job has no deadline; expected one that has",
            ("due" if edit.due is not None else "due_later_s",),
        )
    due = deadline.due if edit.due is None else edit.due
    if "due" in edit.without:
        due = ()
    later = edit.due_later_s or 0
    if due and due[0].at + later < 0:
        raise InvalidInputError(f"expected at least {-due[0].at}", ("due_later_s",), later)
    moved = tuple(d.model_copy(update={"at": d.at + later}) for d in due)
    # Validated, as due times have to ascend.
    return type(deadline).model_validate({**dict(deadline), "due": moved})


def _options(one: Job, edit: JobEdit) -> tuple[Option, ...]:
    if edit.option is not None and edit.option >= len(one.options):
        raise InvalidInputError(
            f"expected an option of the job, 0 to {len(one.options) - 1}", ("option",), edit.option
        )
    most = max(len(option.groups) for option in one.options)
    if edit.group is not None and edit.group >= most:
        raise InvalidInputError(
            f"expected a task group of the job, 0 to {most - 1}", ("group",), edit.group
        )
    return tuple(
        option if edit.option not in (None, o) else _option(option, edit)
        for o, option in enumerate(one.options)
    )


def _option(option: Option, edit: JobEdit) -> Option:
    groups = tuple(
        group if edit.group not in (None, g) else _group(group, edit)
        for g, group in enumerate(option.groups)
    )
    update: dict[str, Any] = {"groups": groups}
    if edit.joint_required is not None or "joint_required" in edit.without:
        update["required"] = edit.joint_required
    if edit.group is None and (edit.num_hosts is not None or "num_hosts" in edit.without):
        update["hosts"] = _numbers(option.hosts, edit.num_hosts)
    changed = option.model_copy(update=update)
    return option if changed == option else changed


def _numbers(before: HostCount | None, edit: HostCount | None) -> HostCount | None:
    """Return numbers of hosts of which those that are given change."""
    if before is None or edit is None:
        return edit
    changed = before.model_copy(update={n: getattr(edit, n) for n in edit.model_fields_set})
    if changed.max is not None and changed.max < changed.min:
        raise InvalidInputError(
            f"{changed.max} hosts at most, and {changed.min} at least; expected no more than that",
            ("num_hosts", "min"),
        )
    return changed


def _group(group: TaskGroup, edit: JobEdit) -> TaskGroup:
    update: dict[str, Any] = {
        name: getattr(edit, name) for name in _OF_GROUP if getattr(edit, name) is not None
    }
    update |= {n: TaskGroup.model_fields[n].default for n in edit.without if n in _OF_GROUP}
    if edit.group is not None and edit.num_hosts is not None:
        update["num_hosts"] = _numbers(group.num_hosts, edit.num_hosts)
    if "num_hosts" in edit.without:
        update["num_hosts"] = None
    if edit.gpu is not None:
        update["mig"] = None  # it asks GPUs, no slice of one
    if edit.gpu_links is not None and group.gpu_links is not None:
        given = {name: getattr(edit.gpu_links, name) for name in edit.gpu_links.model_fields_set}
        update["gpu_links"] = group.gpu_links.model_copy(update=given)
    if edit.gpu is not None and edit.gpu < 2 * WHOLE_GPU and edit.gpu_links is None:
        update["gpu_links"] = None
    if edit.resources:
        update["resources"] = {**group.resources, **edit.resources}
    if edit.add_gpu_models and group.gpu_models is not None:
        update["gpu_models"] = tuple(dict.fromkeys((*group.gpu_models, *edit.add_gpu_models)))
    if edit.drop_host_sets:
        left = (name for name in group.host_sets if name not in edit.drop_host_sets)
        update["host_sets"] = tuple(left)
    return group.model_copy(update=update)


def _only(one: Job, option: int) -> Job:
    """Return a job with one of its options."""
    if option >= len(one.options):
        raise InvalidInputError(
            f"expected an option of the job, 0 to {len(one.options) - 1}", ("only",), option
        )
    update: dict[str, Any] = {"options": (one.options[option],)}
    if one.running is not None:
        if one.running.option != option:
            raise InvalidInputError(
                f"expected the option that runs, {one.running.option}", ("only",), option
            )
        update["running"] = one.running.model_copy(update={"option": 0})
    if one.deadline is not None and one.deadline.paces:
        paces = (one.deadline.paces[option],)
        update["deadline"] = one.deadline.model_copy(update={"paces": paces})
    return one.model_copy(update=update)
