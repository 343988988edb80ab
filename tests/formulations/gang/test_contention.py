"""The term `contention`: the optimum of enumeration, and rounds whose least a person can see."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from examples import tried
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
BACKENDS = ("highs", "cp-sat", "cbc", "scip")


def racks_of_hosts(
    racks: int, hosts: int, jobs: Sequence[tuple[int, int]], terms: Sequence[str]
) -> Round:
    """Racks of hosts of 8 GPUs with links of 300 Mbit/s; jobs of (whole hosts, rate)."""
    cluster: Raw = {
        "levels": ["rack"],
        "domains": [{"name": f"r{r}", "level": "rack"} for r in range(racks)],
        "hosts": [
            {
                "name": f"r{r}-h[0-{hosts - 1}]",
                "parent": f"r{r}",
                "gpus": 8,
                "gpu_model": "H100",
            }
            for r in range(racks)
        ],
        "links": {"rack": {"bandwidth_mbps": 300, "latency_us": 1.0}},
    }
    asked: list[Raw] = []
    for i, (count, rate) in enumerate(jobs):
        group: Raw = {"gpu": 8, "count": count}
        if rate:
            group["communication"] = {"rate_mbps": rate}
        asked.append({"name": f"j{i}", "options": [{"groups": [group]}]})
    raw = {"cluster": cluster, "jobs": asked, "policy": {"terms": list(terms)}}
    return Round.model_validate(raw)


def values_of(round_: Round, plan: Plan) -> tuple[int, ...]:
    found = verify(round_, plan)
    assert found.ok, found.findings
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    values = tuple(term.value for term in plan.certificate.terms)
    assert values == tuple(found.terms.values())
    return values


@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 300), ("cp-sat", 25), ("cbc", 15), ("scip", 15)]
)
def test_tiny_rounds_have_the_optimum_of_enumeration(
    oracle_contention: Any, backend: str, examples: int
) -> None:
    for seed in range(tried(examples)):
        round_ = oracle_contention.tiny_round(random.Random(seed))
        plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
        best = oracle_contention.best_of(round_.policy.terms, oracle_contention.attainable(round_))
        assert values_of(round_, plan) == best, seed
        assert plan.certificate is not None
        assert plan.certificate.status == "optimal", seed


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("racks", "least"), [(4, 0), (3, 100)])
def test_two_jobs_share_as_few_links_as_they_can(backend: str, racks: int, least: int) -> None:
    """Two jobs of 6 hosts at 200 in racks of 4: in four racks each has two, in three they meet."""
    round_ = racks_of_hosts(racks, 4, [(6, 200)] * 2, ["value", "spread", "contention"])
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    value, _, contention = values_of(round_, plan)
    assert (value, contention) == (2 * 6 * 8000, least)
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
