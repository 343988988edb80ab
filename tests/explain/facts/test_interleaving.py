"""Explanations of policy `interleaving`: tiny rounds beside all their worlds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import ModuleType

import pytest

from fuzz.policies.interleaving import POLICY
from fuzz.policy import Raw
from fuzz.small_units import in_small_units
from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import World, named


@pytest.fixture(scope="module")
def all_worlds(helper: Callable[[str, str], ModuleType]) -> ModuleType:
    return helper(__file__, "all_worlds")


def starts_by_the_book(world: World, raw: Raw) -> bool:
    """Whether some plan starts a job, alone or in a group, and keeps all that runs.

    With one more option it can join whom it could join before its asks were dropped.
    """
    name = world.job
    (job,) = (one for one in raw["jobs"] if one["name"] == name)
    asked = named(name, world.base).options[0].model_dump(mode="json", exclude_defaults=True)
    first = in_small_units(asked)
    for group, left in zip(first["groups"], job["options"][0]["groups"], strict=True):
        for field in ("cpu", "memory", "resources", "gpu_memory"):
            group.pop(field, None)
            group |= {field: left[field]} if field in left else {}
    if first != job["options"][0]:
        job["options"].insert(0, first)
    raw["policy"] = {
        "formulation": "interleaving",
        "terms": ["weighted_throughput"],
        "priority": "preemption",
        "limits": {"disruption": {"preempted_jobs": 0, "migrated_jobs": 0}},
    }
    for judged in POLICY.plans(raw, Random(0)):
        if not judged.broken:
            decided = {one["job"]: one["decision"] for one in judged.document()["decisions"]}
            starts = decided.pop(name) == "start"
            if starts and set(decided.values()) <= {"keep"}:
                return True
    return False


def test_tiny_rounds_beside_all_their_worlds(all_worlds: ModuleType) -> None:
    found = list(
        all_worlds.checked(
            POLICY, range(30), lambda world: starts_by_the_book(world, all_worlds.raw(world))
        )
    )
    assert all(one.verdict is not Verdict.UNDECIDED for one in found)
    kinds = {fact.kind for one in found for fact in one.conflict}
    assert kinds >= {"gpu", "jobs"}
