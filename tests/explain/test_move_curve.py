"""The curve of what moves buy, on tiny rounds beside all plans of the rule book of the fuzz."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest

from examples import examples
from fuzz.play import read, read_plan
from fuzz.policies.gang import POLICY
from fuzz.policy import TooManyPlansError
from fuzz.small_units import in_small_units
from placewright.explain import move_curve
from placewright.explain.current_placement import current_placement
from placewright.explain.move_curve import Moves, has_moves
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.policies import sense_of
from placewright.instances.verify import Verification, verify


def placements(seeds: range) -> Iterator[tuple[Round, Plan]]:
    """Yield tiny rounds, each with any of its valid plans."""
    for seed in seeds:
        rng = Random(seed)
        try:
            raw = POLICY.draw(rng)
            valid = [judged for judged in POLICY.plans(raw, rng) if not judged.broken]
        except TooManyPlansError:
            continue
        round_ = read(raw)
        if has_moves(round_) and valid:
            yield round_, read_plan(rng.choice(valid).document())


def all_plans(round_: Round) -> list[tuple[int, dict[str, int]]]:
    """Return the moves and the terms of all valid plans of a round."""
    written = json.loads(round_.model_dump_json(exclude_none=True))
    raw: dict[str, Any] = in_small_units(written)
    found = []
    for judged in POLICY.plans(raw, Random(0)):
        if not judged.broken:
            decisions = [one["decision"] for one in judged.document()["decisions"]]
            moves = sum(kind in ("migrate", "preempt") for kind in decisions)
            found.append((moves, dict(judged.terms)))
    return found


def signed(values: dict[str, int]) -> list[int]:
    return [v if sense_of(t) == "max" else -v for t, v in values.items()]


def check_curve(round_: Round, plan: Plan) -> int:
    """Check a curve, and return how many moves it has."""
    curve = Moves(round_, plan, isolation="none").curve
    assert all(verify(curve.round, p.plan).ok for p in curve.points)
    assert all(dict(verify(curve.round, p.plan).terms) == p.terms for p in curve.points)
    goods = [signed(dict(point.terms)) for point in curve.points]
    assert goods == sorted(goods)
    assert len({tuple(one) for one in goods}) == len(goods)
    moves = [point.moves for point in curve.points]
    assert moves == sorted(moves)
    assert (curve.points[0].moves, curve.points[0].starts) == (0, 0)
    return moves[-1]


def test_points_are_valid_plans_each_better_than_those_with_fewer_moves():
    longest = [
        check_curve(round_, plan)
        for round_, plan in placements(range(examples(day=15, nightly=40)))
    ]
    assert len(longest) > examples(
        day=6, nightly=20
    )  # the others have cells, backfilling or too many plans
    assert max(longest) >= 1


def test_a_curve_verifies_at_most_two_plans_for_each_point_that_it_shows(monkeypatch):
    checked: list[Plan] = []

    def noted(round_: Round, plan: Plan) -> Verification:
        checked.append(plan)
        return verify(round_, plan)

    for round_, plan in islice(placements(range(examples(day=15, nightly=40))), 10):
        checked.clear()
        monkeypatch.setattr(move_curve, "verify", noted)
        points = Moves(round_, plan, isolation="none").curve.points
        monkeypatch.undo()
        assert len(checked) <= 2 * len(points)


def test_a_curve_without_time_has_the_placement_and_the_plan_with_all_moves(monkeypatch):
    monkeypatch.setattr(move_curve, "LEAST_SECONDS", 0.0)
    for round_, plan in islice(placements(range(6)), 3):
        curve = Moves(round_, plan, time_limit=0.0, isolation="none").curve
        assert len(curve.points) <= 2
        assert all(verify(curve.round, point.plan).ok for point in curve.points)


@pytest.mark.nightly
def test_a_curve_of_a_large_round_holds_the_time_limit(monkeypatch):
    """Its search and its points have a second each, by CPU time; the latter at least two."""
    round_, plan = current_placement(generate_round(4096, 1000, mix="easy", seed=31))
    monkeypatch.setattr(time, "monotonic", time.process_time)
    began = time.process_time()
    curve = Moves(round_, plan, time_limit=1.0, isolation="none").curve
    assert time.process_time() - began <= (1.1 + 2) + (1.1 * move_curve.LEAST_SECONDS + 2)
    assert 2 < len(curve.points) < move_curve.MOST_POINTS


def check_within(round_: Round, plan: Plan, allowed: int) -> bool | None:
    """Check the best plan for so many moves; return whether no plan is better."""
    moves = Moves(round_, plan, isolation="none")
    found = moves.within(allowed)
    assert found.point.moves <= allowed
    assert verify(moves.round, found.point.plan).ok
    try:
        plans = [terms for used, terms in all_plans(moves.round) if used <= allowed]
    except TooManyPlansError:
        return None
    best = max(plans, key=signed)
    goods = signed(best), signed(dict(found.point.terms))
    assert goods[0] >= goods[1]
    for result in found.terms[:1]:  # later bounds hold with the earlier terms held
        assert result.name == next(iter(best))
        sign = 1 if result.sense == "max" else -1
        assert result.bound is None or sign * result.bound >= goods[0][0] - 1e-6
    return goods[0] == goods[1]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_no_plan_with_so_many_moves_beats_the_bound_and_mostly_none_the_plan(allowed):
    best = [check_within(round_, plan, allowed) for round_, plan in placements(range(100, 114))]
    looked = [one for one in best if one is not None]
    assert len(looked) > 10
    assert sum(looked) >= 0.9 * len(looked)
