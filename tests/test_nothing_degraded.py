"""All bundled rounds and ten tiny ones of each policy are solved without anything going wrong."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from placewright import load_round, solve_round

ROOT = Path(__file__).parents[1]
BUNDLED = sorted((ROOT / "instances" / "library").glob("*.yaml"))
POLICIES = ("gang", "cells", "interleaving", "deadline", "geo", "replicas")
TINY = 10


@pytest.fixture(scope="module")
def fuzz() -> Iterator[SimpleNamespace]:
    """The policies of the fuzz, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield importlib.import_module("fuzz.policies")


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_a_bundled_round_is_solved_as_it_should_be(path):
    plan = solve_round(load_round(path), time_limit=60.0, deterministic=True, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()


@pytest.mark.parametrize("seed", range(TINY))
@pytest.mark.parametrize("name", POLICIES)
def test_so_is_a_tiny_one(fuzz, tmp_path, name, seed):
    drawn = fuzz.POLICIES[name].draw(Random(f"guard {name} {seed}"))
    file = tmp_path / "round.json"
    file.write_text(json.dumps({"apiVersion": "placewright/v1alpha1", "kind": "Round", **drawn}))
    plan = solve_round(load_round(file), time_limit=60.0, deterministic=True, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
