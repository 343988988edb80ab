"""Every reason of a plan, and every fact of it, is what trying all places of the job says."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from examples import by_night, examples
from placewright.formulations.gang.placement import feasibility
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

ROOT = Path(__file__).parents[2]
REASONS = (
    Reason.NEVER_FITS,
    Reason.QUOTA,
    Reason.HOSTS_AWAY,
    Reason.CAPACITY,
    Reason.DISPLACED_BY_PRIORITY,
    Reason.NOT_CHOSEN,
)
GREEDY, SOLVED = examples(day=20, nightly=300), examples(day=5, nightly=100)
OTHER_POLICIES = (
    ("interleaving", GREEDY, 0.0),
    ("interleaving", SOLVED, 20.0),
    ("cells", GREEDY, 0.0),
    ("cells", SOLVED, 20.0),
    ("geo", GREEDY, 0.0),
    ("geo", SOLVED, 20.0),
    ("deadline", examples(day=60, nightly=500), 0.0),
)
RULES = {"gang_reason", "cell_reason", "data_reason", "waits_for_data", "lease_reason"}
FACTS = ("asked", "used", "limit", "excess", "free", "tasks", "places")


@pytest.fixture(scope="module")
def fuzz() -> Iterator[SimpleNamespace]:
    """The modules of the fuzz, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        names = ("play", "policies")
        yield SimpleNamespace(**{name: importlib.import_module(f"fuzz.{name}") for name in names})


def check_reasons(
    fuzz: SimpleNamespace, seed: int, time_limit: float, name: str = "gang"
) -> list[Reason | None]:
    """Check the reasons of a round that a seed draws; return them."""
    policy = fuzz.policies.POLICIES[name]
    raw = policy.draw(Random(f"reasons {seed}"))
    round_ = fuzz.play.read(raw)
    plan = solve_round(round_, isolation="none", time_limit=time_limit)
    document = plan.model_dump(mode="json", exclude_none=True)
    assert not policy.untrue(raw, fuzz.play.with_facts(plan, document)), seed
    assert fuzz.play.read_plan(document) == plan
    return [d.reason for d in plan.decisions if d.decision is DecisionKind.WAIT]


# The greedy plan leaves more jobs waiting than the best one, and is as good to judge.
@pytest.mark.parametrize(
    ("rounds", "time_limit"),
    [(examples(day=40, nightly=600), 0.0), (examples(day=15, nightly=150), 20.0)],
)
def test_each_reason_of_some_hundred_tiny_rounds_is_true(
    fuzz: SimpleNamespace, rounds: int, time_limit: float
) -> None:
    found = Counter(r for seed in range(rounds) for r in check_reasons(fuzz, seed, time_limit))
    assert found.keys() == set(REASONS) or not by_night()


@pytest.mark.nightly(after=5)
@pytest.mark.parametrize(("name", "rounds", "time_limit"), OTHER_POLICIES)
def test_each_reason_under_another_policy_is_true(
    fuzz: SimpleNamespace, name: str, rounds: int, time_limit: float
) -> None:
    found = Counter(r for s in range(rounds) for r in check_reasons(fuzz, s, time_limit, name))
    assert found.keys() >= {*REASONS} - {Reason.HOSTS_AWAY} or not by_night()


def test_the_search_for_places_of_several_groups_is_exact(
    fuzz: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, find = feasibility.place_choice, feasibility._Search.finds
    found = Counter[bool]()

    def count(search: feasibility._Search) -> bool:
        answer = find(search)
        found[answer] += 1
        return answer

    # As if no first fit ever placed several groups.
    monkeypatch.setattr(
        feasibility, "place_choice", lambda p, c: place(p, c) if len(c.groups) == 1 else None
    )
    monkeypatch.setattr(feasibility._Search, "finds", count)
    for seed in range(examples(day=60, nightly=300)):
        check_reasons(fuzz, seed, 0.0)
    assert min(found[True], found[False]) > examples(day=3, nightly=50)


def with_decision(plan: Plan, number: int, **update: object) -> Plan:
    """The plan with another decision in one place."""
    decisions: list[Decision] = [*plan.decisions]
    decisions[number] = decisions[number].model_copy(update=update)
    return plan.model_copy(update={"decisions": tuple(decisions)})


def rules_broken(round_: Round, plan: Plan) -> set[str]:
    return {violation.rule for violation in verify(round_, plan).violations}


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("name", ["gang", *dict.fromkeys(name for name, *_ in OTHER_POLICIES)])
def test_the_verifier_refutes_most_wrong_reasons_and_facts_and_no_true_ones(
    fuzz: SimpleNamespace, name: str
) -> None:
    refuted, believed = Counter[Reason](), Counter[Reason]()
    wrong, unseen = Counter[str](), Counter[str]()
    for seed in range(examples(day=10, nightly=150)):
        policy = fuzz.policies.POLICIES[name]
        round_ = fuzz.play.read(policy.draw(Random(f"reasons {seed}")))
        plan = solve_round(round_, isolation="none", time_limit=0.0)
        for number, decision in enumerate(plan.decisions):
            if decision.decision is not DecisionKind.WAIT:
                continue
            detail = decision.detail or Detail()
            for reason in REASONS:
                for facts in (None, Detail.model_construct(option=detail.option)):
                    told = with_decision(plan, number, reason=reason, detail=facts)
                    broken = rules_broken(round_, told)
                    assert broken <= (RULES if reason is not decision.reason else set())
                    (refuted if broken else believed)[reason] += reason is not decision.reason
            for fact in FACTS:
                if (amount := getattr(detail, fact)) is not None:
                    other = detail.model_copy(update={fact: amount + 1})
                    broken = rules_broken(round_, with_decision(plan, number, detail=other))
                    assert broken <= RULES
                    (wrong if broken else unseen)[fact] += 1
    for caught, missed, every in ((refuted, believed, REASONS), (wrong, unseen, FACTS)):
        assert caught.total() > missed.total()
        assert all(caught[one] > missed[one] for one in every) or not by_night()
