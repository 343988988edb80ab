"""What is proven of a sum of terms says something of the last one of them, too."""

from __future__ import annotations

import pytest

from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.instances.documents.plan import TermResult
from placewright.rounds.certificate import Bounds
from placewright.solver import InProcess

TERMS = ("overload", "remote_reads", "copies")
VALUES = {"overload": 5, "remote_reads": 10, "copies": 25}
HOLDS = (("overload", 5),)


def proven(*bounds: Bound, **values: int) -> tuple[dict[str, TermResult], list[str]]:
    """Return results by name, and what makes the session degraded."""
    known, session = Bounds(), Session(InProcess().solve, 0.0)
    for bound in bounds:
        known.add(bound)
    results = known.update_session(session, TERMS, VALUES | values)
    sums = known.sums(results, VALUES | values)
    return {result.name: result for result in (*results, *sums)}, session.degraded


def test_what_earlier_terms_leave_of_a_sum_bounds_the_last_one() -> None:
    certified = Bound("copies", 30, HOLDS, certified=True, plus=("remote_reads",))
    claimed = Bound("copies", 32, HOLDS, plus=("remote_reads",))
    found, degraded = proven(certified, claimed)
    assert not degraded
    copies, both = found["copies"], found["remote_reads+copies"]
    assert (copies.bound, copies.certified, copies.proof) == (22, 20, "claimed")
    assert (both.value, both.bound, both.certified, both.claimed) == (35, 32, 30, 32)
    assert (both.sense, both.conditional) == ("min", False)
    assert both.gap == pytest.approx(3 / 35)


def test_a_sum_is_bounded_only_for_plans_as_good_before_it() -> None:
    found, _ = proven(Bound("copies", 30, HOLDS, plus=("remote_reads",)), overload=6)
    assert found["copies"].bound is None
    assert found["remote_reads+copies"].bound is None


def test_a_beaten_claim_of_a_sum_is_dropped() -> None:
    found, degraded = proven(Bound("copies", 36, HOLDS, plus=("remote_reads",)))
    assert "remote_reads+copies" not in found
    assert found["copies"].bound is None
    assert len(degraded) == 1


def test_where_nothing_is_known_of_a_sum_there_is_none() -> None:
    found, _ = proven(Bound("copies", 3, certified=True))
    assert set(found) == set(TERMS)
