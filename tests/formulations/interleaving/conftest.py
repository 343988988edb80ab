"""Helper modules of all tests here, as fixtures."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

import pytest

Helper: TypeAlias = Callable[[str, str], ModuleType]


@pytest.fixture(scope="session")
def packings(helper: Helper) -> ModuleType:
    """Return random packing problems, others drawn from Muri's traces, and brute-force optima."""
    return helper(__file__, "packings")


@pytest.fixture(scope="session")
def oracle(helper: Helper) -> ModuleType:
    return helper(__file__, "oracle")


@pytest.fixture(scope="session")
def tiny(helper: Helper) -> ModuleType:
    return helper(__file__, "tiny")
