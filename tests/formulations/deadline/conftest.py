"""The brute-force oracle and the random tiny problems, as fixtures of all tests here."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

import pytest

Helper: TypeAlias = Callable[[str, str], ModuleType]


@pytest.fixture(scope="session")
def oracle(helper: Helper) -> ModuleType:
    return helper(__file__, "oracle")


@pytest.fixture(scope="session")
def tiny(helper: Helper) -> ModuleType:
    return helper(__file__, "tiny")
