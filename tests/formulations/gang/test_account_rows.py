"""Quotas in the aggregate model: whole jobs, precedence, and cuts that no plan violates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import given
from hypothesis import strategies as st

from placewright.formulations.gang.models.aggregate.accounts import _cuts
from placewright.formulations.gang.models.aggregate.variables import AccountRow
from placewright.instances.documents.plan import TermResult
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round


def job(name: str, gpu: int, host: str | None = None, **fields: Any) -> dict[str, Any]:
    group = {"gpu": gpu} if host is None else {"gpu": gpu, "hosts": [host]}
    return {"name": name, "tenant": "a", "options": [{"groups": [group]}], **fields}


def running(host: str, *gpus: int) -> dict[str, Any]:
    return {"tasks": [{"host": host, "gpus": list(gpus)}]}


def round_of(jobs: list[dict[str, Any]], quota: int, tenant: dict[str, Any] | None = None) -> Round:
    models = {"h0": "C", "h1": "A", "h2": "A"}
    hosts = [{"name": name, "gpus": 8, "gpu_model": model} for name, model in models.items()]
    return Round.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "name": "tenants",
            "cluster": {"levels": [], "hosts": hosts},
            "tenants": [{"name": "a", "quota": {"gpu": quota}, **(tenant or {})}, {"name": "b"}],
            "jobs": jobs,
            "policy": {"terms": ["value"], "priority": "preemption"},
        }
    )


def value_of(round_: Round) -> TermResult:
    certificate = solve_round(round_, gap=0.0, isolation="none").certificate
    assert certificate is not None
    assert not certificate.degraded
    return certificate.terms[0]


@pytest.fixture
def on_the_path_of_large_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)


@pytest.mark.usefixtures("on_the_path_of_large_rounds")
def test_no_part_starts_of_a_job_beyond_its_quota() -> None:
    gang = {"options": [{"groups": [{"gpu": 8, "count": 2}]}]}
    found = value_of(round_of([job("large", 8, weight=8, **gang), job("small", 4)], quota=12))
    assert (found.value, found.certified) == (4000, 4000)


@pytest.mark.usefixtures("on_the_path_of_large_rounds")
def test_equals_make_no_room_in_a_quota() -> None:
    jobs = [
        job("low", 2, priority=0, running=running("h1", 0, 1)),
        job("equal", 2, priority=1, running=running("h1", 2, 3)),
        job("waits", 2, priority=1, weight=9),
        job("waits-too", 2, priority=1, weight=5),
    ]
    found = value_of(round_of(jobs, quota=4))
    # One of them has what the job of lower priority gives back, and nobody what its equal holds.
    assert (found.value, found.certified) == (16_000, 16_000)


@pytest.mark.usefixtures("on_the_path_of_large_rounds")
def test_cuts_fill_a_quota_with_whole_jobs() -> None:
    jobs = [job("large", 8, weight=4), job("middle", 4, weight=3), job("small", 2, weight=2)]
    found = value_of(round_of(jobs, quota=11))
    # Without them 0.6 of the large one start beside both others.
    assert (found.value, found.certified) == (36_000, 36_000)


@pytest.mark.parametrize("variables", [-1, 10_000])
def test_a_bound_knows_of_guaranteed_jobs_that_victims_make_room_for(
    monkeypatch: pytest.MonkeyPatch, variables: int
) -> None:
    """A job may stop for a guaranteed one that starts, which the residual round has pinned."""
    set_parameters(monkeypatch, "run", max_exact_variables=variables)
    guaranteed = {
        "name": "g",
        "tenant": "a",
        "options": [{"groups": [{"gpu": 8, "gpu_models": ["C"]}]}],
    }
    jobs = [
        guaranteed,
        job("victim", 8, "h1", opportunistic=True, running=running("h1", *range(8))),
        job("other", 8, "h1", priority=2, weight=5) | {"tenant": "b"},
        job("equal", 8, "h2", weight=3, opportunistic=True),
    ]
    cells = {"cells": [{"gpu_model": "C", "level": "host", "count": 1}]}
    found = value_of(round_of(jobs, 16, cells))
    # All but the victim run, and it names both who are above it.
    assert found.certified is not None
    assert found.certified >= 8000 * (1 + 5 + 3 - 1)


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@given(sizes, st.integers(0, 30), st.data())
def test_cuts_hold_for_all_whole_numbers(
    amounts: list[int], most: int, data: st.DataObject
) -> None:
    size = np.array(amounts, dtype=np.int64)
    upper = np.array(data.draw(st.tuples(*(st.integers(0, 3) for _ in amounts))), dtype=np.int64)
    share = np.array(data.draw(st.tuples(*(st.integers(0, 4) for _ in amounts)))) / 4
    plans = np.stack(np.meshgrid(*(np.arange(u + 1) for u in upper), indexing="ij"), axis=-1)
    plans = plans.reshape(-1, len(size))
    plans = plans[plans @ size <= most]
    row = AccountRow(np.arange(len(size)), size, most)
    for weights, limit in _cuts(row, upper, share * upper):
        assert (plans @ weights).max(initial=0) <= limit
        assert weights @ (share * upper) > limit
