"""The oracle that counts says what the one that solves says: same answers, same explanations."""

from __future__ import annotations

from importlib import import_module
from random import Random

import pytest

from examples import examples
from fuzz.play import read
from fuzz.policy import TooManyPlansError
from placewright.explain.conflict import Answer, SolvingOracle
from placewright.explain.explain_job import explained
from placewright.explain.facts.fact import World
from placewright.explain.gang import ArrayOracle
from placewright.explain.situations import Situations
from placewright.rounds import solve_round


class BothOracles:
    """Answers as the oracle that counts does, and compares the other one's answer."""

    def __init__(self, solving: SolvingOracle) -> None:
        self._counting, self._solving = ArrayOracle(solving), solving
        self.questions = 0

    def start(self, world: World) -> Answer:
        counted, solved = self._counting.start(world), self._solving.start(world)
        if None not in (counted.starts, solved.starts):
            assert counted.starts == solved.starts
        self.questions += 1
        return counted


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("policy", "seeds"),
    [
        ("gang", examples(day=4, nightly=60)),
        ("cells", examples(day=8, nightly=25)),
        ("queue", examples(day=8, nightly=25)),
        ("pools", examples(day=5, nightly=25)),
    ],
)
def test_explanations_are_the_same_without_it(policy: str, seeds: int) -> None:
    draw = import_module(f"fuzz.policies.{policy}").POLICY.draw
    asked = compared = 0
    for seed in range(seeds):
        try:
            round_ = read(draw(Random(seed)))
        except TooManyPlansError:
            continue
        plan = solve_round(round_, isolation="none")
        for given in (None, plan):
            situations = Situations.checked(round_, given)
            for decision in plan.decisions:
                if decision.decision != "wait" or decision.job in round_.invalid:
                    continue
                with SolvingOracle.opened(round_, time_limit=60.0, isolation="none") as solving:
                    both = BothOracles(solving)
                    one = explained(situations, decision.job, both, solving, in_full=False)
                    other = explained(situations, decision.job, solving, solving, in_full=False)
                assert one.verdict == other.verdict
                assert [f.text for f in one.conflict] == [f.text for f in other.conflict]
                asked += both.questions
                compared += 1
    assert compared > examples(day=1, nightly=20)
    assert asked > 5 * compared
