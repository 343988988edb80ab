"""The brute-force oracle and the strategies of tiny rounds, as fixtures of all tests here."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest


def _helper(name: str) -> ModuleType:
    """Load a helper module that lies beside this file; no folder of tests is a package."""
    spec = spec_from_file_location(f"gang_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    return _helper("oracle")


@pytest.fixture(scope="session")
def moves(oracle: ModuleType) -> ModuleType:
    """Return the oracle of rounds whose running jobs move."""
    return _helper("oracle_running")


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    return _helper("tiny")


@pytest.fixture(scope="session")
def oracle_arrangement() -> ModuleType:
    """Return the oracle of rounds whose options tie their tasks to each other."""
    return _helper("oracle_arrangement")


@pytest.fixture(scope="session")
def tiny_arrangement() -> ModuleType:
    return _helper("tiny_arrangement")


@pytest.fixture(scope="session")
def tiny_fair(tiny: ModuleType) -> ModuleType:
    """Return the strategies of tiny rounds with guarantees and weights."""
    return _helper("tiny_fair")


@pytest.fixture(scope="session")
def sharing() -> ModuleType:
    """Return the oracle of rounds that share GPUs."""
    return _helper("oracle_sharing")
