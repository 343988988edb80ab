"""The assignment model assigns whole jobs, and bounds the value of whole jobs."""

from __future__ import annotations

import time

import numpy as np
import pytest
from formulation_parameters import set_parameters

from placewright.formulations.geo import parameters
from placewright.formulations.geo.heuristics.assign import solve_core_mip
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round
from placewright.solver import InProcess, Model


def test_the_core_mip_uses_capacity_that_rounding_down_would_leave() -> None:
    model = Model()
    gangs = model.variables("gangs", 1, upper=np.array([5.0]))
    singles = model.variables("singles", 1, upper=np.array([1.0]))
    both = np.append(gangs, singles)
    room = model.rows("room", 1, upper=np.array([3.0]))
    model.add(room[np.zeros(2, dtype=np.int64)], both, np.array([2.0, 1.0]))
    model.term("worth", both, np.array([4.0, 1.0]), sense="max")
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    found = solve_core_mip(model.arrays("worth"), session, 1.0)
    assert found is not None
    assert found.tolist() == [1.0, 1.0]


def test_half_a_job_is_worth_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, parameters, max_monolithic_size=0, max_refined_size=0)
    groups = [{"gpu": 2}]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": "r", "level": "region"}],
                "hosts": [{"name": "h", "parent": "r", "gpus": 3, "gpu_model": "A"}],
            },
            "geo": {"regions": [{"name": "r"}]},
            "policy": {"formulation": "geo", "terms": ["value", "remote_reads"]},
            "jobs": [{"name": f"job-{k}", "options": [{"groups": groups}]} for k in range(2)],
        }
    )
    plan = solve_round(round_, time_limit=10, isolation="none")
    assert plan.certificate is not None
    value = plan.certificate.terms[0]
    assert value.value == value.bound
    assert value.proof == "claimed"
