"""Sentences about the best, beside all plans of tiny rounds: none is better by what they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Literal, TypeAlias

import pytest

from examples import examples
from fuzz.play import read
from fuzz.policies.gang import POLICY
from fuzz.policy import Raw, TooManyPlansError
from fuzz.small_units import as_document, in_small_units
from placewright.cli.views.explanation import lines
from placewright.cli.views.gang.audit_tables import verdict_text
from placewright.explain.audit import audit
from placewright.explain.conflict import ConflictProof
from placewright.explain.explain_job import explain_job
from placewright.instances.documents.caveats import Caveat, annotation_of
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import BOOKKEEPING
from placewright.instances.policies import sense_of
from placewright.report.text import term_name
from placewright.report.verdicts import GOING_ON, best_text, covered
from placewright.report.verdicts import verdict_text as verdict_of

MANY = 2
"""Plans of a round that are judged, of all and of the best by the first term."""

Values: TypeAlias = Mapping[str, int]


def result(name: str, gap: float | None, proof: str | None = "certified") -> TermResult:
    return TermResult(
        name=name, sense=sense_of(name), value=0, gap=gap, proof=None if gap is None else proof
    )


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([result("value", 0)], "no plan is better by value (certified)"),
        (
            [result("value", 0), result("progress", 0, "claimed")],
            "no plan is better by value, then progress (as a solver claims)",
        ),
        (
            [result("value", 0), result("progress", 1), result("spread", 0)],
            "no plan is better by value (certified); by progress one may be, by at most 100 %",
        ),
        (
            [result("value", 0), result("progress", None)],
            "no plan is better by value (certified); by progress one may be",
        ),
        ([result("value", 0.1), result("progress", 0)], "no better plan was found"),
        ([], "no better plan was found"),
    ],
)
def test_only_terms_are_named_that_are_proven_one_after_the_other(
    results: list[TermResult], text: str
) -> None:
    assert best_text(results, "no plan") == text


def test_rules_that_place_jobs_bound_which_plans_a_proof_covers() -> None:
    plain = Round.model_validate(
        {"cluster": {"hosts": [{"name": "h", "gpus": 1, "gpu_model": "A"}]}}
    )
    policy = plain.policy.model_copy(update={"backfill": {"depth": 1}})
    assert covered(plain) == "no plan"
    assert "same starts in turn" in covered(plain.model_copy(update={"policy": policy}))


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        ("certified", "can never run here"),
        ("claimed", "can never run here (as a solver claims)"),
        (None, "can never run here (not proven)"),
    ],
)
def test_a_verdict_says_no_more_than_its_proof(
    proof: Literal["certified", "claimed"] | None, said: str
) -> None:
    found = explain_job(never(), None, "j", isolation="none")
    made = replace(found, proof=ConflictProof(proof, ()))
    assert verdict_of(made, beside=False) == said


def never(**annotations: str) -> Round:
    """A job that asks more GPUs than there are."""
    return Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h", "gpus": 1, "gpu_model": "A"}]},
            "jobs": [{"name": "j", "options": [{"groups": [{"gpu": 2}]}]}],
            "annotations": annotations,
        }
    )


def test_what_the_source_said_of_a_job_and_the_round_does_not_stands_beside_its_verdict() -> None:
    unsaid = [{"what": "--contiguous", "count": 1, "names": ["j"]}]
    unsaid.append({"what": "--switches", "count": 1, "names": ["k"]})
    book = json.dumps({"taken": {}, "left_out": [], "unsaid": unsaid})
    for text, said in ((book, True), ("none", False)):
        round_ = never(**{BOOKKEEPING: text})
        found = explain_job(round_, None, "j", isolation="none")
        told = [*lines(round_.jobs[0], found)]
        line = "  Not in the round, and so not looked at: --contiguous"
        assert (line in told) is said


def test_hard_caveats_of_a_job_stand_beside_its_verdict() -> None:
    round_ = never()
    told = [Caveat(rule="spread", text="topology spread is not read")]
    told.append(Caveat(rule="wishes", text="wishes are not read", hard=False))
    job = round_.jobs[0].model_copy(update={"annotations": annotation_of(told)})
    round_ = round_.model_copy(update={"jobs": (job,)})
    found = explain_job(round_, None, "j", isolation="none")
    assert "  As far as the round knows: topology spread is not read" in [*lines(job, found)]


def rounds(seeds: range) -> Iterator[tuple[Round, list[tuple[Plan, Values]]]]:
    """Tiny rounds with all their plans and the values of these."""
    for seed in seeds:
        try:
            raw = POLICY.draw(Random(seed))
            yield read(raw), plans(raw)
        except TooManyPlansError:
            continue


def plans(raw: Raw) -> list[tuple[Plan, Values]]:
    """Every valid plan of a round, with its values."""
    judged = [one for one in POLICY.plans(raw, Random(0)) if not one.broken]
    return [(Plan.model_validate(as_document(one.document())), one.terms) for one in judged]


def named(text: str, results: tuple[TermResult, ...]) -> list[str]:
    """The terms by which no plan is better, as a sentence says."""
    found = re.search(r" is better by (.*?) \((certified|as a solver claims)\)", text)
    known = {term_name(one): one.name for one in results}
    return [known[name] for name in found.group(1).split(", then ")] if found else []


def better(values: Values, others: Values, names: list[str]) -> bool:
    """Whether a plan is better by some terms, the first that differs."""
    signs = [1 if sense_of(name) == "max" else -1 for name in names]
    pairs = [
        (sign * values[name], sign * others[name]) for sign, name in zip(signs, names, strict=True)
    ]
    return [mine for mine, _ in pairs] > [theirs for _, theirs in pairs]


def chosen(every: list[tuple[Plan, Values]]) -> list[tuple[Plan, Values]]:
    """Some plans of a round, and some of those that are best by its first term."""
    first = next(iter(every[0][1]))
    tops = [one for one in every if not any(better(o, one[1], [first]) for _, o in every)]
    draw = Random(0).sample
    return [*draw(every, min(MANY, len(every))), *draw(tops, min(MANY, len(tops)))]


def test_no_plan_is_better_by_what_a_sentence_names() -> None:
    told = going_on = beyond = 0
    for round_, every in rounds(range(examples(day=4, nightly=20))):
        for plan, values in chosen(every):
            found = audit(round_, plan, time_limit=5, isolation="none")
            assert found.ok
            for text in (
                best_text(found.terms, covered(round_)),
                verdict_text(round_, found.terms, found.curve),
            ):
                names = named(text, found.terms)
                assert not any(better(others, values, names) for _, others in every), text
                told += bool(names)
                beyond += bool(names) and any(better(o, values, [*values]) for _, o in every)
            if found.curve is None or found.curve.term is not None:
                continue
            text = best_text(found.curve.results, GOING_ON)
            names = named(text, found.curve.results)
            led_to = found.curve.round.model_dump(mode="json", exclude_defaults=True)
            start = found.curve.points[0].terms
            try:
                after = plans(in_small_units(led_to))
            except TooManyPlansError:
                continue
            assert not any(better(others, start, names) for _, others in after), text
            going_on += bool(names)
    assert min(told, going_on, beyond) > examples(day=1, nightly=10)
