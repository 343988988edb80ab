"""Explanations of policy `deadline`: tiny rounds beside all their worlds."""

from __future__ import annotations

from fuzz.explanations.conflicts import compared, undecided
from fuzz.policies.deadline import POLICY


def test_tiny_rounds_beside_all_their_worlds() -> None:
    found = []
    for one, faults in compared(POLICY, range(40)):
        assert faults == []
        assert undecided(one) == ""
        found.append(one)
    kinds = {fact.kind for one in found for fact in one.conflict}
    assert kinds >= {"work", "due", "pace", "hosts"}
