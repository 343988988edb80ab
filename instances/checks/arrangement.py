"""Checks of topology constraints: known levels, and no contradictions."""

from __future__ import annotations

from collections.abc import Collection

from placewright.instances.derived.names import check_known
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU


def check_arrangement(round_: Round) -> None:
    """Refuse unknown levels, wrong slices and numbers of hosts, GPUs that cannot communicate.

    Raises
    ------
    InvalidInputError
        The first fault, with its path in the Round document.
    """
    levels = (*round_.cluster.levels, HOST_LEVEL)
    level_of: dict[str, str] = {}
    errors = Errors()
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
                        path=path,
                        value=rule.level,
                    )
        for j, option in enumerate(job.options):
            if option.required is not None:
                path = ("jobs", i, "options", j, "required")
                with errors:
                    check_known(option.required, levels, "level", path)
            for k, group in enumerate(option.groups):
                asked = group.slices, group.apart, group.communication
                if asked != (None, None, None):
                    with errors:
                        _check_group(group, levels, ("jobs", i, "options", j, "groups", k))
            with errors:
                _check_num_hosts(option, ("jobs", i, "options", j))
    errors.refuse()


def _check_group(group: TaskGroup, levels: Collection[str], path: Path) -> None:
    slices = group.slices
    if slices is not None:
        check_known(slices.required, levels, "level", (*path, "slices", "required"))
        if group.count % slices.size:
            raise InvalidInputError(
                f"expected a divisor of the group's {group.count} tasks",
                path=(*path, "slices", "size"),
                value=slices.size,
            )
    if group.apart is not None:
        check_known(group.apart.level, levels, "level", (*path, "apart", "level"))
    asked = group.communication
    timed = asked is not None and asked.data_mib is not None
    if timed and (group.gpu < WHOLE_GPU or group.mig is not None):
        raise InvalidInputError(
            "given for tasks without a whole GPU; expected at least 1 GPU of each task",
            path=(*path, "communication", "data_mib"),
            show_value=False,
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
            f"its tasks can be on {most} at most; expected no more",
            path=(*path, "min"),
            value=asked.min,
        )
    if asked.max is not None and asked.max < fewest:
        raise InvalidInputError(
            f"its tasks need {fewest} at least; expected no fewer",
            path=(*path, "max"),
            value=asked.max,
        )
    return max(fewest, asked.min), min(most, asked.max or most)
