"""Bounds of rounds decided region by region know for whom jobs stop, and no plan beats them."""

from __future__ import annotations

import numpy as np
import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round
from tests.formulations.regions import geo_oracle, geo_tiny

TERMS = ("value", "remote_reads", "egress_cost", "gpu_cost")


@pytest.fixture(autouse=True)
def region_by_region(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("large", [20_000, -1], ids=["with a solver", "without"])
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_plan_beats_them_whatever_the_priorities(
    monkeypatch: pytest.MonkeyPatch, first: int, large: int
) -> None:
    monkeypatch.setattr("placewright.rounds.regions.region_rounds.LARGE", large)
    for seed in range(first, first + 20):
        drawn = geo_tiny.geo(seed, terms=TERMS)
        rng = np.random.default_rng(seed)
        jobs = tuple(
            job.model_copy(
                update={"priority": int(rng.integers(3)), "weight": int(rng.integers(1, 5))}
            )
            for job in drawn.jobs
        )
        round_ = drawn.model_copy(update={"jobs": jobs})
        plan = solve_round(round_, time_limit=10, isolation="none")
        assert plan.certificate is not None
        assert not plan.certificate.degraded
        bound = plan.certificate.terms[0].bound
        assert bound is not None
        assert bound >= max(vector[0] for vector in geo_oracle.vectors(round_)), seed


def test_what_a_job_would_leave_is_not_for_one_of_its_own_rank() -> None:
    def job(name: str, gpus: int, **more: object) -> dict[str, object]:
        return {"name": name, "options": [{"groups": [{"gpu": gpus}]}], **more}

    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": "r", "level": "region"}],
                "hosts": [{"name": "h", "parent": "r", "gpus": 2, "gpu_model": "A"}],
            },
            "geo": {"regions": [{"name": "r"}]},
            "policy": {
                "formulation": "geo",
                "terms": ["value", "remote_reads"],
                "priority": "preemption",
            },
            "jobs": [
                job("runs", 2, priority=1, running={"tasks": [{"host": "h", "gpus": [0, 1]}]}),
                job("equal", 2, priority=1, weight=5),
                job("above", 1, priority=2),
            ],
        }
    )
    plan = solve_round(round_, time_limit=10, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.terms[0].value == plan.certificate.terms[0].bound == 0
