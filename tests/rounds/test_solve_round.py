"""What `solve_round` promises: a verified plan in any case, and bounds that hold."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]


def small(hosts: list[Raw], asked: list[Raw], **more: Any) -> Round:
    """Make a round of hosts without levels and jobs of one group."""
    jobs = [{"name": f"job-{i}", "options": [{"groups": [group]}]} for i, group in enumerate(asked)]
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs, **more})
    check_round(round_)
    return round_


def hosts(count: int, gpus: int, **more: Any) -> list[Raw]:
    return [{"name": f"h[0-{count - 1}]", "gpus": gpus, "gpu_model": "A", **more}]


def certificate_of(plan: Plan) -> Certificate:
    assert plan.certificate is not None
    return plan.certificate


ROOMY = small(hosts(3, 4), [{"gpu": 1}, {"gpu": 3}])


def test_an_aggregated_bound_is_not_held_at_values_that_no_plan_has(model: str) -> None:
    """Two hosts of 4 GPUs and 4 cores; one of two jobs of 4 GPUs wants 5 cores and fits nowhere.

    Were the value held at 8 GPUs, which sums of a class allow, two hosts would have to open.
    """
    asked = [{"gpu": 4, "cpu": 1}, {"gpu": 4, "cpu": 5}]
    round_ = small(hosts(2, 4, cpu=4), asked, policy={"terms": ["value", "opened"]})
    plan = solve_round(round_, isolation="none")
    value, opened = certificate_of(plan).terms
    assert (value.value, opened.value) == (4000, 1)
    assert opened.bound is not None
    assert opened.bound <= 1


@pytest.mark.parametrize("seconds", [1e-6, 0.003, 0.03, 0.1])
def test_next_to_no_time_gives_a_verified_plan(model: str, seconds: float) -> None:
    round_ = generate_round(64, 40, mix="hard", seed=1)
    plan = solve_round(round_, time_limit=seconds, isolation="none")
    assert verify(round_, plan).ok


def test_later_terms_are_solved_although_the_first_one_is_proven_at_once(model: str) -> None:
    plan = solve_round(ROOMY, isolation="none")
    assert [term.value for term in certificate_of(plan).terms] == [4000, 0, 0, 1]
    assert certificate_of(plan).status == "optimal"


def test_a_round_without_pending_jobs_is_optimal_at_once() -> None:
    plan = solve_round(small(hosts(1, 4), []), isolation="none")
    assert certificate_of(plan).status == "optimal"
    assert plan.decisions == ()


def test_a_gap_that_is_met_ends_the_search_within_it() -> None:
    round_ = generate_round(128, 100, mix="hard", seed=3)
    plan = solve_round(round_, gap=0.5, isolation="none")
    assert certificate_of(plan).gap is not None
    assert certificate_of(plan).gap <= 0.5
    assert certificate_of(plan).status in ("within_gap", "optimal")


def test_an_unknown_backend_is_refused(full_cluster: Round) -> None:
    with pytest.raises(ValueError, match="backend: 'abacus': expected one of"):
        solve_round(full_cluster, backend="abacus")
