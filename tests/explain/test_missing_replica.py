"""Why data has no replica in a region: tiny rounds beside all that may be replicated there."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import examples
from fuzz.explanations.conflicts import faults, undecided
from fuzz.explanations.questions import has_home
from fuzz.explanations.samples import missing_replicas
from fuzz.policies.replicas import POLICY
from placewright import load_round
from placewright.explain.explanation import Verdict
from placewright.explain.missing_replica import explain_missing_replica
from placewright.instances.errors import InvalidInputError

LIBRARY = Path(__file__).parents[2] / "instances" / "library"


def test_tiny_rounds_beside_all_layouts() -> None:
    blocked = could = open_ = 0
    for missing in missing_replicas(POLICY, range(examples(day=4, nightly=30))):
        found = missing.explained()
        assert [*faults(missing.probe(), found, has_home)] == []
        open_ += bool(undecided(found))
        could += found.verdict is Verdict.COULD_START
        blocked += found.proof is not None
    assert min(blocked, could) > examples(day=0, nightly=10)
    assert open_ <= 2


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
