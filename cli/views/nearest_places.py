"""The nearest places of a waiting job as text: what would hold it, and what is in the way there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placewright.instances.derived.phrases import count, several
from placewright.instances.documents.quantities import amount_text
from placewright.report.text import count_gpus

if TYPE_CHECKING:
    from placewright.explain.places import GroupPlaces, Occupants, Place
    from placewright.instances.documents.option import TaskGroup

MAX_KINDS = 6
NO_GPU = "no GPU"
"""The kind of hosts without GPUs."""

_RELATION = {
    "pinned": "pinned",
    "higher": "of higher priority",
    "equal": "of the same priority",
    "lower": "of lower priority",
}


def places_text(
    places: GroupPlaces, groups: Sequence[TaskGroup], option: str = "", *, after_plan: bool = False
) -> Iterator[str]:
    """Yield the lines of the nearest places of one of the groups; `after_plan`, or as it is now.

    `option` is the name of theirs, where there are several.
    """
    now = "after this plan" if after_plan else "now"
    tasks = f"{places.tasks:,} tasks" if places.tasks > 1 else "task"
    whose = f"its {tasks}" if len(groups) == 1 else f"the {tasks} of {groups[places.group].name}"
    fit = f"how many of {whose} fit" if places.tasks > 1 else f"whether {whose} fits"
    where = "Where" if places.when is None else f"Where, in {places.when}"
    if option:
        where += f", option {option}"
    yield ""
    if places.level is None:
        yield f"  {where}: {fit}, by kind of host"
    else:
        whole, total = f"{places.whole:,}", count(places.total, places.level)
        empty = "empty and repaired" if any(one.away for one in places.places) else "empty"
        yield f"  {where}: {fit}, by {places.level}; {whole} of {total} would hold all, if {empty}"
    width = max((len(_name(places, place)) for place in places.places), default=0)
    for place in places.places:
        yield f"    {_name(places, place):{width}}  {_place(places, place, now)}"
    # What this option does not ask, another one may.
    rows = (one for one in places.unfit if not (option and one[2].get("resource") == "gpu_model"))
    unfit = [one for one in rows if one[2]]
    unfit = unfit if places.places or unfit else list(places.unfit)
    for name, hosts, lack in unfit[:MAX_KINDS]:
        yield f"    {_hosts(hosts, name)}: none, {_lack(lack)}"
    if places.partners:
        whom = several(places.partners, conjunction="or")
        yield f"    or in turns with {whom}, where stages, load and memory suit"
    elif places.partners is not None:
        yield "    no running job or group of its size could take turns with it"


def _name(places: GroupPlaces, place: Place) -> str:
    return place.name if places.level else _hosts(place.hosts, place.name)


def _hosts(hosts: int, kind: str) -> str:
    return f"{count(hosts, 'host')} {'without GPUs' if kind == NO_GPU else f'of {kind}'}"


def _place(places: GroupPlaces, place: Place, now: str) -> str:
    empty = "empty and repaired" if place.away else "empty"
    said = [f"{place.now:,} {now}, {place.empty:,} if {empty}"]
    if place.away:
        said.append(f"{count(place.away, 'host')} away")
    text = ", ".join(said)
    if place.now < places.tasks and place.occupants:
        noun = "job" if places.partners is None else "job or group"
        who = (
            f"{count(one.jobs, noun)} {_RELATION[one.relation]} ({_held(place, one)})"
            for one in place.occupants
        )
        text += f"; in the way: {', '.join(who)}"
    if place.why_not:
        text += f"; not there: {', '.join(place.why_not)}"
    return text


def _held(place: Place, one: Occupants) -> str:
    """Say what jobs hold of what is scarce: GPUs, or cores."""
    if one.milli_cpu and (not one.milli_gpu or place.lack.get("resource") == "cpu"):
        return amount_text("cpu", one.milli_cpu)
    return count_gpus(one.milli_gpu)


def _lack(lack: Mapping[str, Any]) -> str:
    resource = lack.get("resource")
    if resource is None:
        return "not among its hosts"
    if resource == "pool":
        return "a pool has too little"
    if lack["resource"] == "num_hosts":
        return "fewer than the job has to be on"
    if resource == "gpu_model":
        return "another GPU model"
    if resource == "gpu" and not lack["free"]:
        return "no GPU"
    if resource == "mig":
        return "no such MIG slice"
    return f"at most {amount_text(resource, lack['free'])}"
