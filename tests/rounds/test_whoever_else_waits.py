"""Strict priority decides alike whoever else waits: a job that fits nowhere changes nothing."""

from __future__ import annotations

import importlib
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

from examples import examples
from placewright import solve_round, verify
from placewright.instances.documents.plan import Plan, Precedence
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.instances.policies import term_of

ROOT = Path(__file__).parents[2]
ROUNDS = {
    name: examples(day=number // 12, nightly=number)
    for name, number in (
        ("gang", 150),
        ("priorities", 200),
        ("interleaving", 50),
        ("deadline", 50),
        ("geo", 50),
    )
}
MOST_CLASSES = 8
Raw: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, tuple[Precedence, ...]]


def drawn(policy: str, seed: int) -> Raw | None:
    """A tiny round of the fuzz with strict priority, None if it has too many plans for that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        policies = importlib.import_module("fuzz.policies").POLICIES
        too_many = importlib.import_module("fuzz.policy").TooManyPlansError
        as_document = importlib.import_module("fuzz.small_units").as_document
        try:
            raw: Raw = policies[policy].draw(Random(f"else {policy} {seed}"))
        except too_many:
            return None
    raw["policy"] = {**raw["policy"], "priority": "strict"}
    # What is stranded for the jobs of the round depends on which there are.
    alike = "mix" in raw["policy"] or "stranded" not in raw["policy"]["terms"]
    return as_document(raw) if alike else None


def with_one_more(raw: Raw, priority: int) -> Raw:
    """A round with a job more, which asks for more GPUs than there are, whatever it is worth."""
    more: Raw = {
        "name": "fits-nowhere",
        "priority": priority,
        "options": [{"value": 10**8, "groups": [{"gpu": 64}]}],
    }
    if raw["policy"].get("formulation") == "deadline":
        due = [{"at": raw["now"] + 10**6, "value": 10**8}]
        more["deadline"] = {"work_s": 1, "due": due}
    return {**raw, "jobs": [*raw["jobs"], more]}


def proven(round_: Round, plan: Plan) -> dict[Key, int]:
    """The terms up to the first that is not proven to be optimal."""
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    found: dict[Key, int] = {}
    for term in plan.certificate.terms:
        if term.status != "optimal":
            break
        found[term_of(term.name) if term.precedences else term.name, term.precedences] = term.value
    return found


def pinned_throughput(round_: Round) -> bool:
    """Whether one term has what pinned jobs do, which classes do not count."""
    pinned = any(job.running and job.running.pinned for job in round_.jobs)
    return pinned and "weighted_throughput" in round_.policy.terms


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("policy", ROUNDS)
def test_a_job_that_fits_nowhere_leaves_each_class_and_term_as_it_was(policy: str) -> None:
    rounds = terms = in_classes = seed = 0
    while rounds < ROUNDS[policy]:
        seed += 1
        raw = drawn(policy, seed)
        if raw is None:
            continue
        priority = Random(seed).choice((-7, -1, 0, 1, 2, 3, 9))
        try:
            round_, other = parse_round(raw), parse_round(with_one_more(raw, priority))
        except InvalidInputError:  # some are there to be read leniently
            continue
        if pinned_throughput(round_) or len({job.priority for job in other.jobs}) > MOST_CLASSES:
            continue
        plans = [
            (one, solve_round(one, isolation="none", time_limit=10, gap=0.0))
            for one in (round_, other)
        ]
        mine, theirs = (proven(one, plan) for one, plan in plans)
        for (name, levels), value in mine.items():
            # Without `levels` it is one sum, of which the new job may have made classes.
            same = [
                (ls, v)
                for (n, ls), v in theirs.items()
                if n == name and (ls == levels or not levels)
            ]
            if same:
                assert sum(v for _, v in same) == value, (policy, seed, name, levels)
                terms += 1
                in_classes += bool(same[0][0])
        rounds += 1
    assert terms > rounds
    assert in_classes > rounds / 4
