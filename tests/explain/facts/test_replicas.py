"""Explanations of policy `replicas`: tiny rounds beside all their worlds."""

from __future__ import annotations

from examples import by_night, examples
from fuzz.explanations.conflicts import compared, undecided
from fuzz.policies.replicas import POLICY


def test_tiny_rounds_beside_all_their_worlds() -> None:
    found = []
    for one, faults in compared(POLICY, range(examples(day=4, nightly=40))):
        assert faults == []
        assert undecided(one) == ""
        found.append(one)
    kinds = {fact.kind for one in found for fact in one.conflict}
    assert kinds >= {"read", "not_remote", "regions"} or not by_night()
