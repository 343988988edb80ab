"""Who may move is the same whether jobs were noted one by one, or all at once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from placewright.formulations.gang.heuristics.ejection import Shifts
from placewright.formulations.gang.heuristics.movable_jobs import Movers
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.generators.gang import generate_round


@pytest.mark.parametrize("seed", range(5))
def test_jobs_noted_one_by_one_are_those_noted_at_once(seed: int) -> None:
    random = Random(seed)
    problem = compile_round(generate_round(160, 60, mix="tight", seed=seed))
    placement = Placement(problem)
    fill_by_policy(placement)
    shifts = Shifts(placement)
    for _ in range(60):
        numbers = [number for number, start in placement.started() if len(start.tasks) == 1]
        start = shifts.take_off(random.choice(numbers))
        if random.random() < 0.5:
            shifts.place(start)
    again = Movers(problem, placement.started())
    assert (shifts.movers.held == again.held).all()
    assert (shifts.movers.of_shape == again.of_shape).all()
    hosts = np.arange(problem.cluster.num_hosts)
    for host in hosts.tolist():
        assert set(shifts.movers.on(host)) == set(again.on(host))
    for lack in range(9):
        for top in range(4):
            asked = np.full(len(hosts), lack), np.full(len(hosts), top)
            assert (shifts.movers.least_lost(*asked) == again.least_lost(*asked)).all()
