"""A job of several tasks on one GPU stops for a job that leaves room for some of them, not for all.

Found by the fuzz of priorities: the rows of necessity counted one task alone.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from placewright.formulations.gang.models.host.solve import solve_exactly
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.solver import InProcess


def round_of(count: int, each: str, asked: str) -> Round:
    running = [{"host": "h0", "gpus": [0], "index": i} for i in range(count)]
    jobs: list[dict[str, Any]] = [
        {
            "name": "low",
            "options": [{"groups": [{"gpu": each, "count": count}]}],
            "running": {"tasks": running},
        },
        {"name": "high", "priority": 2, "options": [{"groups": [{"gpu": asked}]}]},
        {"name": "other", "options": [{"groups": [{"gpu": "900m"}]}]},
    ]
    return Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h0", "gpus": 1, "gpu_model": "B"}]},
            "jobs": jobs,
            "policy": {"terms": ["value"]},
        }
    )


@pytest.mark.parametrize(
    ("count", "each", "asked", "value"), [(3, "300m", "700m", 700), (2, "500m", "500m", 500)]
)
def test_the_exact_model_starts_it_and_bounds_it_so(
    count: int, each: str, asked: str, value: int
) -> None:
    round_ = round_of(count, each, asked)
    problem = compile_round(round_)
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    first = problem.terms[0]
    found = list(solve_exactly(problem, session))
    bounds = [one.value for one in found if isinstance(one, Bound) and one.term == first]
    assert min(bounds) == value
    assert any(1 in one.starts for one in found if isinstance(one, Candidate))
