"""Large rounds with quotas: victims of the tenant that needs its quota back, and tight bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters

from examples import by_day
from placewright.formulations.gang.models.aggregate.accounts import _cuts
from placewright.formulations.gang.models.aggregate.variables import AccountRow
from placewright.instances.generators.gang import generate_round
from placewright.rounds import solve_round


@pytest.mark.parametrize(("mix", "seed"), by_day([("easy", 1), ("hard", 2)]))
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


@pytest.mark.nightly
def test_whole_jobs_prove_what_parts_of_gangs_leave_open(monkeypatch: pytest.MonkeyPatch) -> None:
    round_ = generate_round(256, 80, mix="hard", seed=4, tenants=3)
    set_parameters(monkeypatch, "run", max_exact_variables=-1)

    def bound(share: float) -> float:
        set_parameters(monkeypatch, "models", whole_jobs_share=share)
        certificate = solve_round(round_, time_limit=60.0, isolation="none").certificate
        assert certificate is not None
        value = certificate.terms[0]
        assert value.bound is not None
        return value.bound / value.value

    assert bound(0.0) > 1.01
    assert bound(0.1) < 1.001
