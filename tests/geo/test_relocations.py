"""Tiny rounds of policy `replicas`: plans are the best of all that brute force finds."""

from __future__ import annotations

from types import ModuleType

import pytest

from placewright.rounds import solve_round

SETTLED_AFTER_A_REFUSAL = 792
"""Copies are refused, what is there stays, and a job finds its home beside it after all."""


@pytest.mark.parametrize("seeds", [range(80), range(80, 160), [SETTLED_AFTER_A_REFUSAL]])
def test_where_data_lives_is_the_best_of_all(
    replicas_oracle: ModuleType, geo_tiny: ModuleType, seeds: range
) -> None:
    for seed in seeds:
        round_ = geo_tiny.replicas(seed)
        plan = solve_round(round_, time_limit=10, isolation="none")
        certificate = plan.certificate
        assert certificate is not None
        assert not certificate.degraded, seed
        every = replicas_oracle.vectors(round_)
        reached = tuple(term.value for term in certificate.terms)
        assert reached == min(every), seed
        for k, term in enumerate(certificate.terms):
            rivals = [v[k] for v in every if all(v[i] <= reached[i] for i in range(k))]
            assert term.bound is None or term.bound <= min(rivals), (seed, term)
