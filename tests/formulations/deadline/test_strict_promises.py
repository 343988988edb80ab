"""Strict priority: promises class by class, compared with all plans of tiny rounds.

No plan beats a bound of a class, and the promises of the highest class are the best of all plans,
then those of the next, on every backend and whichever of the models decides.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples import examples
from fuzz.small_units import as_document
from placewright import Plan, Round, load_round, solve_round, verify
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.problem import problem
from placewright.instances import verify as verification
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.instances.policies import sense_of, term_of
from placewright.rounds import prove_bounds
from tests.formulations.deadline import every_plan, every_promise, small_rounds, written_plan

Raw = dict[str, Any]
BUNDLED = "strict-promises"
LIBRARY = Path(verification.__file__).parents[1] / "library"
SEEDS = {
    "highs": range(examples(day=12, nightly=30)),
    "cp-sat": range(30, examples(day=33, nightly=40)),
    "cbc": range(40, examples(day=43, nightly=50)),
    "scip": range(50, examples(day=53, nightly=60)),
}
OTHER_MODELS = {
    "admission and placement": {"max_integrated_columns": -1},
    "master LP": {"max_integrated_columns": -1, "max_time_indexed_cells": 0},
}


def with_priorities(raw: Raw, seed: int) -> Raw:
    """A round of three problem, decided class by class."""
    rng = Random(seed)
    for job in raw["jobs"]:
        job["priority"] = rng.choice([0, 1, 2])
    return {**raw, "policy": {"formulation": "deadline"}}


def no_worse(term: str, value: float, other: float) -> bool:
    return value >= other if sense_of(term) == "max" else value <= other


def lead(values: dict[str, int]) -> list[str]:
    return [term for term in values if term_of(term) in ("broken", "admitted")]


def enumerated(raw: Raw) -> tuple[Any, list[Any], Any]:
    """The enumeration, all plans, and one with the best promises, class by class."""
    every = every_plan.Every(every_promise.Promises(raw), every_promise.Do)
    found = list(every.plans())

    def rank(one: Any) -> list[int]:
        terms = lead(one.values)
        return [one.values[t] if sense_of(t) == "min" else -one.values[t] for t in terms]

    return every, found, min(found, key=rank)


def beaten(found: list[Any], plan: Plan) -> list[tuple[str, Any]]:
    """Plans that beat a bound of a term, the earlier ones being no worse."""
    assert plan.certificate is not None
    results = [term for term in plan.certificate.terms if term.name in found[0].values]
    return [
        (term.name, other)
        for number, term in enumerate(results)
        for other in found
        if term.bound is not None
        if other.values[term.name] != term.bound
        if no_worse(term.name, other.values[term.name], term.bound)
        if all(no_worse(t.name, other.values[t.name], t.value) for t in results[:number])
    ]


def check(raw: Raw, backend: str = "highs") -> None:
    try:
        round_ = parse_round(as_document(raw))
    except InvalidInputError:
        return  # it refers to itself wrongly
    every, found, best = enumerated(raw)
    written = written_plan.written(every, round_, best)
    checked = verify(round_, written)
    assert checked.ok, checked.violations
    assert {term: checked.terms[term] for term in best.values} == best.values
    plan = solve_round(round_, backend=backend, isolation="none", time_limit=5)
    assert not beaten(found, plan)
    assert plan.certificate is not None
    values = {term.name: term.value for term in plan.certificate.terms}
    assert {t: values[t] for t in lead(values)} == {t: best.values[t] for t in lead(best.values)}
    for term in prove_bounds(round_, written, time_limit=5, isolation="none"):
        assert term.bound is None or no_worse(term.name, term.bound, term.value)


@pytest.mark.parametrize("backend", SEEDS)
def test_the_highest_class_is_promised_first(backend: str) -> None:
    for seed in SEEDS[backend]:
        check(with_priorities(small_rounds.round_of(seed), seed), backend)


@pytest.mark.parametrize("models", OTHER_MODELS)
@pytest.mark.parametrize("exact", [True, False])
def test_no_plan_beats_the_bound_of_a_class_without_the_integrated_model(
    monkeypatch: pytest.MonkeyPatch,
    models: str,
    exact: bool,
) -> None:
    """`exact`: the weights of the classes are large enough to be lexicographic."""
    changed = replace(parameters.PARAMETERS, **OTHER_MODELS[models])  # type: ignore[arg-type]
    monkeypatch.setattr(parameters, "PARAMETERS", changed)
    if not exact:
        monkeypatch.setattr(problem, "MAX_EXACT_SUM", 0)
    for seed in range(60, examples(day=65, nightly=75)):
        raw = with_priorities(small_rounds.round_of(seed), seed)
        try:
            round_ = parse_round(as_document(raw))
        except InvalidInputError:
            continue
        _, found, _ = enumerated(raw)
        assert not beaten(found, solve_round(round_, isolation="none", time_limit=5))


def test_the_bundled_round_promises_the_urgent_job_first() -> None:
    round_ = load_round(LIBRARY / f"{BUNDLED}.yaml")
    plan = solve_round(round_, isolation="none")
    assert plan.certificate is not None
    assert [(t.name, t.value, t.bound, t.asked) for t in plan.certificate.terms] == [
        ("broken", 0, 0, None),
        ("admitted_1", 1, 1, 1),
        ("admitted_2", 20, 20, 120),
        ("best_effort_1", 0, 10**6, 10**6),
        ("best_effort_2", 0, 10**6, 1_500_000),
    ]
    assert plan.certificate.gap == 0
    policy = round_.policy.model_copy(update={"priority": "preemption"})
    other: Round = round_.model_copy(update={"policy": policy})
    assert verify(other, solve_round(other, isolation="none")).terms["admitted"] == 100


def test_a_class_counts_who_may_count_in_its_term() -> None:
    """Who asks for no promise is in no class of `admitted`, who is not ready in none of the other.

    Pinned jobs count, as they may be promised something or not.
    """
    due = {"work_s": 600, "due": [{"at": 1200, "value": 7}]}
    running = {"tasks": [{"host": "h", "gpus": [0]}], "pinned": True}

    def job(name: str, priority: int, **more: Any) -> Raw:
        return {
            "name": name, "priority": priority, "options": [{"groups": [{"gpu": 1}]}], **more
        }  # fmt: skip

    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h", "gpus": 4, "gpu_model": "A"}]},
            "leases": {"length_s": 600, "horizon": 4},
            "jobs": [
                job("pinned", 3, deadline=due, running=running),
                job("asks", 2, deadline=due),
                job("asks-too", 1, deadline={**due, "ready": 600}),
                job("asks-nothing", 0),
            ],
            "policy": {"formulation": "deadline"},
        }
    )
    found = problem.classes_of_terms(round_)
    levels = {name: one.precedences[0].priority for name, one in found.items()}
    assert levels == {
        "admitted_1": 3,
        "admitted_2": 2,
        "admitted_3": 1,
        "best_effort_1": 3,
        "best_effort_2": 2,
        "best_effort_3": 0,
    }
    asked = {name: one.asked for name, one in verification.class_terms(round_).items()}
    assert asked == {name: one.asked for name, one in found.items()}
