"""Why jobs wait under the policy `geo`: for data, for a region, or for what regions lack."""

from __future__ import annotations

from fuzz.book.choices import WAIT
from fuzz.book.facts import Job
from fuzz.book.reading import choices_of, decisions_of
from fuzz.book.reason_details import given, untrue_detail
from fuzz.book.reasons import ORDER, QUOTA, Reasons, Region
from fuzz.data.reading import Waiting
from fuzz.data.regions import Book
from fuzz.policy import Raw


def untrue(round_: Raw, plan: Raw) -> str:
    """Say which reason of a plan is not true, "" if all are; the plan keeps all other rules."""
    book = Book(round_)
    sections = {section["kind"]: section for section in plan["sections"]}
    creates = sections.get("replicas", {}).get("creates", ())
    ready = {(one["dataset"], one["region"]): one["ready"] for one in creates}
    waiting = Waiting(book.reading, ready)
    listed: dict[str, list[Raw]] = {}
    for entry in sections["reads"].get("waiting", ()):
        listed.setdefault(entry["job"], []).append(entry)
    choices = choices_of(book.facts, plan)
    views = {
        name: Reasons(book.facts, choices, region=region) for name, region in _regions(book).items()
    }
    for job, decision in zip(book.facts.jobs, decisions_of(book.facts, plan), strict=True):
        if decision["decision"] != WAIT:
            continue
        said, entries = decision.get("reason"), listed.get(job.name, [])
        if fault := waiting.broken(job.name, said, entries):
            return f"{job.name} waits for {said!r}: {fault}"
        can = [name for name in views if book.reading.can_start(job.name, name)]
        if said in ("data", "no_region"):
            if said == "no_region" and can:
                return f"{job.name} may start in {can}"
            detail = given(decision)
            known = [{"region": one["region"], "at": one["ready"]} for one in entries]
            if known and {k: v for k, v in detail.items() if v is not False} not in known:
                return f"{job.name} waits for {known}, the plan says {detail}"
            continue
        mine = {name: views[name] for name in can}
        if fault := _untrue(mine, job, decision):
            return fault
    return ""


def _regions(book: Book) -> dict[str, Region]:
    """Return all regions by name."""
    entries = {entry["name"]: entry.get("quotas", {}) for entry in book.round["geo"]["regions"]}
    return {
        name: Region(
            name,
            frozenset(h.number for h in book.facts.hosts if book.world.region_of[h.name] == name),
            entries.get(name, {}),
        )
        for name in book.world.regions
    }


def _untrue(views: dict[str, Reasons], job: Job, decision: Raw) -> str:
    """Say what is not true of the reason of a job that may start in some regions."""
    said, detail = decision.get("reason"), given(decision)
    true = {
        (o, name): view.of_option(job, o)
        for o in range(len(job.options))
        for name, view in views.items()
    }
    if not true:
        return f"{job.name} may start nowhere, the plan says {said!r}"
    furthest = max(map(ORDER.index, true.values()))
    best = min(
        (o for (o, _), reason in true.items() if ORDER.index(reason) == furthest),
        key=lambda o: (job.options[o].asks["gpu"], o),
    )
    where = f"{job.name} waits for {ORDER[furthest]!r} by option {best}, the plan says"
    if (said, detail.get("option", 0)) != (ORDER[furthest], best):
        return f"{where} {said!r}, {detail}"
    if said == QUOTA and "region" not in detail:
        view = next(iter(views.values()))
    elif true.get((best, detail.get("region", ""))) != said:
        return f"{where} {detail}: of the regions {true}"
    else:
        view = views[detail["region"]]
    fault = untrue_detail(view, job, best, str(said), detail)
    return f"{where} {detail}: {fault}" if fault else ""
