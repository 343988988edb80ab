"""The brute-force oracle and the random tiny problems, as fixtures of all tests here."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest


def _helper(name: str) -> ModuleType:
    """Load a helper module that lies beside this file; no folder of tests is a package."""
    spec = spec_from_file_location(f"deadline_{name}", Path(__file__).with_name(f"{name}.py"))
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
def tiny() -> ModuleType:
    return _helper("tiny")
