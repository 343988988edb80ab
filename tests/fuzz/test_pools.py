"""Rounds with pools: a hundred are played, tasks move into full pools, planted faults are found."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from examples import by_night, examples
from placewright.instances.verify import verify
from placewright.instances.verify.rules.gang.limits import Pools
from placewright.instances.verify.rules.gang.preemption import PutBack

ROOT = Path(__file__).parents[2]
ROUNDS = examples(day=6, nightly=100)
FEATURES = {
    "pools",
    "running jobs",
    "a job is to start",
    "a job is to preempt",
    "a job is to migrate",
    "waits: capacity",
    "waits: displaced_by_priority",
    "waits: not_chosen",
}
Raw = dict[str, Any]


@pytest.fixture(scope="module")
def fuzz() -> Iterator[SimpleNamespace]:
    """The modules of the fuzz, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        names = "book.choices book.facts book.gangs book.judgement book.terms book.writing "
        names += "play policies run"
        yield SimpleNamespace(
            **{
                name.split(".")[-1]: importlib.import_module(f"fuzz.{name}")
                for name in names.split()
            }
        )


def test_nothing_fails_in_some_rounds_and_each_feature_is_met(fuzz):
    state = fuzz.run.run(fuzz.policies.POLICIES["pools"], ROUNDS, 0, None, lambda *_: None)
    assert not state.failures
    assert state.features.keys() >= FEATURES or not by_night()


def drawn(fuzz, seed: int) -> Raw:
    return fuzz.policies.POLICIES["pools"].draw(Random(f"full {seed}"))


def test_a_plan_with_a_task_moved_into_a_full_pool_is_rejected(fuzz):
    counts: Counter[str] = Counter()
    for seed in range(examples(day=60, nightly=160)):
        raw = drawn(fuzz, seed)
        facts = fuzz.facts.Facts(raw)
        judgement = fuzz.judgement.Judgement(facts)
        terms, rng = fuzz.terms.Terms(judgement), Random(seed)
        try:
            plans = list(lawful(fuzz, facts, judgement))
        except fuzz.run.TooManyPlansError:
            continue
        round_ = fuzz.play.read(raw)
        for choices in rng.sample(plans, min(4, len(plans))):
            moved = list(moves_into_full_pools(facts, judgement.pools, choices))
            for changed, kind in rng.sample(moved, min(4, len(moved))):
                plan = fuzz.writing.written(terms, changed, seed)
                rules = {v.rule for v in verify(round_, fuzz.play.read_plan(plan)).violations}
                assert "pool" in rules, plan
                counts[kind] += 1
    assert min(counts[kind] for kind in ("task", "job")) > examples(day=0, nightly=20)


def lawful(fuzz, facts, judgement) -> Iterator[Any]:
    enumeration = fuzz.choices.Enumeration(facts)
    for number, choices in enumerate(enumeration):
        if number > 2000:
            return
        if not judgement.between(choices, room=enumeration.room):
            yield choices


def moves_into_full_pools(facts, pools, choices) -> Iterator[tuple[Any, str]]:
    """Yield plans with one task elsewhere, where a pool then has too little, and its kind."""
    for number, choice in enumerate(choices):
        for n, place in enumerate(choice.places if choice.anew else ()):
            for host in facts.hosts:
                # The GPUs need not be there: other rules may break as well.
                put = (*place[:2], host.number, *place[3:])
                places = (*choice.places[:n], put, *choice.places[n + 1 :])
                changed = (
                    *choices[:number],
                    choice._replace(places=places),
                    *choices[number + 1 :],
                )
                held = pools.held(zip(facts.jobs, changed, strict=True))
                over = [where for where in held if pools.over(held, [where])]
                if over:
                    yield changed, pools.entries[over[0][0]].get("per", "task")


@pytest.mark.parametrize(
    ("owner", "name", "value", "first"),
    [
        (Pools, "overfull", lambda *_: None, 0),
        (Pools, "limit", Pools.capacity, 0),
        (PutBack, "_overfull", lambda *_: "", 0),
        (Pools, "added_by", Pools.taken_by, 590),
    ],
)
def test_planted_faults_of_the_verifier_are_found(fuzz, monkeypatch, owner, name, value, first):
    monkeypatch.setattr(owner, name, value)
    kinds: set[str] = set()
    for seed in range(first, first + 60):
        _, played, _ = fuzz.run.one(fuzz.policies.POLICIES["pools"], seed)
        kinds |= {failure.kind for failure in played.failures}
        if "verdict" in kinds:
            return
    raise AssertionError(f"not found, only {kinds}")
