"""Rounds with more ways than time: what is left of it decides what is still begun."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters
from placewright.formulations.geo.models import region_options
from placewright.formulations.geo.models.assignment_lp import monolithic_round_in_time
from placewright.formulations.geo.problem.compile import compile_geo
from placewright.formulations.session import Session
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import InProcess

REGIONS, JOBS = 8, 60


def round_with_many_region_options() -> Round:
    """Every job may run in every region, and reads what lies in one of them."""
    names = [f"r{r}" for r in range(REGIONS)]
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": name, "level": "region"} for name in names],
                "hosts": [
                    {"name": f"{name}h", "parent": name, "gpus": 8, "gpu_model": "A"}
                    for name in names
                ],
            },
            "jobs": [
                {
                    "name": f"j{j}",
                    "options": [{"groups": [{"gpu": 1}]}],
                    "reads": [{"dataset": f"d{j % REGIONS}", "gib": 5}],
                }
                for j in range(JOBS)
            ],
            "geo": {
                "links": [
                    {"source": a, "target": b, "bandwidth": 1000}
                    for a in names
                    for b in names
                    if a != b
                ],
                "datasets": [
                    {"name": f"d{r}", "size": 10, "replicas": [name]}
                    for r, name in enumerate(names)
                ],
            },
            "policy": {"formulation": "geo"},
        }
    )


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The jobs whose region options are listed, in order."""
    jobs: list[int] = []
    true = region_options.RegionOptions.of

    def of(self: region_options.RegionOptions, j: int, job: Job) -> Iterator[Any]:
        jobs.append(j)
        return true(self, j, job)

    monkeypatch.setattr(region_options.RegionOptions, "of", of)
    return jobs


def session(seconds: float) -> Session:
    return Session(solve=InProcess().solve, deadline=seconds)


def test_region_options_are_listed_for_half_of_the_time_left(
    listed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, moments = compile_geo(round_with_many_region_options()), count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(moments)))
    # Two looks at the clock a job, each of which takes a second.
    assert monolithic_round_in_time(problem, session(JOBS)) is None
    assert 0 < len(listed) <= JOBS / 4
    listed.clear()
    assert monolithic_round_in_time(problem, session(1000.0 * JOBS)) is not None
    assert listed == list(range(JOBS))


def test_after_the_deadline_no_region_options_are_listed(
    listed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0)
    round_ = round_with_many_region_options()
    plan = solve_round(round_, time_limit=0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.terms[0].value == 1000 * JOBS
    assert listed == []
