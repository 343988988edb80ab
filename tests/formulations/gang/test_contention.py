"""The term `contention`: the optimum of enumeration, and rounds whose least a person can see."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import by_night, tried
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.gang import oracle_contention, tiny_arrangement

Raw = dict[str, Any]
STABLE = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
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


DEAR = (5, 6)
"""Tiny rounds that take four fifths of the time of the first fifteen."""


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 300), ("cp-sat", 25), ("cbc", 15), ("scip", 15)]
)
def test_tiny_rounds_have_the_optimum_of_enumeration(backend: str, examples: int) -> None:
    for seed in range(tried(examples)):
        if seed in DEAR and not by_night():
            continue
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_group_that_can_cross_no_link_starts(backend: str) -> None:
    round_ = racks_of_hosts(1, 2, [(2, 200), (1, 0)], ["value", "contention"])
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert values_of(round_, plan) == (2 * 8000, 0)


def drawn(seed: int) -> list[tuple[int, int]]:
    """Jobs of 54 to 60 whole hosts in all, with their rates."""
    rng, jobs = random.Random(seed), list[tuple[int, int]]()
    while sum(hosts for hosts, _ in jobs) < 54:
        hosts = rng.choice([1, 2, 3, 4, 6, 8, 10, 12])
        if sum(n for n, _ in jobs) + hosts <= 60:
            jobs.append((hosts, rng.choice([40, 80, 120, 200, 300]) if hosts > 1 else 0))
    return jobs


LEAST_SPREAD = (176, 352, 176, 368, 176, 96, 96, 240, 272, 272, 272, 384)
"""Of the rounds of 8 racks of 8 hosts, in whole GPUs, by seed."""


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_link_need_be_overloaded_at_the_least_spread(backend: str) -> None:
    for seed, least in enumerate(LEAST_SPREAD):
        check_least(seed, least, backend)


def test_large_rounds_relieve_links_at_no_loss_in_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    for seed, least in enumerate(LEAST_SPREAD):
        check_least(seed, least, "highs")


def check_least(seed: int, least: int, backend: str) -> None:
    jobs = drawn(seed)
    round_ = racks_of_hosts(8, 8, jobs, ["value", "spread", "contention"])
    plan = solve_round(round_, backend=backend, time_limit=300, isolation="none")
    hosts = sum(n for n, _ in jobs)
    assert values_of(round_, plan) == (hosts * 8000, least * 1000, 0), seed
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal", seed


def test_without_the_term_seven_of_twelve_rounds_overload_links() -> None:
    found = []
    for seed, least in enumerate(LEAST_SPREAD):
        round_ = racks_of_hosts(8, 8, drawn(seed), ["value", "spread"])
        plan = solve_round(round_, isolation="none")
        assert values_of(round_, plan)[1] == least * 1000
        asked = round_.policy.model_copy(update={"terms": (*round_.policy.terms, "contention")})
        counted = round_.model_copy(update={"policy": asked})
        found.append(verify(counted, plan).terms["contention"])
    assert sum(mbps > 0 for mbps in found) >= 4
    assert max(found) >= 100


@pytest.mark.nightly
@pytest.mark.parametrize("examples", [150])
def test_plans_of_large_rounds_are_valid_and_their_bounds_hold(
    monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    for seed in range(tried(examples)):
        round_ = oracle_contention.tiny_round(random.Random(seed))
        terms = round_.policy.terms
        plan = solve_round(round_, gap=0.0, isolation="none")
        values = values_of(round_, plan)
        every = oracle_contention.attainable(round_)
        assert values in every, seed
        assert plan.certificate is not None
        for at, term in enumerate(plan.certificate.terms):
            sign = oracle_contention.SENSE[term.name]
            rivals = [v[at] for v in every if v[:at] == values[:at]]
            best = max(sign * value for value in rivals)
            for bound in (term.certified, term.claimed):
                assert bound is None or sign * bound >= best, (seed, terms, term)


@pytest.mark.parametrize("cells", [6_000, -1])
@pytest.mark.parametrize("moving", [False, True])
def test_rates_of_tied_and_running_jobs_make_valid_plans(
    monkeypatch: pytest.MonkeyPatch, cells: int, moving: bool
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=cells)

    @settings(max_examples=tried(25), **STABLE)
    @given(tiny_arrangement.rounds(moving=moving), st.data())
    def check(round_: Round, data: st.DataObject) -> None:
        raw = round_.model_dump()
        for job in raw["jobs"]:
            for option in job["options"]:
                for group in option["groups"]:
                    rate = data.draw(st.sampled_from([0, 60, 100]))
                    group["communication"] = {"rate_mbps": rate}
        raw["cluster"]["links"] = {
            level: {"bandwidth_mbps": 90, "latency_us": 1.0}
            for level in (*raw["cluster"]["levels"], "host")
        }
        terms = [*raw["policy"]["terms"]]
        raw["policy"]["terms"] = [*terms[:1], "contention", *terms[1:]]
        rated = Round.model_validate(raw)
        values_of(rated, solve_round(rated, gap=0.0, isolation="none"))

    check()


def test_a_domain_counts_the_width_of_its_own_uplink() -> None:
    def crossing(**rack: int) -> Plan:
        cluster = {
            "levels": ["rack"],
            "domains": [{"name": "r0", "level": "rack", **rack}, {"name": "r1", "level": "rack"}],
            "hosts": [
                {"name": f"h{r}", "parent": f"r{r}", "gpus": 1, "gpu_model": "A"} for r in range(2)
            ],
            "links": {"rack": {"bandwidth_mbps": 100, "latency_us": 1.0}},
        }
        group = {"count": 2, "gpu": 1, "communication": {"rate_mbps": 80}}
        job = {"name": "j", "options": [{"groups": [group]}]}
        policy = {"terms": ["value", "contention"]}
        round_ = Round.model_validate({"cluster": cluster, "jobs": [job], "policy": policy})
        return solve_round(round_, gap=0.0, isolation="none")

    for rack, over in (({}, 0), ({"uplink_mbps": 30}, 50), ({"uplink_mbps": 200}, 0)):
        certificate = crossing(**rack).certificate
        assert certificate is not None
        assert [(t.value, t.bound) for t in certificate.terms] == [(2000, 2000), (over, over)]
