"""What all tests share: the same examples in every run, and helper modules beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# A change that fails here fails for everybody, on a busy machine, too: no example has a deadline.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def helper() -> Callable[[str, str], ModuleType]:
    """`helper(__file__, name)` loads a module beside a file; no folder of tests is a package."""

    def load(beside: str, name: str) -> ModuleType:
        path = Path(beside).with_name(f"{name}.py")
        spec = spec_from_file_location(f"{path.parent.name}_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load
