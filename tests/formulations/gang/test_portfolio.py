"""One portfolio for all sizes: counts are searched before the exact model, which begins there."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from placewright.formulations.gang import parameters, run
from placewright.formulations.gang.models.host.solve import solve_exactly
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.generators.gang import generate_round
from placewright.rounds import solve_round
from placewright.rounds.deciders.base import Memory
from placewright.rounds.settings import Settings
from placewright.rounds.solve import Solve
from placewright.solver import Arrays, InProcess, Limits, Outcome


@pytest.mark.nightly
def test_a_round_of_256_gpus_has_a_good_plan_without_the_exact_model() -> None:
    round_ = generate_round(256, 80, mix="tight", seed=305, tenants=3)
    assert run.small(compile_round(round_))
    settings = Settings.of(round_, isolation="none", deterministic=True, time_limit=100.0)
    without = ["host-indexed model", "first LNS of the best plan", "LNS of the best plan"]
    search = partial(run.run, without=without)
    certificate = Solve(round_, settings, None, Memory(), search).plan().certificate
    assert certificate is not None
    value = certificate.terms[0]
    assert value.value >= 830_000
    assert value.bound is not None
    assert value.bound <= 858_000


@pytest.mark.nightly
def test_the_exact_model_begins_at_the_plan_that_is_known() -> None:
    problem = compile_round(generate_round(64, 25, mix="easy", seed=0))
    starts: list[bool] = []

    def solve(
        backend: str, arrays: Arrays, limits: Limits, start: NDArray[np.float64] | None
    ) -> Outcome:
        starts.append(start is not None and arrays.feasible(start))
        return InProcess().solve(backend, arrays, limits, start)

    def steps(known: Candidate | None) -> list[Candidate | Bound]:
        session = Session(solve, deadline=time.monotonic() + 1000.0, deterministic=True)
        return [*solve_exactly(problem, session, known)]

    plans = [step for step in steps(None) if isinstance(step, Candidate)]
    assert not any(starts[:2])
    starts.clear()
    steps(plans[0])
    assert starts[:3] == [False, False, True]  # the relaxation, the completed point, the search


def test_the_exact_model_proves_a_small_round_of_waiting_jobs_before_counts_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient = replace(parameters.PARAMETERS.run, max_first_exact_seconds=1000.0)
    monkeypatch.setattr(parameters, "PARAMETERS", replace(parameters.PARAMETERS, run=patient))
    round_ = generate_round(64, 24, mix="hard", seed=1)
    waiting = tuple(job for job in round_.jobs if job.running is None)
    policy = round_.policy.model_copy(update={"terms": ("value",)})
    round_ = round_.model_copy(update={"jobs": waiting, "policy": policy})
    settings = Settings.of(round_, isolation="none", time_limit=10_000.0)
    first = {"greedy", "trivial bounds", "first host-indexed model"}
    without = {phase.name for phase in run.PHASES} - first
    search = partial(run.run, without=without)
    certificate = Solve(round_, settings, None, Memory(), search).plan().certificate
    assert certificate is not None
    assert [(term.value, term.bound) for term in certificate.terms] == [(114_000, 114_000)]


@pytest.mark.nightly
def test_rounds_with_slices_of_gpus_are_searched_to_their_end() -> None:
    round_ = generate_round(256, 80, mix="shared", seed=1)
    plan = solve_round(round_, time_limit=3.0, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
