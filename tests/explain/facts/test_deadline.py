"""Explanations of policy `deadline`: tiny rounds beside all their worlds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import ModuleType

import pytest

from fuzz.book.facts import Facts
from fuzz.policies.deadline import POLICY
from fuzz.policy import Raw


@pytest.fixture(scope="module")
def all_worlds(helper: Callable[[str, str], ModuleType]) -> ModuleType:
    return helper(__file__, "all_worlds")


def starts_by_the_book(raw: Raw, name: str) -> bool:
    """Whether some plan promises a job its last due time and breaks no promise; else runs it now.

    A job without due times runs beside all others, which stay unless their hosts are away.
    """
    (job,) = (one for one in raw["jobs"] if one["name"] == name)
    asked = _asked(job)
    terms = ["broken", "admitted"] if asked else ["broken", "admitted", "best_effort"]
    raw["policy"] = {"formulation": "deadline", "terms": terms, "priority": "preemption"}
    if asked is None:
        away = {host.name for host in Facts(raw).hosts if host.away}
        for one in raw["jobs"]:
            if "running" in one and all(t["host"] not in away for t in one["running"]["tasks"]):
                one["running"]["pinned"] = True
    else:
        job["deadline"].pop("promise", None)
        job["deadline"]["due"] = [{"at": asked, "value": 1}]
    for judged in POLICY.plans(raw, Random(0)):
        if judged.broken:
            continue
        document = judged.document()
        (leases,) = (one for one in document["sections"] if one["kind"] == "leases")
        if leases["broken"]:
            continue
        if any(one["job"] == name for one in leases["jobs"]):
            return True
        if asked is None and any(
            one["job"] == name and one["decision"] == "start" for one in document["decisions"]
        ):
            return True
    return False


def _asked(job: Raw) -> int | None:
    deadline = job.get("deadline", {})
    times = [one["at"] for one in deadline.get("due", ())]
    if deadline.get("promise"):
        times.append(deadline["promise"]["at"])
    return max(times) if times else None


def test_tiny_rounds_beside_all_their_worlds(all_worlds: ModuleType) -> None:
    found = list(
        all_worlds.checked(
            POLICY, range(40), lambda world: starts_by_the_book(all_worlds.raw(world), world.job)
        )
    )
    kinds = {fact.kind for one in found for fact in one.conflict}
    assert kinds >= {"work", "due", "pace", "hosts"}
