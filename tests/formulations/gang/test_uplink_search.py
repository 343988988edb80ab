"""The search for less contention moves tasks, and nothing else."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest
from gang_parameters import set_parameters

from examples import tried
from placewright.formulations.gang.heuristics.contention import LinkLoads, relieve_links
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement, placement_of
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.session import Session
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.solver import InProcess

Raw = dict[str, Any]


def mixed_round(rng: random.Random, terms: list[str]) -> Round:
    """Blocks of racks of hosts, links of both; gangs of several sizes, single tasks, shares."""
    racks, hosts = rng.choice([2, 4, 6]), rng.choice([2, 4])
    cluster: Raw = {
        "levels": ["block", "rack"],
        "domains": [
            {"name": "b0", "level": "block"},
            {"name": "b1", "level": "block"},
            *({"name": f"r{r}", "level": "rack", "parent": f"b{r % 2}"} for r in range(racks)),
        ],
        "hosts": [
            {
                "name": f"r{r}-h{h}",
                "parent": f"r{r}",
                "gpus": 4,
                "gpu_model": "G",
                "cpu": rng.choice([4, 8]),
            }
            for r in range(racks)
            for h in range(hosts)
        ],
        "links": {
            level: {"bandwidth_mbps": rng.choice([100, 200, 300]), "latency_us": 1.0}
            for level in rng.choice([("rack",), ("block", "rack"), ("block", "rack", "host")])
        },
    }
    jobs = []
    for i in range(rng.randint(racks, 3 * racks)):
        group: Raw = {
            "gpu": rng.choice([2, 4, 4, 4, 4, "300m", 0]),
            "count": rng.choice([1, 2, 3, 3, 4, 5, 6]),
            "cpu": rng.choice([0, 0, 0, 1]),
        }
        if rng.random() < 0.7:
            group["communication"] = {"rate_mbps": rng.choice([80, 150, 250])}
        if rng.random() < 0.1:
            group["required"] = rng.choice(["rack", "block"])
        elif rng.random() < 0.1:
            group["apart"] = {"level": "rack", "most": 2}
        jobs.append({"name": f"j{i}", "options": [{"groups": [group]}]})
    round_ = Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": {"terms": terms}})
    check_round(round_)
    return round_


def started(placement: Placement) -> Counter[tuple[int, int, int]]:
    """How many jobs of each class and option run, and with how many tasks."""
    return Counter(
        (start.job_class, start.choice, sum(put.count for put in start.tasks))
        for _, start in placement.started()
    )


def spread(placement: Placement) -> int:
    problem, total = placement.problem, 0
    for _, start in placement.started():
        choice = problem.classes[start.job_class].choices[start.choice]
        for k, group in enumerate(choice.groups):
            for level, weight in group.weights:
                domain = problem.cluster.domain[level]
                used = {int(domain[put.host]) for put in start.tasks if put.group == k}
                total += group.milli_gpu * weight * (len(used) - 1)
    return total


@pytest.mark.parametrize("examples", [120])
def test_links_are_relieved_at_no_loss(monkeypatch: pytest.MonkeyPatch, examples: int) -> None:
    set_parameters(monkeypatch, "neighbourhood", max_refills=3_000)
    gained = 0
    for seed in range(tried(examples)):
        rng = random.Random(seed)
        terms = rng.choice(
            [["value", "spread", "contention"], ["value", "opened", "spread", "contention"]]
        )
        problem = compile_round(mixed_round(rng, terms))
        placement = Placement(problem)
        fill_greedily(placement)
        again = placement_of(problem, assign(placement, "test"))
        assert started(again) == started(placement)
        assert LinkLoads(again).excess == LinkLoads(placement).excess
        before, runs, apart = LinkLoads(again).excess, started(again), spread(again)
        whole = again.whole.sum()
        session = Session(InProcess().solve, deadline=time.monotonic() + 60.0, deterministic=True)
        helped = relieve_links(again, session)
        after = LinkLoads(again).excess
        assert (after < before) == helped
        gained += helped
        assert started(again) == runs
        assert spread(again) <= apart
        assert not again.is_overcommitted
        assert again.whole.sum() == whole
        final = placement_of(problem, assign(again, "test"))
        assert not final.is_overcommitted
        assert LinkLoads(final).excess == after
    assert gained
