"""No number that a plan may say makes `verify` fail otherwise than by a rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from extremes import numbers, with_number

from examples import examples
from placewright.instances import verify as verification
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_round, parse_plan
from placewright.rounds import solve_round

LIBRARY = Path(verification.__file__).parents[1] / "library"
MOST_PLACES = examples(day=10, nightly=30)


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.yaml")), ids=lambda path: path.stem)
def test_numbers_that_no_plan_has_are_refused_or_break_a_rule(path):
    round_ = load_round(path)
    plan = solve_round(round_, time_limit=0, isolation="none")
    raw = plan.model_copy(update={"round": None}).model_dump(mode="json")
    places = list(numbers(raw))
    for place in places[:: len(places) // MOST_PLACES + 1]:
        for number in (10**400, -(2**63), 10**12, 1e308):
            try:
                plan = parse_plan(with_number(raw, place, number))
            except InvalidInputError as error:
                assert str(error).isprintable()
            else:
                assert verification.verify(round_, plan).terms
