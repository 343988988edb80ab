"""All bundled rounds and ten tiny ones of each policy are solved without anything going wrong."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from examples import by_day
from placewright import load_round, solve_round
from placewright.instances import parse_round

ROOT = Path(__file__).parents[1]
BUNDLED = sorted((ROOT / "instances" / "library").glob("*.yaml"))
POLICIES = (
    "gang", "priorities", "crowds", "pools", "links", "sizes", "queue", "cells", "interleaving",
    "deadline", "geo", "replicas", "stages",
)  # fmt: skip
TINY = 10


@pytest.fixture(scope="module")
def guards() -> Iterator[ModuleType]:
    """The rounds of the guards, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield importlib.import_module("benchmarks.guards.rounds")


def test_every_policy_of_the_fuzz_is_among_them(guards):
    assert tuple(guards.POLICIES) == POLICIES


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_a_bundled_round_is_solved_as_it_should_be(path):
    plan = solve_round(load_round(path), time_limit=60.0, deterministic=True, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()


@pytest.mark.parametrize("seed", by_day(range(TINY), 3))
@pytest.mark.parametrize("policy", POLICIES)
def test_so_is_a_tiny_one(guards, policy, seed):
    round_ = parse_round(guards.tiny_document(policy, seed))
    plan = solve_round(round_, time_limit=60.0, deterministic=True, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
