"""Completion: whenever the solver runs out of time, no GPU stays idle that a waiting job fits."""

from __future__ import annotations

from typing import Any

import pytest
from gang_parameters import set_parameters

from examples import by_day
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import InProcess, Outcome, Status

CALLS = (0, 2, 3, 5)


def strict_round(mix: Any, seed: int, tenants: int) -> Round:
    """Pending jobs of four priorities, all above that of the running ones."""
    round_ = generate_round(48, 24, mix=mix, seed=seed, tenants=tenants)
    jobs = (
        job if job.running else job.model_copy(update={"priority": job.priority + 1})
        for job in round_.jobs
    )
    policy = round_.policy.model_copy(update={"priority": "strict"})
    return round_.model_copy(update={"policy": policy, "jobs": tuple(jobs)})


def idle_for(plan: Plan) -> list[str]:
    """Jobs that wait though they fit beside all that run."""
    return [d.job for d in plan.decisions if d.detail is not None and d.detail.startable]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("mix", "seed", "tenants"), [("tight", 0, 3), ("shared", 0, 0)])
def test_lower_classes_are_filled_up_when_the_solver_ends_early(
    monkeypatch: pytest.MonkeyPatch, mix: str, seed: int, tenants: int, large: bool
) -> None:
    if large:
        set_parameters(monkeypatch, "run", max_exact_variables=0)
    round_ = strict_round(mix, seed, tenants)
    solve = InProcess.solve
    for most in by_day(CALLS, 2):
        calls = iter(range(most))

        def ending(self: InProcess, *args: Any, left: Any = calls) -> Outcome:
            if next(left, None) is None:
                return Outcome(Status.NO_SOLUTION, wall_stopped=True)
            return solve(self, *args)

        monkeypatch.setattr(InProcess, "solve", ending)
        plan = solve_round(round_, isolation="none", time_limit=10.0)
        assert verify(round_, plan).ok
        assert idle_for(plan) == [], most
