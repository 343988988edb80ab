"""The brute-force oracle and the strategies of tiny rounds, as fixtures of all tests here."""

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
def moves(helper: Helper, oracle: ModuleType) -> ModuleType:
    """Return the oracle of rounds whose running jobs move."""
    return helper(__file__, "oracle_running")


@pytest.fixture(scope="session")
def tiny(helper: Helper) -> ModuleType:
    return helper(__file__, "tiny")


@pytest.fixture(scope="session")
def oracle_contention(helper: Helper) -> ModuleType:
    return helper(__file__, "oracle_contention")


@pytest.fixture(scope="session")
def oracle_arrangement(helper: Helper, oracle: ModuleType) -> ModuleType:
    """Return the oracle of rounds whose options tie their tasks to each other."""
    return helper(__file__, "oracle_arrangement")


@pytest.fixture(scope="session")
def tiny_arrangement(helper: Helper) -> ModuleType:
    return helper(__file__, "tiny_arrangement")


@pytest.fixture(scope="session")
def tiny_fair(helper: Helper, tiny: ModuleType) -> ModuleType:
    """Return the strategies of tiny rounds with guarantees and weights."""
    return helper(__file__, "tiny_fair")


@pytest.fixture(scope="session")
def sharing(helper: Helper) -> ModuleType:
    """Return the oracle of rounds that share GPUs."""
    return helper(__file__, "oracle_sharing")


@pytest.fixture(scope="session")
def oracle_pools(helper: Helper, oracle: ModuleType) -> ModuleType:
    """Return the oracle of rounds whose hosts share pools."""
    return helper(__file__, "oracle_pools")


@pytest.fixture(scope="session")
def tiny_pools(helper: Helper, tiny: ModuleType) -> ModuleType:
    return helper(__file__, "tiny_pools")
