"""Costs too large for lexicographic weights: plans with limited remote reads come first."""

from __future__ import annotations

from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters, run
from placewright.formulations.geo.heuristics.decomposition import add_data_orders
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

SIZES = (8, 7, 6, 5, 4, 3, 2, 1)


def round_of(here: int) -> Round:
    """East and west have hosts of eight GPUs; of eight jobs so many read what lies in the east."""
    jobs: list[dict[str, Any]] = [
        {
            "name": f"j{gpus}",
            "options": [{"groups": [{"gpu": gpus}]}],
            "reads": [{"dataset": "east" if k < here else "west", "gib": 1000 - 100 * gpus}],
        }
        for k, gpus in enumerate(SIZES)
    ]
    regions = ("east", "west")
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": name, "level": "region"} for name in regions],
                "hosts": [
                    {"name": f"{name}[0-3]", "parent": name, "gpus": 8, "gpu_model": "A"}
                    for name in regions
                ],
            },
            "jobs": jobs,
            "geo": {
                "links": [
                    {"source": "east", "target": "west", "bandwidth": 8000},
                    {"source": "west", "target": "east", "bandwidth": 8000},
                ],
                "datasets": [{"name": n, "size": 100, "replicas": [n]} for n in regions],
            },
            "policy": {"formulation": "geo"},
        }
    )


def term_values(plan: Plan) -> list[int]:
    assert plan.certificate is not None
    return [term.value for term in plan.certificate.terms[:2]]


@pytest.fixture(autouse=True)
def _monolithic_without_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decided region by region, and costs never count beside value."""
    set_parameters(monkeypatch, parameters, max_monolithic_size=0)
    nobody = Candidate({}, "nobody starts")
    monkeypatch.setattr(
        run,
        "decompose_by_region",
        lambda jobs, *_, **__: [add_data_orders(jobs.problem, nobody)],
    )
    set_parameters(monkeypatch, parameters, max_score=1)


@pytest.mark.parametrize("here", [0, 1, 4, 8])
def test_where_all_jobs_find_room_beside_their_data_nothing_is_read_over_links(here: int) -> None:
    round_ = round_of(here)
    if here in (0, 8):
        # All of them ask for 36 of the 32 GPUs there.
        jobs = tuple(job for job in round_.jobs if job.name != "j8")
        round_ = round_.model_copy(update={"jobs": jobs})
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert verify(round_, plan).ok
    assert term_values(plan) == [sum(job.options[0].milli_gpu for job in round_.jobs), 0]


def test_value_comes_before_reads_and_then_those_read_who_read_least() -> None:
    """Eight jobs of 36 GPUs whose data lies beside 32: who asks most goes, and reads least."""
    round_ = round_of(8)
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert verify(round_, plan).ok
    assert term_values(plan) == [36_000, 200]
