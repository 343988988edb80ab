"""The brute-force oracles and the random tiny rounds, as fixtures of all tests here."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

import pytest

Helper: TypeAlias = Callable[[str, str], ModuleType]


@pytest.fixture(scope="session")
def machine_code() -> None:
    """Make the machine code that annealing needs; whoever has this need not wait for it."""
    from placewright.formulations.replicas.heuristics import annealing_kernel
    from placewright.solver import batched_pdhg

    annealing_kernel.prepare()
    batched_pdhg.prepare()
