"""Decomposition: if a plan is not good enough, jobs are assigned again by the rows of the bound."""

from __future__ import annotations

from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

GANG, SMALL, LARGE = 64_000, 8_000, 8_000
STOPPED = 3_000
"""Values of the jobs below, and of the two that run on the hosts that the gang needs."""


def job(name: str, gpu: int, models: list[str], **more: Any) -> dict[str, Any]:
    count = more.pop("count", 1)
    return {
        "name": name,
        "options": [{"groups": [{"count": count, "gpu": gpu, "gpu_models": models}]}],
        **more,
    }


@pytest.fixture
def crowded() -> Round:
    """A gang needs both V hosts in the east, a small job may only be there, too, on A or V.

    By what is free now the gang fits nowhere: the small job is to have V then, and the large one
    the A host beside its data. The gang comes all the same, and the small job has no place left.
    """

    def runs(host: str, gpus: int) -> dict[str, Any]:
        return {"tasks": [{"host": host, "gpus": list(range(gpus))}]}

    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": name, "level": "region"} for name in ("east", "west")],
                "hosts": [
                    {"name": "v[0-1]", "parent": "east", "gpus": 8, "gpu_model": "V"},
                    {"name": "a", "parent": "east", "gpus": 8, "gpu_model": "A"},
                    {"name": "b", "parent": "west", "gpus": 8, "gpu_model": "A"},
                ],
            },
            "jobs": [
                job("r0", 2, ["V"], running=runs("v0", 2)),
                job("r1", 1, ["V"], running=runs("v1", 1)),
                job("gang", 8, ["V"], count=2, priority=2, weight=4, regions=["east"]),
                job("small", 1, ["A", "V"], priority=3, weight=8, regions=["east"]),
                job("large", 8, ["A"], reads=[{"dataset": "d", "gib": 100}]),
            ],
            "geo": {
                "links": [
                    {"source": "east", "target": "west", "bandwidth": 8000},
                    {"source": "west", "target": "east", "bandwidth": 8000},
                ],
                "datasets": [{"name": "d", "size": 100, "replicas": ["east"]}],
            },
            "policy": {
                "formulation": "geo",
                "terms": ["value", "remote_reads"],
                "priority": "preemption",
            },
        }
    )


@pytest.fixture(autouse=True)
def _region_by_region(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)


def value(plan: Plan) -> int:
    assert plan.certificate is not None
    return plan.certificate.terms[0].value


def test_jobs_go_to_other_regions_and_models_where_a_gang_needs_more_than_is_free(
    crowded: Round,
) -> None:
    plan = solve_round(crowded, time_limit=20, isolation="none")
    assert verify(crowded, plan).ok
    assert value(plan) == GANG + SMALL + LARGE - STOPPED
    assert {d.job: d.tasks[0].host for d in plan.decisions if d.tasks and d.job != "gang"} == {
        "small": "a",
        "large": "b",
    }


def test_jobs_are_not_assigned_again_if_the_plan_is_close_to_its_bound(
    crowded: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, parameters, value_gap_rel=1.0)
    plan = solve_round(crowded, time_limit=20, isolation="none")
    assert verify(crowded, plan).ok
    assert value(plan) == GANG + LARGE - STOPPED
