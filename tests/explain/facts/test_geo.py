"""Explanations of policy `geo`: tiny rounds beside all their worlds, and bundled rounds."""

from __future__ import annotations

from pathlib import Path
from random import Random

from fuzz.policies.geo import POLICY
from placewright import explain_job, load_round
from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import World
from tests.explain.facts.all_worlds import check, decides_start, pinned, waiting

LIBRARY = Path(__file__).parents[3] / "instances" / "library"


def starts(world: World) -> bool:
    """Whether some plan starts the job of a world, by the rule book."""
    raw = pinned(world)
    for name in ("regions", "links", "datasets"):
        raw.setdefault("geo", {}).setdefault(name, [])
    raw["policy"] = {"formulation": "geo", "terms": ["value"], "priority": "preemption"}
    return any(decides_start(judged, world.job) for judged in POLICY.plans(raw, Random(0)))


def test_tiny_rounds_beside_all_their_worlds() -> None:
    found = [check(*one, starts) for one in waiting(POLICY, range(60))]
    kinds = {fact.kind for one in found for fact in one.conflict}
    assert kinds >= {"gpu", "read", "not_remote", "residency", "jobs"}
    assert len({one.verdict for one in found}) >= 4


def test_a_job_whose_data_is_on_its_way() -> None:
    round_ = load_round(LIBRARY / "mast-regions.yaml")
    found = explain_job(round_, None, "nightly", isolation="none")
    assert found.verdict is Verdict.NOT_UNTIL_HOSTS_ARE_BACK
    assert [fact.text for fact in found.conflict] == [
        "reads news only where a replica is (replicas in north)",
        "news is on its way to west, there in 3,600 s",
    ]
