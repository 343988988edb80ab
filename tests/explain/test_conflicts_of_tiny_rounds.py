"""Conflicts of tiny rounds beside all subsets of their facts, by the rule book of the fuzz."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from examples import examples
from fuzz.explanations.questions import gang_starts
from fuzz.explanations.samples import waiting
from fuzz.policies import gang
from fuzz.policy import TooManyPlansError
from placewright.explain.conflict import preferred_conflict
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Explanation, Verdict
from placewright.explain.facts.fact import Fact, Stratum, World
from placewright.explain.facts.gang import POLICY
from placewright.explain.situations import Situations

SEEDS, MAX_FACTS = examples(day=12, nightly=150), 9
VERDICTS = [Verdict.NEVER, Verdict.NEVER_WITHIN_RULES, Verdict.NOT_UNTIL_HOSTS_ARE_BACK]
VERDICTS += [Verdict.NOT_NOW, Verdict.OTHERS_INSTEAD]


@pytest.fixture(scope="module")
def explained() -> list[tuple[Explanation, Sequence[Fact], World]]:
    """Explanations, of the round alone or beside its plan, with the facts of the base round."""
    found = []
    for round_, plan, job in waiting(gang.POLICY, range(SEEDS)):
        for given in (None, plan):
            explanation = explain_job(round_, given, job, isolation="none")
            situations = Situations.checked(round_, given)
            situation = situations.now
            if explanation.verdict in {Verdict.OTHERS_INSTEAD, Verdict.COULD_START}:
                situation = situations.after
            base = POLICY.base(situation.round, job)
            found.append((explanation, POLICY.facts(situation, base, job), World(base, job)))
    return found


class Blocked:
    """Whether the job of a base round is blocked where some facts hold, by enumeration."""

    def __init__(self, universe: Sequence[Fact], base: World) -> None:
        self._universe, self._base = universe, base
        self._known: dict[frozenset[int], bool] = {}

    def __call__(self, kept: Sequence[Fact]) -> bool:
        key = frozenset(map(id, kept))
        if key not in self._known:
            removed = tuple(fact for fact in reversed(self._universe) if id(fact) not in key)
            self._known[key] = not gang_starts(World(self._base.base, self._base.job, removed))
        return self._known[key]


def subsets(facts: Sequence[Fact]) -> Iterator[tuple[Fact, ...]]:
    for size in range(len(facts) + 1):
        yield from combinations(facts, size)


def test_conflicts_are_minimal_and_the_verdict_is_the_least_stratum_that_blocks(
    explained: list[tuple[Explanation, Sequence[Fact], World]],
) -> None:
    verdicts = Counter[Verdict]()
    for explanation, facts, base in explained:
        blocked = Blocked(explanation.universe, base)
        of_facts = Blocked(facts, base)
        try:
            if explanation.verdict is Verdict.COULD_START:
                assert not of_facts(facts)
                continue
            conflict = explanation.conflict
            assert blocked(conflict)
            for fact in conflict:
                assert not blocked([other for other in conflict if other is not fact])
            least = next(
                stratum
                for stratum in Stratum
                if of_facts([fact for fact in facts if fact.stratum <= stratum])
            )
        except TooManyPlansError:
            continue
        assert explanation.verdict is VERDICTS[least - 1]
        assert explanation.proof is not None
        assert explanation.proof.minimal
        assert explanation.proof.blocked is not None
        verdicts[explanation.verdict] += 1
    assert set(verdicts) == set(VERDICTS)
    assert sum(verdicts.values()) > SEEDS


def test_the_conflict_is_the_preferred_one_of_all(
    explained: list[tuple[Explanation, Sequence[Fact], World]],
) -> None:
    checked = 0
    for explanation, facts, base in explained:
        if explanation.verdict is Verdict.COULD_START or len(facts) > MAX_FACTS:
            continue
        blocked = Blocked(facts, base)
        try:
            every = {frozenset(map(id, kept)): blocked(kept) for kept in subsets(facts)}
        except TooManyPlansError:
            continue
        for kept, is_blocked in every.items():
            # Monotone: with one fact more it is blocked still.
            assert not is_blocked or all(every[kept | {id(fact)}] for fact in facts)
        minimal = [
            kept
            for kept, is_blocked in every.items()
            if is_blocked and not any(every[kept - {one}] for one in kept)
        ]
        best = min(minimal, key=lambda kept: [id(fact) in kept for fact in reversed(facts)])
        assert {id(fact) for fact in preferred_conflict(facts, blocked)} == best
        told = {fact.text for fact in explanation.conflict}
        assert {fact.text for fact in facts if id(fact) in best and not fact.names} <= told
        checked += 1
    assert checked > SEEDS // 2


def test_what_is_named_is_needed(
    explained: list[tuple[Explanation, Sequence[Fact], World]],
) -> None:
    """Without a named host or job alone the other sentences and all other parts do not block."""
    named = 0
    for explanation, facts, base in explained:
        blocked = Blocked(explanation.universe, base)
        whole = {name: fact for fact in facts for name in fact.names}
        for fact in explanation.conflict:
            if not fact.names or fact.names == whole[fact.names[0]].names:
                continue
            siblings = [
                other
                for other in explanation.universe
                if other.names and whole[other.names[0]] is whole[fact.names[0]]
            ]
            others = [one for one in explanation.conflict if one not in siblings]
            kept = [one for one in (*others, *siblings) if one is not fact]
            try:
                assert not blocked(kept)
            except TooManyPlansError:
                continue
            named += 1
    assert named > SEEDS // 5
