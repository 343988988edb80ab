"""Some rounds of each policy, and faults that the fuzz must find."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
ROUNDS = 10
POLICIES = ("gang", "cells", "interleaving", "deadline", "geo", "replicas")


@pytest.fixture(scope="module")
def fuzz() -> Iterator[SimpleNamespace]:
    """The modules of the fuzz, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        names = ("policies", "run")
        yield SimpleNamespace(**{name: importlib.import_module(f"fuzz.{name}") for name in names})


def test_each_policy_is_played_here(fuzz):
    assert set(fuzz.policies.POLICIES) == set(POLICIES)


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_fails_in_some_rounds_of(fuzz, name):
    state = fuzz.run.run(fuzz.policies.POLICIES[name], ROUNDS, 0, None, lambda *_: None)
    assert state.rounds == ROUNDS
    assert not state.failures
