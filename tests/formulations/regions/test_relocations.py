"""Tiny rounds of policy `replicas`: plans are the best of all that brute force finds."""

from __future__ import annotations

import numpy as np
import pytest

from examples import examples
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.rounds import solve_round
from tests.formulations.regions import geo_tiny, replicas_oracle

SETTLED_AFTER_A_REFUSAL = 792
"""Copies are refused, what is there stays, and a job finds its home beside it after all."""


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    "seeds", [range(examples(day=8, nightly=80)), range(80, 160), [SETTLED_AFTER_A_REFUSAL]]
)
def test_where_data_lives_is_the_best_of_all(seeds: range) -> None:
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


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [13, 15])
def test_no_plan_of_a_sparse_wan_has_homes_without_their_data(seed: int) -> None:
    rng = np.random.default_rng(seed)
    regions = int(rng.integers(4, 9))
    datasets = int(rng.integers(30, 50))
    jobs = max(datasets * 3, 64 * regions)
    drawn = generate(
        regions=regions, datasets=datasets, jobs=jobs, gpus=8 * (jobs * 3 // 8), seed=seed
    ).model_dump(mode="json")
    names = [region["name"] for region in drawn["geo"]["regions"]]
    for link in drawn["geo"]["links"]:
        link["bandwidth"] *= int(rng.random() < 0.7)
    for dataset in drawn["geo"]["datasets"]:
        if rng.random() < 0.3:
            dataset["regions"] = sorted({*dataset["replicas"], *rng.choice(names, 2).tolist()})
        if rng.random() < 0.05:
            dataset["replicas"] = []
    for job in drawn["jobs"]:
        for read in job["reads"]:
            read["remote"] = bool(rng.random() < 0.8)
    plan = solve_round(Round.model_validate(drawn), time_limit=3, isolation="none")
    assert plan.certificate is not None
    # On a busy machine there is no compiled annealing within the limit.
    faults = [fault for fault in plan.certificate.degraded if "machine code" not in fault]
    assert faults == []
