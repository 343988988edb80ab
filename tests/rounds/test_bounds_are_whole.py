"""Terms are whole numbers: so are their bounds, rounded once, where they are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.instances.documents.plan import TermResult
from placewright.rounds.certificate import Bounds, with_status
from placewright.solver import InProcess

TERM = {"max": "value", "min": "disruption"}


def tightest(value: int, bound: Bound) -> tuple[float | None, list[str]]:
    """Return the bound of a plan of this value, and what makes the session degraded."""
    known, session = Bounds(), Session(InProcess().solve, 0.0)
    known.add(bound)
    (result,) = known.update_session(session, (bound.term,), {bound.term: value})
    return result.bound, session.degraded


@pytest.mark.parametrize(
    ("sense", "claimed", "value"),
    [
        ("max", 5364999.999999998, 5365000),
        ("max", 6723999.999999996, 6724000),
        ("max", 5365000.0, 5365000),
        ("max", 5365000.0000001, 5365000),
        ("min", 7.0000004, 7),
        ("min", 5365000.000000002, 5365000),
        ("min", 6.2, 7),
        ("max", 7.8, 7),
    ],
)
def test_a_claim_within_its_tolerance_of_a_value_proves_it(
    sense: str, claimed: float, value: int
) -> None:
    assert tightest(value, Bound(TERM[sense], claimed)) == (value, [])


@pytest.mark.parametrize(("sense", "claimed", "value"), [("max", 6.9, 7), ("min", 7.1, 7)])
def test_a_claim_that_a_plan_beats_is_still_dropped(sense: str, claimed: float, value: int) -> None:
    bound, degraded = tightest(value, Bound(TERM[sense], claimed))
    assert bound is None
    assert len(degraded) == 1


@given(
    st.sampled_from(["max", "min"]),
    st.integers(0, 10**8),
    st.floats(-1e-9, 1e-9, allow_nan=False),
    st.booleans(),
)
def test_no_noise_of_a_solver_costs_a_proof(
    sense: str, value: int, noise: float, certified: bool
) -> None:
    away = abs(value * noise) if sense == "max" else -abs(value * noise)
    claimed = value + (away if certified else value * noise)
    bound, degraded = tightest(value, Bound(TERM[sense], claimed, certified=certified))
    assert bound is not None
    assert not degraded
    assert bound == int(bound)


def test_no_bound_is_not_kept() -> None:
    assert tightest(3, Bound("value", float("inf"))) == (None, [])


@pytest.mark.parametrize(
    ("claimed", "certified", "status"),
    [
        (1_201_999.0, None, "optimal"),
        (1_201_990.0, None, "within_gap"),
        (1_100_000.0, None, "feasible"),
        (None, 1_201_999.0, "within_gap"),
        (None, 1_202_000.0, "optimal"),
        (None, None, "feasible"),
    ],
)
def test_each_term_has_a_status_by_its_own_gap(
    claimed: float | None, certified: float | None, status: str
) -> None:
    known = Bounds()
    for value, is_certified in ((claimed, False), (certified, True)):
        if value is not None:
            known.add(Bound("disruption", value, certified=is_certified))
    (result,) = with_status(known.results(("disruption",), {"disruption": 1_202_000}), 1e-4)
    assert result.status == status


def test_a_term_within_the_tolerance_of_a_claim_makes_later_bounds_no_conditional_ones() -> None:
    values = {"value": 9, "disruption": 1_202_000, "spread": 0}
    for claimed, conditional in ((1_201_999.0, False), (1_201_900.0, True)):
        known = Bounds()
        known.add(Bound("disruption", claimed))
        known.add(Bound("spread", 0))
        results = known.results(tuple(values), values)
        assert [result.conditional for result in results] == [False, False, conditional]


def test_the_tolerance_is_one_of_the_value_not_of_all_that_a_class_asks() -> None:
    term = TermResult(
        name="value", sense="max", value=4000, bound=4001.0, proof="claimed", asked=10**9, gap=1e-9
    )
    (result,) = with_status((term,), 1e-4)
    assert result.status == "within_gap"
