"""Rules about certificates: a claim of a plan that is not true breaks one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from corrupting import Corruption, Edit, Raw, broken_alone, rules_in, set_in
from placewright.instances.documents.plan import Certificate, Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_plan
from placewright.instances.verify import Verification, rule_ids, verify, verify_certificate

ROUND = Round.model_validate(
    {
        "cluster": {"hosts": [{"name": "h[0-3]", "gpus": 4, "gpu_model": "T4"}]},
        "jobs": [
            {"name": "a", "options": [{"groups": [{"gpu": 4, "count": 3}]}]},
            {"name": "b", "options": [{"groups": [{"gpu": 4}]}]},
        ],
        "policy": {"terms": ["value", "spread", "opened"]},
    }
)
TERMS = {"value": 12000, "spread": 0, "opened": 3}
CERTIFICATE: Raw = {
    "status": "feasible",
    "gap": 0.25,
    "terms": [
        {
            "name": "value",
            "sense": "max",
            "value": 12000,
            "bound": 16000,
            "proof": "certified",
            "certified": 16000,
            "claimed": 17000,
            "gap": 0.25,
        },
        {
            "name": "spread",
            "sense": "min",
            "value": 0,
            "bound": 0,
            "proof": "claimed",
            "claimed": 0,
            "gap": 0,
        },
        {"name": "opened", "sense": "min", "value": 3},
    ],
    "backend": "highs",
    "versions": {},
    "seed": 0,
}


PLAN: Raw = {
    "decisions": [
        {
            "job": "a",
            "decision": "start",
            "option": 0,
            "tasks": [{"index": i, "host": f"h{i}", "gpus": [0, 1, 2, 3]} for i in range(3)],
        },
        {"job": "b", "decision": "wait"},
    ],
    "certificate": CERTIFICATE,
}


def check(edit: Edit) -> Verification:
    corrupted = copy.deepcopy(PLAN)
    edit(corrupted)
    return verify(ROUND, Plan.model_validate(corrupted))


def set_term(index: int, /, **fields: Any) -> Edit:
    return lambda raw: raw["certificate"]["terms"][index].update(fields)


def set_first_gap(gap: float | None, **fields: Any) -> Edit:
    """An edit of the first term that keeps the certificate's own gap in step."""
    return lambda raw: (
        set_term(0, gap=gap, **fields)(raw),
        set_in("certificate", "gap", to=gap)(raw),
    )


def swap_terms(raw: Raw) -> None:
    terms = raw["certificate"]["terms"]
    terms[1], terms[2] = terms[2], terms[1]


FALSE_CLAIMS: dict[str, Corruption] = {
    "a wrong value": (
        set_first_gap(0.1875, value=13000),
        {"certificate_value"},
        "certificate.terms[0].value",
    ),
    "a bound that the value beats": (
        set_first_gap(1 / 12, bound=11000, certified=11000),
        {"certificate_bound"},
        "certificate.terms[0].bound",
    ),
    "a bound that only the true value beats": (
        set_first_gap(1 / 11, value=10000, bound=11000, certified=11000),
        {"certificate_value", "certificate_bound"},
        "certificate.terms[0].certified",
    ),
    "a bound of a minimum above the value": (
        set_term(1, bound=1, claimed=1, gap=1),
        {"certificate_bound"},
        "certificate.terms[1].claimed",
    ),
    "a looser proof that the value beats": (
        set_first_gap(1 / 12, bound=11000, claimed=11000, proof="claimed"),
        {"certificate_bound"},
        "certificate.terms[0].claimed",
    ),
    "a bound that nothing proves": (
        set_term(2, bound=2, proof="claimed", gap=1 / 3),
        {"certificate_proof"},
        "certificate.terms[2].bound",
    ),
    "the looser of two bounds": (
        set_first_gap(5 / 17, bound=17000),
        {"certificate_proof"},
        "certificate.terms[0].bound",
    ),
    "a proven bound left out": (
        set_first_gap(None, bound=None, proof=None),
        {"certificate_proof"},
        "certificate.terms[0].bound",
    ),
    "the wrong proof": (
        set_term(0, proof="claimed"),
        {"certificate_proof"},
        "certificate.terms[0].proof",
    ),
    "a proof without bound": (
        set_term(2, proof="claimed"),
        {"certificate_proof"},
        "certificate.terms[2].proof",
    ),
    "a bound without proof": (
        set_term(0, proof=None),
        {"certificate_proof"},
        "certificate.terms[0].proof",
    ),
    "precedences of a term without classes": (
        set_term(1, precedences=[{"priority": 0}]),
        {"certificate_classes"},
        "certificate.terms[1].precedences",
    ),
    "a wrong gap": (set_first_gap(0.2), {"certificate_gap"}, "certificate.terms[0].gap"),
    "a gap without bound": (set_term(2, gap=0), {"certificate_gap"}, "certificate.terms[2].gap"),
    "a gap left out": (set_term(1, gap=None), {"certificate_gap"}, "certificate.terms[1].gap"),
    "a gap that is not the first term's": (
        set_in("certificate", "gap", to=0.0),
        {"certificate_gap"},
        "certificate.gap",
    ),
    "optimal with a gap": (
        set_in("certificate", "status", to="optimal"),
        {"certificate_status"},
        "certificate.status",
    ),
    "a term called optimal with a gap": (
        set_term(0, status="optimal"),
        {"certificate_status"},
        "certificate.terms[0].status",
    ),
    "a condition left unsaid": (
        lambda raw: (
            set_term(1, bound=None, claimed=None, proof=None, gap=None)(raw),
            set_term(2, bound=3, claimed=3, proof="claimed", gap=0)(raw),
        ),
        {"certificate_status"},
        "certificate.terms[2].conditional",
    ),
    "terms in another order": (
        swap_terms,
        {"certificate_terms", "certificate_status"},
        "certificate.terms",
    ),
    "a term left out": (
        lambda raw: raw["certificate"]["terms"].pop(),
        {"certificate_terms"},
        "certificate.terms",
    ),
    "an unknown term": (
        set_term(2, name="beauty"),
        {"certificate_terms"},
        "certificate.terms",
    ),
    "a wrong sense": (
        set_term(1, sense="max"),
        {"certificate_terms"},
        "certificate.terms[1].sense",
    ),
}


def test_the_certificate_is_right_before_it_is_corrupted() -> None:
    assert check(lambda raw: None) == Verification((), TERMS)


@pytest.mark.parametrize("name", FALSE_CLAIMS)
def test_a_false_claim_is_rejected(name: str) -> None:
    edit, rules, where = FALSE_CLAIMS[name]
    found = check(edit)
    assert rules_in(found) == rules
    assert where in [violation.where for violation in found.violations]
    assert found.terms == TERMS


def test_every_rule_is_broken_alone_by_some_claim() -> None:
    alone = broken_alone(FALSE_CLAIMS.values())
    assert alone == {rule for rule in rule_ids() if rule.startswith("certificate_")}


def test_a_condition_that_is_stated_is_accepted() -> None:
    def edit(raw: Raw) -> None:
        set_term(1, bound=None, claimed=None, proof=None, gap=None)(raw)
        set_term(2, bound=3, claimed=3, proof="claimed", gap=0, conditional=True)(raw)

    assert check(edit).ok


def test_everything_proven_is_optimal() -> None:
    def edit(raw: Raw) -> None:
        set_first_gap(0, bound=12000, certified=12000)(raw)
        set_term(2, bound=3, claimed=3, proof="claimed", gap=0)(raw)
        set_in("certificate", "status", to="optimal")(raw)

    assert check(edit).ok


@pytest.mark.parametrize(("proof", "optimal"), [("claimed", True), ("certified", False)])
def test_a_claim_within_the_tolerance_of_solvers_is_optimal_and_a_certified_bound_is_not(
    proof: str, optimal: bool
) -> None:
    value, bound = 1_000_000, 1_000_001
    term = TermResult(
        name="value", sense="max", value=value, bound=bound, proof=proof, gap=1 / bound
    )
    term = term.model_copy(update={proof: float(bound), "status": "optimal"})
    claimed = Certificate.model_validate(
        {
            **PLAN["certificate"],
            "status": "optimal",
            "gap": term.gap,
            "terms": [term.model_dump()],
        }
    )
    broken = verify_certificate(claimed, {"value": value})
    assert {v.rule for v in broken} == (set() if optimal else {"certificate_status"})


def test_a_gap_is_compared_as_numbers_are() -> None:
    assert check(set_first_gap(0.25 + 1e-12)).ok


def test_sums_of_terms_are_refused_and_an_empty_list_of_them_is_read() -> None:
    old = copy.deepcopy(PLAN)
    old["certificate"]["sums"] = []
    assert parse_plan(old) == Plan.model_validate(PLAN)
    old["certificate"]["sums"] = [{"name": "spread+opened", "sense": "min", "value": 3}]
    with pytest.raises(InvalidInputError, match=r"certificate\.sums.*solve the round again"):
        parse_plan(old)
