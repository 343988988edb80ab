"""Priority classes: which there are, what they ask, and what a certificate has to say of them."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.formulations.gang.problem.jobs import priority_classes
from placewright.instances.documents.plan import Plan, Precedence
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.verify import class_terms, verify
from placewright.rounds import solve_round

HOST = {"name": "h0", "gpus": 8, "gpu_model": "A100"}


def job(name: str, priority: int, gpus: int, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "priority": priority,
        "options": [{"groups": [{"gpu": gpus}]}],
        **more,
    }


def round_of(*jobs: dict[str, Any], **more: Any) -> Round:
    return Round.model_validate({"cluster": {"hosts": [HOST]}, "jobs": list(jobs), **more})


def on(*gpus: int, pinned: bool = False) -> dict[str, Any]:
    return {"running": {"tasks": [{"host": "h0", "gpus": gpus}], "pinned": pinned}}


def classes(round_: Round) -> list[tuple[tuple[int, ...], int]]:
    """Priorities of each class and what it asks, as verifier and formulation both have it."""
    found = [
        (tuple(level.priority for level in one.precedences), one.asked)
        for one in class_terms(round_).values()
    ]
    assert found == [
        (tuple(level.priority for level in one.precedences), one.asked)
        for one in priority_classes(round_)
    ]
    return found


def test_the_classes_are_those_of_jobs_that_compete() -> None:
    jobs = (job("low", 0, 8), job("high", 9, 4), job("beside", 9, 2))
    running = (job("runs", 5, 2, **on(0, 1)), job("stays", 7, 1, **on(2, pinned=True)))
    assert classes(round_of(*jobs, *running)) == [((9,), 6000), ((5,), 2000), ((0,), 8000)]


def test_one_precedence_of_all_that_compete_is_no_class() -> None:
    pinned = job("stays", 7, 1, **on(2, pinned=True))
    assert classes(round_of(job("a", 3, 8), job("runs", 3, 2, **on(0, 1)), pinned)) == []
    assert classes(round_of(job("a", 3, 8), job("runs", 0, 2, **on(0, 1)), pinned)) == [
        ((3,), 8000),
        ((0,), 2000),
    ]
    assert classes(round_of(job("runs", 3, 2, **on(0, 1)), job("too", 0, 1, **on(3)))) == [
        ((3,), 2000),
        ((0,), 1000),
    ]


@pytest.mark.parametrize("policy", [{"priority": "preemption"}, {"terms": ["disruption"]}])
def test_without_strict_priority_or_value_there_are_no_classes(policy: dict[str, Any]) -> None:
    assert classes(round_of(job("a", 3, 8), job("b", 0, 4), policy=policy)) == []


def test_neighbours_of_least_weight_are_merged_beyond_eight_classes() -> None:
    sizes = {9: 8, 8: 1, 7: 1, 6: 8, 5: 8, 4: 2, 3: 1, 2: 8, 1: 8, 0: 8}
    found = classes(round_of(*(job(f"j{p}", p, gpus) for p, gpus in sizes.items())))
    assert [priorities for priorities, _ in found] == [
        (9,), (8, 7), (6,), (5,), (4, 3), (2,), (1,), (0,),
    ]  # fmt: skip
    assert found[1] == ((8, 7), 2000)


def test_the_higher_class_starts_first() -> None:
    round_ = round_of(job("low", 0, 8), job("high", 100, 4))
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).terms["value_1"] == 4000
    assert plan.certificate is not None
    first, second, *_ = plan.certificate.terms
    assert (first.name, first.precedences, first.asked) == (
        "value_1",
        (Precedence(priority=100),),
        4000,
    )
    assert (second.name, second.value, second.bound, second.gap) == ("value_2", 0, 0, 0)
    assert plan.certificate.status == "optimal"


def test_the_gap_of_a_class_is_relative_to_what_it_asks() -> None:
    round_ = round_of(job("low", 0, 8), job("high", 100, 4))
    plan = solve_round(round_, time_limit=0.0, isolation="none")
    assert plan.certificate is not None
    assert [term.gap for term in plan.certificate.terms[:2]] == [0, 1.0]
    assert plan.certificate.gap == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"precedences": ()},
        {"precedences": (Precedence(priority=99),)},
        {"precedences": (Precedence(priority=100, entitled=False),)},
        {"asked": 5000},
        {"asked": None},
    ],
)
def test_a_certificate_that_misstates_a_class_is_refused(wrong: dict[str, Any]) -> None:
    round_ = round_of(job("low", 0, 8), job("high", 100, 4))
    plan = solve_round(round_, isolation="none")
    assert plan.certificate is not None
    first, *rest = plan.certificate.terms
    terms = (first.model_copy(update=wrong), *rest)
    certificate = plan.certificate.model_copy(update={"terms": terms})
    broken = verify(round_, plan.model_copy(update={"certificate": certificate})).violations
    assert {violation.rule for violation in broken} == {"certificate_classes"}


def test_a_plan_with_classes_is_read_as_it_was_written() -> None:
    round_ = round_of(job("low", 0, 8), job("high", 100, 4))
    plan = solve_round(round_, isolation="none")
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize("formulation", ["replicas"])
def test_other_policies_refuse_strict_priority(formulation: str) -> None:
    assert Policy(formulation=formulation).priority == "preemption"
    with pytest.raises(InvalidInputError, match="not for policy"):
        Policy(formulation=formulation, priority="strict")


TURNS = {"profile": {"stages": [9, 5, 4, 3]}}
PROMISED = {"deadline": {"work_s": 600, "due": [{"at": 1800, "value": 5}]}}


@pytest.mark.parametrize(
    ("formulation", "more", "terms"),
    [
        ("interleaving", TURNS, ("weighted_throughput",)),
        ("deadline", PROMISED, ("admitted", "best_effort")),
    ],
)
def test_classes_of_other_terms_are_merged_alike(
    formulation: str, more: dict[str, Any], terms: tuple[str, ...]
) -> None:
    """Formulation and verifier each have their own; the certificate is checked by the latter's."""
    jobs = [job(f"j{priority}", priority, 1, **more) for priority in range(10)]
    round_ = round_of(*jobs, policy={"formulation": formulation})
    plan = solve_round(round_, isolation="none", time_limit=5)
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    for term in terms:
        found = [
            [one.priority for one in result.precedences]
            for result in plan.certificate.terms
            if result.name.startswith(term)
        ]
        assert found == [[9], [8], [7], [6], [5], [4], [3, 2], [1, 0]]
