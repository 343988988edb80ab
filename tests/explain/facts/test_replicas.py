"""Explanations of policy `replicas`: tiny rounds beside all their worlds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import ModuleType

import pytest

from fuzz.policies.replicas import POLICY
from fuzz.policy import Raw


@pytest.fixture(scope="module")
def all_worlds(helper: Callable[[str, str], ModuleType]) -> ModuleType:
    return helper(__file__, "all_worlds")


def has_home(raw: Raw, job: str) -> bool:
    """Whether some plan gives a job a home, by the rule book."""
    raw["policy"] = {"formulation": "replicas", "terms": ["overload"]}
    for name in ("regions", "links", "datasets"):
        raw.setdefault("geo", {}).setdefault(name, [])
    return any(
        home["job"] == job
        for judged in POLICY.plans(raw, Random(0))
        if not judged.broken
        for section in judged.document()["sections"]
        if section["kind"] == "replicas"
        for home in section.get("homes", ())
    )


def test_tiny_rounds_beside_all_their_worlds(all_worlds: ModuleType) -> None:
    found = list(
        all_worlds.checked(
            POLICY, range(40), lambda world: has_home(all_worlds.raw(world), world.job)
        )
    )
    kinds = {fact.kind for one in found for fact in one.conflict}
    assert kinds >= {"read", "not_remote", "regions"}
