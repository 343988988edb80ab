"""The brute-force oracles and the random tiny rounds, as fixtures of all tests here."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest


def _helper(name: str) -> ModuleType:
    """Load a helper module that lies beside this file; no folder of tests is a package."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def geo_oracle() -> ModuleType:
    """`vectors(round)`: the terms of every plan of policy `geo`."""
    return _helper("geo_oracle")


@pytest.fixture(scope="session")
def replicas_oracle() -> ModuleType:
    """`vectors(round)`: the terms of every plan of policy `replicas`."""
    return _helper("replicas_oracle")


@pytest.fixture(scope="session")
def geo_tiny() -> ModuleType:
    """`geo(seed)` and `replicas(seed)`: rounds that the oracles enumerate."""
    return _helper("geo_tiny")


@pytest.fixture(scope="session")
def flow_replay() -> ModuleType:
    """`line(...)`, regions of one letter, and `broken(...)`, the rules that transfers break."""
    return _helper("flow_replay")


@pytest.fixture(scope="session")
def transfer_oracle() -> ModuleType:
    """`most(...)`: the GiB that can be copied where time does not matter."""
    return _helper("transfer_oracle")
