"""A refused job is offered the earliest finish that fits beside the plan."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from placewright.formulations.deadline.heuristics.list_scheduling import Offers, list_schedule
from placewright.formulations.deadline.problem.compile import Admission, compile_admission
from placewright.formulations.deadline.problem.problem import NONE, Schedule
from placewright.formulations.plan_messages import Promise
from placewright.instances.documents.round import Round

HOUR = 3600
NOW = 1000


def admission(jobs: list[dict[str, Any]], **leases: Any) -> Admission:
    raw: dict[str, Any] = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "now": NOW,
        "cluster": {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Cluster",
            "hosts": [{"name": "h[0-1]", "gpus": 4, "gpu_model": "A100"}],
        },
        "policy": {"formulation": "deadline"},
        "leases": {"length_s": HOUR, "horizon": 6, **leases},
        "jobs": jobs,
    }
    return compile_admission(Round.model_validate(raw))


def job(name: str, gpus: tuple[int, ...], hours: float, **deadline: Any) -> dict[str, Any]:
    due = [{"at": NOW + int(hours * HOUR), "value": 7}]
    return {
        "name": name,
        "options": [{"groups": [{"gpu": number}]} for number in gpus],
        "deadline": {"work_s": int(hours * HOUR), "due": due, **deadline},
    }


def refusing(made: Admission, *refused: int) -> tuple[Schedule, dict[int, Promise]]:
    """The schedule of the first alternative of all other jobs, and the offers to these."""
    alternative = np.full(made.problem.jobs, NONE, dtype=np.int64)
    for position in range(made.problem.jobs):
        if position not in refused:
            alternative[position] = np.flatnonzero(made.problem.job == position)[0]
    schedule = list_schedule(made.problem, alternative)
    assert (schedule.alternative == alternative).all()
    return schedule, {offer.job: offer for offer in Offers(made).for_refused(schedule)}


def test_the_first_leases_with_capacity_are_offered_whatever_the_deadline_was() -> None:
    made = admission([job("full", (8,), 1), job("late", (2,), 1.5, due=[{"at": 0, "value": 1}])])
    _, offers = refusing(made, 1)
    at = NOW + 2 * HOUR + HOUR // 2
    assert offers == {1: Promise(1, 0, at, 0, at, ((1, 3),))}


def test_the_option_that_is_done_first_is_offered() -> None:
    paces = [{"speed": 1000}, {"speed": 2000, "overhead_s": 60}]
    made = admission([job("full", (6,), 2), job("late", (2, 4), 3, paces=paces)])
    _, offers = refusing(made, 1)
    # Beside the other there is capacity for two GPUs at once, for four after two hours.
    assert (offers[1].option, offers[1].leases) == (0, ((0, 3),))
    made = admission([job("full", (6,), 1), job("late", (2, 4), 4, paces=paces)])
    _, offers = refusing(made, 1)
    assert (offers[1].option, offers[1].leases) == (1, ((1, 4),))


def test_who_cannot_be_done_before_the_horizon_gets_no_offer() -> None:
    made = admission([job("full", (8,), 1), job("long", (2,), 6), job("wide", (9,), 1)])
    assert refusing(made, 1, 2)[1] == {}


def test_only_jobs_that_ask_and_are_refused_get_offers() -> None:
    kept = job("kept", (2,), 1, due=[], promise={"at": NOW, "value": 3})
    made = admission([job("a", (2,), 1), kept, job("c", (2,), 1)])
    _, offers = refusing(made, 1, 2)
    assert list(offers) == [2]


def test_nobody_is_offered_leases_before_it_is_ready() -> None:
    made = admission([job("a", (2,), 1, ready=NOW + HOUR + 1)])
    assert refusing(made, 0)[1][0].leases == ((2, 3),)


def test_the_current_lease_is_not_offered_where_somebody_may_only_stay() -> None:
    stays = {
        **job("stays", (2,), 1),
        "running": {"tasks": [{"host": "h0", "gpus": [0, 1]}], "pinned": True},
    }
    jobs = [stays, job("a", (2,), 1)]
    raw = admission(jobs).round.model_dump()
    raw["reservations"] = [{"host": "h0"}]
    made = compile_admission(Round.model_validate(raw))
    _, offers = refusing(made, 0, 1)
    assert (offers[0].leases, offers[1].leases) == (((0, 1),), ((1, 2),))


@pytest.mark.parametrize("seed", range(30))
def test_no_leases_beside_the_plan_are_done_earlier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = [
        job(
            f"j{number}",
            tuple(int(g) for g in rng.integers(1, 9, int(rng.integers(1, 3)))),
            float(rng.integers(1, 10)) / 2,
            due=[{"at": NOW + 6 * HOUR, "value": 1}],
        )
        for number in range(5)
    ]
    outage = {"host": "h1", "start": NOW + int(rng.integers(0, 3 * HOUR)), "end": NOW + 4 * HOUR}
    made = admission(jobs, outages=[outage])
    problem = made.problem
    some = np.arange(problem.jobs) < 3
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    for alternative_ in range(problem.alternatives):
        alternative[problem.job[alternative_]] = (
            alternative_ if some[problem.job[alternative_]] else NONE
        )
    schedule = list_schedule(problem, alternative)
    left = problem.capacity - schedule.usage(problem)
    offers = {offer.job: offer for offer in Offers(made).for_refused(schedule)}
    for position in np.flatnonzero(schedule.alternative == NONE).tolist():
        ends = [
            made.finish(alternative_, leases, None)
            for alternative_ in np.flatnonzero(problem.job == position).tolist()
            for leases in combinations(range(problem.horizon), int(problem.need[alternative_]))
            if (left[:, list(leases)] >= problem.demand[alternative_][:, None]).all()
        ]
        found = offers.get(made.jobs[position])
        assert (None if found is None else found.finish) == min(ends, default=None)
        if found is not None:
            leases = np.concatenate([np.arange(*pair) for pair in found.leases])
            alternative_ = int(
                next(
                    w
                    for w in np.flatnonzero(problem.job == position)
                    if made.option[w] == found.option
                )
            )
            assert made.finish(alternative_, leases, None) == found.finish
            assert (left[:, leases] >= problem.demand[alternative_][:, None]).all()
