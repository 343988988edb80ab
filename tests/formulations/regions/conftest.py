"""The brute-force oracles and the random tiny rounds, as fixtures of all tests here."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

import pytest

Helper: TypeAlias = Callable[[str, str], ModuleType]


@pytest.fixture(scope="session")
def geo_oracle(helper: Helper) -> ModuleType:
    """`vectors(round)`: the terms of every plan of policy `geo`."""
    return helper(__file__, "geo_oracle")


@pytest.fixture(scope="session")
def replicas_oracle(helper: Helper) -> ModuleType:
    """`vectors(round)`: the terms of every plan of policy `replicas`."""
    return helper(__file__, "replicas_oracle")


@pytest.fixture(scope="session")
def geo_tiny(helper: Helper) -> ModuleType:
    """`geo(seed)` and `replicas(seed)`: rounds that the oracles enumerate."""
    return helper(__file__, "geo_tiny")


@pytest.fixture(scope="session")
def flow_replay(helper: Helper) -> ModuleType:
    """`line(...)`, regions of one letter, and `broken(...)`, the rules that transfers break."""
    return helper(__file__, "flow_replay")


@pytest.fixture(scope="session")
def machine_code() -> None:
    """Make the machine code that annealing needs; whoever has this need not wait for it."""
    from placewright.formulations.replicas.heuristics import annealing_kernel
    from placewright.solver import batched_pdhg

    annealing_kernel.prepare()
    batched_pdhg.prepare()


@pytest.fixture(scope="session")
def transfer_oracle(helper: Helper) -> ModuleType:
    """`most(...)`: the GiB that can be copied where time does not matter."""
    return helper(__file__, "transfer_oracle")
