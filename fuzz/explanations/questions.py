"""Whether a job starts in a world while nobody else moves or stops, by the rule book.

All plans of the world are enumerated. The rule book shares no code with the verifier or the
formulations, nor with the question that explanations put to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from random import Random
from typing import TypeAlias

from fuzz.book.accounts import counts_by_model
from fuzz.book.cells import Cells
from fuzz.book.choices import WAIT, Enumeration
from fuzz.book.facts import Facts
from fuzz.book.judgement import Judgement
from fuzz.book.reservations import maintained
from fuzz.book.waiting import Waiting
from fuzz.policies import deadline, geo, interleaving, replicas
from fuzz.policy import Judged, Raw, TooManyPlansError
from fuzz.small_units import in_small_units
from placewright.explain.facts.fact import World, named

MAX_PLACES = 2_000
"""Places of a gang that are looked at in one world."""

Starts: TypeAlias = Callable[[World], bool]
"""Whether some plan starts the job of a world; it may raise `TooManyPlansError`."""


def raw(world: World) -> Raw:
    """Return the round of a world in small units."""
    written: Raw = in_small_units(world.round.model_dump(mode="json", exclude_defaults=True))
    return _with_countable_caps(written, world.job)


def _with_countable_caps(document: Raw, name: str) -> Raw:
    """Return a round in which a job that no longer names GPU models counts in no GPUs of a model.

    No round has such a job in a cap of GPUs of a model, since what it counts is not known before.
    """
    (job,) = (one for one in document["jobs"] if one["name"] == name)
    caps = document.get("caps", {})
    models = {m: 0 for cap in job.get("caps", ()) for m in caps[cap].get("gpus_by_model", {})}
    options = [option["groups"] for option in job["options"]]
    if not models or all(counts_by_model(groups, models) for groups in options):
        return document
    if any("gpu_models" in group for groups in options for group in groups):
        raise TooManyPlansError  # some count, some do not: the rule book cannot say so
    for cap in job["caps"]:
        caps[f"{cap} "] = {key: most for key, most in caps[cap].items() if key != "gpus_by_model"}
    for one in document["jobs"]:
        mine = [f"{cap} " for cap in one.get("caps", ()) if f"{cap} " in caps]
        one["caps"] = mine if one is job else [*one.get("caps", ()), *mine]
    return document


def gang_starts(world: World) -> bool:
    """Whether some plan starts a gang while all that runs is pinned; a guaranteed one in cells.

    A cell may be bound if it is usable as things are, not as if all that runs were pinned.
    """
    document = raw(world)
    cells = Cells(Facts(deepcopy(document)))
    document = _pinned(document)
    vacate = document.get("policy", {}).get("vacate", ())
    document["policy"] = {"terms": ["value"], "priority": "preemption", "vacate": list(vacate)}
    facts = Facts(document)
    judgement, queue = Judgement(facts), Waiting(facts)
    enumeration = Enumeration(facts, cells.admits)
    (index,) = (i for i, job in enumerate(facts.jobs) if job.name == world.job)
    for number, choices in enumerate(enumeration):
        if number >= MAX_PLACES:
            raise TooManyPlansError
        if choices[index].kind == WAIT or judgement.between(choices, room=enumeration.room):
            continue
        if not maintained(queue, choices):
            continue
        if any(not cells.broken(choices, bound) for bound in cells.bindings(choices)):
            return True
    return False


def geo_starts(world: World) -> bool:
    """Whether some plan starts a job in a region while all that runs is pinned."""
    document = _with_data(_pinned(raw(world)))
    document["policy"] = {"formulation": "geo", "terms": ["value"], "priority": "preemption"}
    return _starts_in(geo.POLICY.plans(document, Random(0)), world.job)


def interleaving_starts(world: World) -> bool:
    """Whether some plan starts a job, alone or in a group, and keeps all that runs.

    What other jobs ask that wait may count in what GPUs lack.
    With one more option it can join whom it could join before its asks were dropped.
    """
    document, name = raw(world), world.job
    (job,) = (one for one in document["jobs"] if one["name"] == name)
    asked = named(name, world.base).options[0].model_dump(mode="json", exclude_defaults=True)
    first = in_small_units(asked)
    for group, left in zip(first["groups"], job["options"][0]["groups"], strict=True):
        for field in ("cpu", "memory", "resources", "gpu_memory"):
            group.pop(field, None)
            group |= {field: left[field]} if field in left else {}
    if first != job["options"][0]:
        job["options"].insert(0, first)
    document["policy"] = {
        "formulation": "interleaving",
        "terms": ["weighted_throughput"],
        "priority": "preemption",
        "limits": {"disruption": {"preempted_jobs": 0, "migrated_jobs": 0}},
    }
    for judged in interleaving.POLICY.plans(document, Random(0)):
        if not judged.broken:
            decided = {one["job"]: one["decision"] for one in judged.document()["decisions"]}
            starts = decided.pop(name) == "start"
            if starts and set(decided.values()) <= {"keep", "wait"}:
                return True
    return False


def deadline_starts(world: World) -> bool:
    """Whether some plan promises a job its last due time and breaks no promise; else runs it now.

    A job without due times runs beside all others, which stay unless their hosts are away.
    """
    document, name = raw(world), world.job
    (job,) = (one for one in document["jobs"] if one["name"] == name)
    asked = _asked(job)
    terms = ["broken", "admitted"] if asked else ["broken", "admitted", "best_effort"]
    document["policy"] = {"formulation": "deadline", "terms": terms, "priority": "preemption"}
    if asked is None:
        away = {host.name for host in Facts(document).hosts if host.away}
        for one in document["jobs"]:
            if "running" in one and all(t["host"] not in away for t in one["running"]["tasks"]):
                one["running"]["pinned"] = True
    else:
        job["deadline"].pop("promise", None)
        job["deadline"]["due"] = [{"at": asked, "value": 1}]
    for judged in deadline.POLICY.plans(document, Random(0)):
        if judged.broken:
            continue
        plan = judged.document()
        (leases,) = (one for one in plan["sections"] if one["kind"] == "leases")
        if leases["broken"]:
            continue
        if any(one["job"] == name for one in leases["jobs"]):
            return True
        if asked is None and _starts(plan, name):
            return True
    return False


def has_home(world: World) -> bool:
    """Whether some plan gives a job a home once data has been copied."""
    document = _with_data(raw(world))
    document["policy"] = {"formulation": "replicas", "terms": ["overload"]}
    return any(
        home["job"] == world.job
        for judged in replicas.POLICY.plans(document, Random(0))
        if not judged.broken
        for section in judged.document()["sections"]
        if section["kind"] == "replicas"
        for home in section.get("homes", ())
    )


STARTS: Mapping[str, Starts] = {
    "gang": gang_starts,
    "interleaving": interleaving_starts,
    "deadline": deadline_starts,
    "geo": geo_starts,
    "replicas": has_home,
}
"""By the formulation of the round's policy."""


def _asked(job: Raw) -> int | None:
    deadline = job.get("deadline", {})
    times = [one["at"] for one in deadline.get("due", ())]
    if deadline.get("promise"):
        times.append(deadline["promise"]["at"])
    return max(times) if times else None


def _pinned(document: Raw) -> Raw:
    for job in document["jobs"]:
        if "running" in job:
            job["running"]["pinned"] = True
    return document


def _with_data(document: Raw) -> Raw:
    for name in ("regions", "links", "datasets"):
        document.setdefault("geo", {}).setdefault(name, [])
    return document


def _starts_in(plans: Iterable[Judged], job: str) -> bool:
    return any(_starts(judged.document(), job) for judged in plans if not judged.broken)


def _starts(plan: Raw, job: str) -> bool:
    return any(one["job"] == job and one["decision"] == "start" for one in plan["decisions"])
