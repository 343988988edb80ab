"""The cutting stock for contention: bounds that hold, and are met, in rounds of racks."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest
from gang_parameters import set_parameters

from examples import tried
from placewright.formulations.gang import run
from placewright.formulations.gang.bounds import contention_bounds
from placewright.formulations.gang.heuristics import contention
from placewright.formulations.gang.models.link_patterns import DomainKind, GangKind, LinkPatterns
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round
from placewright.solver import InProcess
from tests.formulations.gang import oracle_contention

Counts = dict[Any, int]


def full_round(seed: int) -> Round:
    """Four racks of 4 hosts, all of them asked; two gangs mostly overload a link they share."""
    rng, jobs, free = random.Random(seed), [], 16
    while free:
        hosts = rng.choice([1, 2, 3, 5, 6, 7])
        if hosts <= free:
            free -= hosts
            group: dict[str, Any] = {"gpu": 8, "count": hosts}
            group["communication"] = {"rate_mbps": rng.choice([120, 200, 300])}
            jobs.append({"name": f"j{len(jobs)}", "options": [{"groups": [group]}]})
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": f"r{r}", "level": "rack"} for r in range(4)],
        "hosts": [
            {"name": f"r{r}-h[0-3]", "parent": f"r{r}", "gpus": 8, "gpu_model": "H100"}
            for r in range(4)
        ],
        "links": {"rack": {"bandwidth_mbps": 250, "latency_us": 1.0}},
    }
    policy = {"terms": ["value", "spread", "contention"]}
    return Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": policy})


def session_with(best: dict[str, int]) -> Session:
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0, deterministic=True)
    session.best_known.values = best
    return session


def least(gangs: Counts, domains: Counts, spread: int | None) -> float | None:
    program = LinkPatterns(Counter(gangs), Counter(domains), spread)
    assert program.enumerate_columns()
    outcome = program.solve(session_with({}))
    assert outcome is not None
    return outcome.objective


@pytest.mark.parametrize(("racks", "expected"), [(3, 100), (4, 0)])
def test_two_gangs_of_six_in_racks_of_four(racks: int, expected: int) -> None:
    gangs = {GangKind(6, outside=False, rate=200, step=1): 2}
    assert least(gangs, {DomainKind(4, 300): racks}, 2) == expected


def test_a_gang_with_tasks_elsewhere_sends_from_where_it_is_whole() -> None:
    domains = {DomainKind(4, 150): 1}
    assert least({GangKind(2, outside=False, rate=200, step=1): 1}, domains, None) == 0
    assert least({GangKind(2, outside=True, rate=200, step=1): 1}, domains, None) == 50


def test_what_others_overload_counts_only_what_is_added() -> None:
    gangs = {GangKind(2, outside=False, rate=70, step=1): 1}
    assert least(gangs, {DomainKind(1, -30): 1, DomainKind(1, 100): 1}, None) == 70


def test_spread_limits_the_cuts() -> None:
    """In one rack of four and four racks of two: whole, or in two parts that send."""
    gangs = {
        GangKind(4, outside=False, rate=200, step=1): 1,
        GangKind(2, outside=False, rate=0, step=1): 2,
    }
    domains = {DomainKind(4, 100): 1, DomainKind(2, 100): 2}
    assert least(gangs, domains, 0) == 0
    assert not LinkPatterns(Counter(gangs), Counter(domains), -1).enumerate_columns()


@pytest.mark.parametrize("examples", [300])
def test_no_plan_of_tiny_rounds_beats_the_bound(examples: int) -> None:
    positive = met = 0
    for seed in range(tried(examples)):
        raw = oracle_contention.tiny_round(random.Random(seed)).model_dump()
        for job in raw["jobs"]:
            job["running"] = None
        if random.Random(seed).random() < 0.7:
            terms = random.Random(seed).choice(
                [["value", "contention"], ["value", "spread", "contention"]]
            )
            raw["policy"]["terms"] = terms
        round_ = Round.model_validate(raw)
        terms = list(round_.policy.terms)
        best = oracle_contention.best_of(round_.policy.terms, oracle_contention.attainable(round_))
        values = dict(zip(terms, best, strict=True))
        for bound in contention_bounds(compile_round(round_), session_with(values)):
            assert bound.value <= values["contention"], seed
            assert dict(bound.holds) == {t: values[t] for t in terms[: terms.index("contention")]}
            positive += bound.value > 0
            met += bound.value == values["contention"]
    assert positive
    assert met


@pytest.mark.parametrize("examples", [8])
def test_full_rounds_have_the_optimum_of_the_exact_model(
    monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    above = 0
    for seed in range(tried(examples)):
        round_ = full_round(seed)
        with monkeypatch.context() as patch:
            set_parameters(patch, "run", max_exact_variables=-1)
            ours = solve_round(round_, isolation="none").certificate
        with monkeypatch.context() as patch:
            patch.setattr(run, "contention_bounds", lambda *_: iter(()))
            patch.setattr(contention, "cut_anew", lambda *_: None)
            exact = solve_round(round_, isolation="none").certificate
        assert ours is not None
        assert exact is not None
        assert exact.status == ours.terms[-1].status == "optimal", seed
        assert [t.value for t in ours.terms] == [t.value for t in exact.terms], seed
        above += ours.terms[-1].value > 0
    assert above


def test_where_no_gang_sends_there_is_nothing_to_cut() -> None:
    program = LinkPatterns(Counter(), Counter({DomainKind(8, 100): 2}), None)
    assert not program.enumerate_columns()
