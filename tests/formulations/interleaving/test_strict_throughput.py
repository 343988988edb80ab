"""Strict priority: weighted throughput class by class, compared with all plans of tiny rounds.

No plan beats a bound of a class, whichever method packs the groups, and a class whose value is
proven has the best of all plans that are as good in the classes above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from examples import examples
from placewright.formulations.interleaving import parameters
from placewright.instances.documents.plan import Certificate
from placewright.instances.documents.round import Round
from placewright.instances.verify import class_terms, verify
from placewright.rounds import prove_bounds, solve_round
from tests.formulations.interleaving import oracle, tiny

SEEDS = {
    "highs": range(examples(day=7, nightly=40)),
    "cp-sat": range(40, examples(day=44, nightly=52)),
    "cbc": range(52, examples(day=56, nightly=64)),
    "scip": range(64, examples(day=68, nightly=76)),
}
MANY_COLUMNS = {
    "column generation": {"max_enumerated_columns": 0, "min_template_columns": 10**9},
    "templates": {
        "max_enumerated_columns": 0,
        "min_template_columns": -1,
        "min_columns_per_template": 1,
    },
}


def strict(round_: Round) -> Round:
    """The round with `weighted_throughput` first, by class."""
    terms = ("weighted_throughput", *round_.policy.terms[1:])
    policy = round_.policy.model_copy(update={"priority": "strict", "terms": terms})
    return round_.model_copy(update={"policy": policy})


def certificate_of(round_: Round, backend: str = "highs") -> Certificate:
    """The certificate of a plan, which is valid."""
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan.certificate


def rounds_with_classes(seeds: range, *, running: bool) -> Iterator[Round]:
    for seed in seeds:
        round_ = strict(tiny.random_round(seed, running=running))
        if class_terms(round_):
            yield round_


def check(round_: Round, backend: str = "highs") -> bool:
    """Whether the plan is the best of all; no bound that speaks of the best plan is beaten."""
    best = oracle.best(round_).values
    terms = certificate_of(round_, backend).terms[: len(best)]
    found = tuple(term.value for term in terms)
    assert found <= best
    for k, term in enumerate(terms):
        if found[:k] != best[:k]:
            break
        assert all(b is None or b >= best[k] for b in (term.certified, term.claimed))
    return found == best


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("backend", SEEDS)
def test_the_highest_class_is_served_first(backend: str, running: bool) -> None:
    """As with one term, rows do not know single hosts, nor what running groups leave."""
    rounds = rounds_with_classes(SEEDS[backend], running=running)
    missed = [check(round_, backend) for round_ in rounds].count(False)
    assert missed <= (2 if running else 1)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("method", MANY_COLUMNS)
@pytest.mark.parametrize("running", [False, True])
def test_weighted_classes_bound_each_class(
    monkeypatch: pytest.MonkeyPatch, method: str, running: bool
) -> None:
    changed = replace(parameters.PARAMETERS, **MANY_COLUMNS[method])  # type: ignore[arg-type]
    monkeypatch.setattr(parameters, "PARAMETERS", changed)
    for round_ in rounds_with_classes(range(examples(day=3, nightly=8)), running=running):
        check(round_)


def job(name: str, **more: Any) -> dict[str, Any]:
    profile = {"stages": [10, 0, 0, 0]}
    return {"name": name, "options": [{"groups": [{"gpu": 1}]}], "profile": profile, **more}


def round_of(*jobs: dict[str, Any], gpus: int = 1, **policy: Any) -> Round:
    document = {
        "cluster": {"hosts": [{"name": "h", "gpus": gpus, "gpu_model": "A"}]},
        "jobs": jobs,
        "policy": {"formulation": "interleaving", **policy},
    }
    return Round.model_validate(document)


RUNS = {"tasks": [{"host": "h", "gpus": [0]}]}


def test_a_pinned_job_counts_in_no_class() -> None:
    pinned = job("pinned", running={**RUNS, "pinned": True}, priority=7)
    round_ = round_of(pinned, job("high", priority=7), job("low", weight=9), gpus=2)
    first, second, *_ = certificate_of(round_).terms
    assert [(t.name, t.value, t.bound, t.asked) for t in (first, second)] == [
        ("weighted_throughput_1", 10**6, 10**6, 10**6),
        ("weighted_throughput_2", 0, 0, 9 * 10**6),
    ]


def test_running_jobs_count_in_their_class() -> None:
    round_ = round_of(job("runs", running=RUNS), job("high", priority=1), job("low"), gpus=2)
    terms = certificate_of(round_).terms
    assert [(t.value, t.bound) for t in terms[:2]] == [(10**6, 10**6), (10**6, 10**6)]


@pytest.mark.parametrize("priority", ["strict", "preemption"])
def test_an_opportunistic_job_stops_for_one_of_lower_priority(priority: str) -> None:
    round_ = round_of(
        job("runs", running=RUNS, priority=5, opportunistic=True),
        job("waits", weight=3),
        priority=priority,
    )
    first = certificate_of(round_).terms[0]
    assert (first.value, first.bound) == (3 * 10**6, 3 * 10**6)


def test_terms_without_weights_have_no_classes() -> None:
    round_ = round_of(job("low"), job("high", priority=1), terms=("throughput", "opened"))
    assert [term.name for term in certificate_of(round_).terms] == ["throughput", "opened"]


def test_bounds_of_any_plan_hold_by_class() -> None:
    for round_ in rounds_with_classes(range(80, 90), running=True):
        best = oracle.best(round_)
        results = prove_bounds(round_, best.plan, isolation="none")
        for term, value in zip(results, best.values, strict=False):
            assert term.value == value
            assert term.bound is None or term.bound >= value
