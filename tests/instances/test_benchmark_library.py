"""The instance library of the public benchmark: rounds are what the index says, values are true."""

from __future__ import annotations

import pytest

from examples import by_day
from placewright import Plan, verify
from placewright.instances.benchmark.index import (
    HOME,
    SUITES,
    Found,
    Instance,
    best_plan,
    read_index,
    round_of,
    with_bounds,
    with_plan,
    write_index,
)
from placewright.instances.documents.plan import TermResult
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import POLICIES, sense_of

INDEX = read_index()
SMALL = [name for name, one in INDEX.items() if one.suite == "small"]
MEDIUM = [name for name, one in INDEX.items() if one.suite == "medium"]
LARGE = [name for name, one in INDEX.items() if one.suite == "large"]
ME = Found(by="me", on="2030-01-01")


def test_there_are_rounds_of_each_policy_and_suite():
    assert len(INDEX) >= 120
    for suite in SUITES:
        policies = {one.policy for one in INDEX.values() if one.suite == suite}
        assert policies == set(POLICIES), suite


def test_each_file_is_of_an_instance_and_all_are_small():
    rounds = {path.name.removesuffix(".json.xz") for path in (HOME / "rounds").iterdir()}
    plans = {path.name.removesuffix(".json.xz") for path in (HOME / "plans").iterdir()}
    assert rounds == {name for name, one in INDEX.items() if one.generator is None}
    assert plans == {name for name, one in INDEX.items() if one.best}
    assert sum(path.stat().st_size for path in HOME.rglob("*") if path.is_file()) < 20 * 2**20


@pytest.mark.parametrize("name", by_day([*SMALL, *MEDIUM, *LARGE], 12))
def test_the_best_known_plan_has_the_values_of_the_index(name):
    instance = INDEX[name]
    round_ = round_of(instance)
    assert round_.policy.formulation == instance.policy
    assert len(round_.jobs) == instance.jobs
    if not instance.best:
        return
    verification = verify(round_, best_plan(instance))
    assert verification.placement_ok, verification.violations[:3]
    assert verification.terms == {known.name: known.value for known in instance.best}
    for known in instance.best:
        if known.bound is not None:
            sign = 1 if sense_of(known.name) == "max" else -1
            assert sign * known.value <= sign * known.bound, known


def test_bundled_rounds_are_those_of_the_index():
    """Who changes one enters it anew: `python -m benchmarks.library`."""
    bundled = [one for one in INDEX.values() if (one.generator or {}).get("kind") == "bundled"]
    assert all(round_of(one).jobs for one in bundled)


def test_another_round_than_that_of_the_index_is_refused():
    wrong = INDEX["bundled-pools"].model_copy(update={"digest": "0" * 64})
    with pytest.raises(InvalidInputError, match="is not the round of the index"):
        round_of(wrong)


def instance(*best: tuple[str, int, float | None]) -> Instance:
    terms = [{"name": name, "value": value, "bound": bound} for name, value, bound in best]
    return INDEX["bundled-pools"].model_validate(
        INDEX["bundled-pools"].model_dump(mode="json") | {"best": terms}
    )


KNOWN = instance(("value", 10, 12), ("disruption", 3, 1), ("spread", 4, 4), ("opened", 5, 2))


def test_a_plan_is_new_if_it_is_lexicographically_better():
    worse = {"value": 9, "disruption": 0, "spread": 0, "opened": 0}
    assert with_plan(KNOWN, worse, ME) is None
    equal = {known.name: known.value for known in KNOWN.best}
    assert with_plan(KNOWN, equal, ME) is None
    better = with_plan(KNOWN, equal | {"disruption": 2, "spread": 9}, ME)
    assert better is not None
    assert better.found == ME
    assert [known.value for known in better.best] == [10, 2, 9, 5]


def test_bounds_of_terms_after_a_worse_one_are_dropped():
    better = with_plan(KNOWN, {"value": 11, "disruption": 4, "spread": 4, "opened": 5}, ME)
    assert better is not None
    assert [known.bound for known in better.best] == [12, 1, None, None]


def test_bounds_are_taken_where_they_are_tighter_and_hold():
    def term(name: str, value: int, bound: float) -> TermResult:
        return TermResult(name=name, sense=sense_of(name), value=value, bound=bound)

    # They are of a plan with less disruption, which says nothing of what comes after it.
    found = with_bounds(
        KNOWN,
        [
            term("value", 10, 11),
            term("disruption", 2, 0),
            term("spread", 4, 4),
            term("opened", 5, 4),
        ],
        ME,
    )
    assert [known.bound for known in found.best] == [11, 1, 4, 2]
    assert found.proven == ME


def test_an_index_is_read_as_it_was_written(tmp_path):
    write_index(INDEX.values(), tmp_path / "index.json")
    assert read_index(tmp_path / "index.json") == INDEX
    (tmp_path / "index.json").write_text('{"name": "a"}\n')
    with pytest.raises(InvalidInputError, match=r"index\.json:1"):
        read_index(tmp_path / "index.json")


def test_best_plans_say_nothing_that_is_not_asked():
    plan: Plan = best_plan(INDEX["bundled-pools"])
    assert plan.certificate is None
    assert all(decision.reason is None for decision in plan.decisions)
