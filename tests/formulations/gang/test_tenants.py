"""Large rounds with quotas: victims of the tenant that needs its quota back, and tight bounds."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters

from fuzz.small_units import as_document
from placewright.formulations.gang.heuristics.lns import large_neighbourhood_search
from placewright.formulations.gang.heuristics.tenant_hosts import draw_tenant_hosts
from placewright.formulations.gang.models.aggregate.account_cuts import _cuts
from placewright.formulations.gang.models.aggregate.variables import AccountRow
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.rounds import solve_round
from placewright.solver import InProcess


@pytest.mark.parametrize(("mix", "seed"), [("easy", 1), ("hard", 2)])
def test_victims_are_of_the_tenants_that_need_their_quota_back(
    monkeypatch: pytest.MonkeyPatch, mix: Any, seed: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=0)
    round_ = generate_round(512, 150, mix=mix, seed=seed, tenants=6)
    certificate = solve_round(round_, time_limit=60.0, isolation="none").certificate
    assert certificate is not None
    value = certificate.terms[0]
    assert value.bound is not None
    assert value.bound <= value.value * 1.002


def test_a_gang_in_a_quota_is_weighed_against_all_that_it_would_take() -> None:
    row = AccountRow(np.arange(54), np.array([128, *[1] * 53]), most=133)
    point = np.array([80 / 128, *[1.0] * 53])
    excess = [weights @ point - most for weights, most in _cuts(row, np.ones(54, np.int64), point)]
    # Beside the gang run five, without it all 53: 48 y + the others <= 53.
    assert max(excess) == pytest.approx(48 * 80 / 128)


def test_a_neighbourhood_has_the_gang_that_waits_for_a_quota() -> None:
    def job(name: str, count: int, weight: int) -> dict[str, Any]:
        group = {"gpu": 4000, "count": count}
        return {"name": name, "tenant": "a", "weight": weight, "options": [{"groups": [group]}]}

    hosts = [{"name": name, "gpus": 4, "gpu_model": "A"} for name in ("h0", "h1")]
    tenants = [{"name": "a", "quota": {"gpu": 8000}}]
    jobs = [job("gang", 2, 4), job("small", 1, 1), job("other", 1, 1)]
    document = {"cluster": {"hosts": hosts}, "tenants": tenants, "jobs": jobs}
    problem = compile_round(Round.model_validate(as_document(document)))
    placement = Placement(problem)
    gang = next(
        c for c, job_class in enumerate(problem.classes) if job_class.choices[0].num_tasks > 1
    )
    placement.waiting[gang] = 0
    fill_by_policy(placement)
    placement.waiting[gang] = 1
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    list(large_neighbourhood_search(problem, session, placement))
    assert placement.waiting[gang] == 0


def test_jobs_without_value_draw_no_neighbourhood() -> None:
    job = {"name": "j", "tenant": "a", "options": [{"groups": [{"gpu": 1000}], "value": 0}]}
    hosts = [{"name": "h0", "gpus": 4, "gpu_model": "A"}]
    tenants = [{"name": "a", "quota": {"gpu": 8000}}]
    document = {"cluster": {"hosts": hosts}, "tenants": tenants, "jobs": [job]}
    problem = compile_round(Round.model_validate(as_document(document)))
    assert not len(draw_tenant_hosts(problem, Placement(problem), np.random.default_rng(0)))
