"""Why data has no replica in a region: tiny rounds beside all that may be replicated there."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fuzz.data.homes import layouts
from fuzz.data.world import read_world
from fuzz.play import read
from fuzz.policies.replicas import POLICY
from fuzz.policy import TooManyPlansError
from placewright import load_round
from placewright.explain.explanation import Verdict
from placewright.explain.missing_replica import explain_missing_replica
from placewright.instances.errors import InvalidInputError

LIBRARY = Path(__file__).parents[2] / "instances" / "library"


def test_tiny_rounds_beside_all_layouts() -> None:
    blocked = could = undecided = unproven = 0
    for seed in range(30):
        try:
            raw = POLICY.draw(Random(seed))
            world = read_world(raw)
            finals = [one.final for one in layouts(world) if not one.broken]
        except TooManyPlansError:
            continue
        round_ = read(raw)
        for dataset in world.size:
            for region in world.regions:
                if (dataset, region) in world.held | world.coming.keys():
                    continue
                found = explain_missing_replica(round_, dataset, region, isolation="none")
                if found.verdict is Verdict.UNDECIDED:
                    undecided += 1
                    continue
                comes = any((dataset, region) in final for final in finals)
                assert (found.verdict is Verdict.COULD_START) == comes
                could += comes
                if not comes:
                    assert found.proof is not None
                    assert found.proof.minimal
                    unproven += found.proof.blocked is None
                    blocked += 1
    assert blocked > 10
    assert could > 10
    assert undecided + unproven <= 2


@pytest.mark.parametrize(
    ("dataset", "region", "verdict", "facts"),
    [
        ("patients", "west", "never_within_rules", ["patients stays in region east"]),
        (
            "web",
            "north",
            "never_within_rules",
            ["copies take at most 5 GiB of the link from east to north"],
        ),
        ("web", "west", "could_start", []),
    ],
)
def test_bundled_round(dataset: str, region: str, verdict: str, facts: list[str]) -> None:
    round_ = load_round(LIBRARY / "mast-replicas.yaml")
    found = explain_missing_replica(round_, dataset, region, isolation="none")
    assert str(found.verdict) == verdict
    assert [fact.text for fact in found.conflict] == facts


def test_a_replica_that_exists_is_refused() -> None:
    round_ = load_round(LIBRARY / "mast-replicas.yaml")
    with pytest.raises(InvalidInputError, match="has web, or gets it"):
        explain_missing_replica(round_, "web", "east")
    with pytest.raises(InvalidInputError, match="unknown region"):
        explain_missing_replica(round_, "web", "mars")
    with pytest.raises(InvalidInputError, match="expected policy replicas"):
        explain_missing_replica(load_round(LIBRARY / "mast-regions.yaml"), "web", "west")
