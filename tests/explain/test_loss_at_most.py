"""What starting a job costs at most, by a plan of the round that starts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from examples import examples
from fuzz.play import read
from fuzz.policies import deadline, geo, interleaving
from fuzz.policy import TooManyPlansError
from placewright import load_round, solve_round
from placewright.explain.explain_job import explain_job
from placewright.explain.facts.fact import FACTS
from placewright.explain.loss import loss_at_most
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.policies import sense_of
from placewright.instances.verify import verify

LIBRARY = Path(__file__).parents[2] / "instances" / "library"


def test_a_promise_instead_of_another_costs_the_difference_of_their_values() -> None:
    round_ = load_round(LIBRARY / "deadline-gangs.yaml")
    plan = solve_round(round_, isolation="none")
    cost = explain_job(round_, plan, "single", isolation="none").cost
    assert cost is not None
    assert (cost.startable, cost.term, cost.at_least, cost.at_most) == (True, "admitted", 0, 2)
    assert [(one.job, one.after) for one in cost.instead] == [("pair", DecisionKind.WAIT)]
    assert cost.plan is not None
    assert verify(round_, cost.plan).ok


def test_nothing_is_said_of_a_job_that_no_plan_was_found_for() -> None:
    round_ = load_round(LIBRARY / "chronus.yaml")
    plan = solve_round(round_, isolation="none")
    assert loss_at_most(round_, plan, "rush", isolation="none") is None


def rounds() -> Iterator[Round]:
    for policy, seeds in ((deadline.POLICY, 5), (geo.POLICY, 8), (interleaving.POLICY, 5)):
        for seed in range(examples(day=2, nightly=5) * seeds):
            with suppress(TooManyPlansError):
                yield read(policy.draw(Random(seed)))


@pytest.mark.nightly
def test_the_plan_is_one_of_the_round_and_as_much_worse_as_is_said() -> None:
    told = 0
    for round_ in rounds():
        plan = solve_round(round_, isolation="none", time_limit=5)
        started = FACTS[round_.policy.formulation].started
        waiting = [j.name for j in round_.jobs if j.running is None and j.name not in started(plan)]
        for name in waiting[:2]:
            cost = loss_at_most(round_, plan, name, isolation="none", time_limit=5)
            if cost is None:
                continue
            told += 1
            assert cost.plan is not None
            assert name in started(cost.plan)
            checked, before = verify(round_, cost.plan), verify(round_, plan)
            assert checked.ok, checked.violations
            worse = {
                term: (value - checked.terms[term]) * (1 if sense_of(term) == "max" else -1)
                for term, value in before.terms.items()
            }
            first = next((term for term, lost in worse.items() if lost), None)
            assert cost.at_most == max(0, worse.get(first or "", 0))
            assert cost.term == first
    assert told > examples(day=1, nightly=3)
