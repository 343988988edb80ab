"""Who takes turns before a round, as the rule book of the fuzz has it."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.book.facts import Facts
from fuzz.book.turns import Turns


@pytest.mark.parametrize(("gpu", "together"), [(1000, [(0, 1)]), (500, [])])
def test_shares_of_a_gpu_lie_beside_each_other_and_take_no_turns(
    gpu: int, together: list[tuple[int, ...]]
) -> None:
    job: dict[str, Any] = {
        "options": [{"groups": [{"gpu": gpu}]}],
        "profile": {"stages": [1, 2]},
        "running": {"tasks": [{"host": "h0", "gpus": [0]}]},
    }
    round_ = {
        "cluster": {"hosts": [{"name": "h0", "gpus": 1, "gpu_model": "A"}]},
        "jobs": [{"name": "one", **job}, {"name": "other", **job}],
        "policy": {"formulation": "interleaving", "terms": ["throughput"]},
    }
    assert list(Turns(Facts(round_)).before.values()) == together
