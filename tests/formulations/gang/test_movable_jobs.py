"""The table of movable jobs is the same whether updated job by job or made at once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from placewright.formulations.gang.heuristics.moves import EjectionMoves, MovableJobs
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.generators.gang import generate_round


@pytest.mark.parametrize("seed", range(5))
def test_jobs_noted_one_by_one_are_those_noted_at_once(seed: int) -> None:
    random = Random(seed)
    problem = compile_round(generate_round(160, 60, mix="tight", seed=seed))
    placement = Placement(problem)
    fill_by_policy(placement)
    moves = EjectionMoves(placement)
    for _ in range(60):
        numbers = [number for number, start in placement.started() if len(start.tasks) == 1]
        start = moves.remove(random.choice(numbers))
        if random.random() < 0.5:
            moves.reinsert(start)
    again = MovableJobs(problem, placement.started())
    assert (moves.movable.gpus_on_host == again.gpus_on_host).all()
    assert (moves.movable.gpus_of_shape == again.gpus_of_shape).all()
    hosts = np.arange(problem.cluster.num_hosts)
    for host in hosts.tolist():
        assert set(moves.movable.on_host(host)) == set(again.on_host(host))
    for lack in range(9):
        for top in range(4):
            asked = np.full(len(hosts), lack), np.full(len(hosts), top)
            assert (moves.movable.least_loss(*asked) == again.least_loss(*asked)).all()
