"""The table of movable jobs is the same whether updated job by job or made at once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from placewright.formulations.gang.heuristics.moves import PENDING, EjectionMoves, MovableJobs
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import JobPlacement
from placewright.instances.documents.round import Round
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


@pytest.mark.parametrize("mix", ["tight", "hard"])
@pytest.mark.parametrize("seed", range(3))
def test_losses_of_hosts_at_once_are_those_one_by_one(seed: int, mix: str) -> None:
    random = Random(seed)
    problem = compile_round(generate_round(160, 60, mix=mix, seed=seed, tenants=3))
    placement = Placement(problem)
    fill_by_policy(placement)
    moves = EjectionMoves(placement)
    came, ranks = placement.least_arrived, placement.none_arrived
    owners = sorted({account for job_class in problem.classes for account in job_class.accounts})
    hosts = np.arange(problem.cluster.num_hosts)
    for _ in range(40):
        numbers = [number for number, start in placement.started() if len(start.tasks) == 1]
        start = moves.remove(random.choice(numbers))
        moves.displace(start, np.inf)
        shape = random.randrange(len(problem.shape_gpu))
        accounts = frozenset(random.sample(owners, k=random.randint(0, min(2, len(owners)))))
        limit = np.minimum(int(problem.shape_rank[shape]), came)
        lack = moves.gpus_of(shape) - placement.whole
        short = problem.shape_demand[shape] - placement.free
        arrived = np.where(came < ranks, came, PENDING)
        found = moves.movable.losses(hosts, shape, (limit, lack, short), arrived, accounts)
        for host in hosts.tolist():
            asked = int(limit[host]), int(lack[host]), short[host].tolist()
            one = moves._victims_on(host, shape, *asked, np.inf, accounts)
            assert found[host] == pytest.approx(one[1])


def test_who_stops_for_a_task_leaves_it_its_other_resources_too() -> None:
    """The GPU of either job would do, but the task needs the CPUs of both."""
    running = [
        {
            "name": name,
            "options": [{"groups": [{"gpu": 1, "cpu": cpu}]}],
            "running": {"tasks": [{"index": 0, "host": "h", "gpus": [gpu]}]},
        }
        for gpu, (name, cpu) in enumerate({"light": 1, "heavy": 5}.items())
    ]
    job = {
        "name": "job",
        "priority": 1,
        "weight": 3,
        "options": [{"groups": [{"gpu": 1, "cpu": 6}]}],
    }
    hosts = [{"name": "h", "gpus": 2, "gpu_model": "A", "cpu": 6}]
    raw = {
        "cluster": {"hosts": hosts},
        "jobs": [*running, job],
        "policy": {"priority": "preemption"},
    }
    placement = Placement(compile_round(Round.model_validate(raw)))
    moves = EjectionMoves(placement)
    waiting = next(i for i, n in enumerate(placement.waiting) if n)
    stopped = moves.displace(JobPlacement(waiting, 0, ()), 3000)
    assert stopped is not None
    assert len(stopped) == 2
