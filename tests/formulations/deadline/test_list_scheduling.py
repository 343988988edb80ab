"""Chosen alternatives get leases: all where that is possible, and promises before all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from placewright.array_types import Ints
from placewright.formulations.deadline.heuristics.list_scheduling import (
    ORDERS,
    complete,
    list_schedule,
    objective,
)
from placewright.formulations.deadline.problem.leases import Slack
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from tests.formulations.deadline import oracle, tiny

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"gangs": False, "releases": True},
    {"releases": True, "promises": True},
    {"promises": True, "rows": 2, "jobs": 6},
)


def some_alternatives(problem: Problem, seed: int) -> Ints:
    """One alternative of most jobs, at random."""
    rng = np.random.default_rng(seed)
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    for job in range(problem.jobs):
        if rng.random() < 0.9:
            alternative[job] = rng.choice(np.flatnonzero(problem.job == job))
    return alternative


def only(problem: Problem, alternative: Ints) -> Problem:
    """The problem with no other alternatives than these, of value 1."""
    alternatives = alternative[alternative != NONE]
    return replace(
        problem,
        job=problem.job[alternatives],
        need=problem.need[alternatives],
        first=problem.first[alternatives],
        end=problem.end[alternatives],
        value=np.where(problem.loss.any(), problem.value[alternatives], 1),
        demand=problem.demand[alternatives],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_filled_and_completed_fits_and_promises_nothing_else(kind: dict[str, Any]) -> None:
    for seed in range(60):
        problem = tiny.problem(seed, tiny.SHAPES[seed % 4], **kind)
        alternative = some_alternatives(problem, seed)
        for order in ORDERS:
            schedule = list_schedule(problem, alternative, orders=(order,))
            assert schedule.fits(problem)
            assert np.isin(schedule.alternative[schedule.alternative != alternative], NONE).all()
            more = complete(problem, schedule)
            assert more.fits(problem)
            kept = schedule.alternative != NONE
            assert (more.alternative[kept] == schedule.alternative[kept]).all()
            assert objective(problem, more) >= objective(problem, schedule)


def test_single_gpus_that_may_begin_at_once_need_no_repair() -> None:
    checked = 0
    for seed in range(200):
        problem = tiny.problem(seed, tiny.SHAPES[seed % 4], gangs=False, jobs=6, horizon=6)
        alternative = some_alternatives(problem, seed)
        asked = int((alternative != NONE).sum())
        if asked and oracle.best(only(problem, alternative)).admitted == asked:
            checked += 1
            assert (
                list_schedule(problem, alternative, orders=("backwards",), work_limit=0).alternative
                == alternative
            ).all(), seed
    assert checked > 30


@pytest.mark.parametrize("order", ORDERS)
def test_chains_find_leases_for_single_gpus_whenever_they_begin(order: Any) -> None:
    checked = 0
    for seed in range(200):
        problem = tiny.problem(
            seed, tiny.SHAPES[seed % 4], gangs=False, releases=True, jobs=6, horizon=6
        )
        alternative = some_alternatives(problem, seed)
        asked = int((alternative != NONE).sum())
        if asked and oracle.best(only(problem, alternative)).admitted == asked:
            checked += 1
            assert (
                list_schedule(problem, alternative, orders=(order,)).alternative == alternative
            ).all(), seed
    assert checked > 30


def test_promises_of_single_gpus_are_never_lost_for_others() -> None:
    for seed in range(200):
        problem = tiny.problem(
            seed, tiny.SHAPES[seed % 4], gangs=False, releases=True, promises=True, jobs=6
        )
        alternative = some_alternatives(problem, seed)
        if not (alternative != NONE).any():
            continue
        # All losses alike, so that it is the number of promises that counts.
        problem = replace(problem, loss=np.minimum(problem.loss, 1))
        least = oracle.best(only(problem, alternative)).broken
        assert list_schedule(problem, alternative).broken(problem) == least, seed


def test_nothing_that_fits_is_turned_down_for_want_of_spare_time() -> None:
    for seed in range(200):
        problem = tiny.problem(seed, tiny.SHAPES[seed % 4], releases=True, rows=2)
        schedule = complete(problem, nothing(problem))
        slack = Slack(problem, np.full(problem.jobs, NONE))
        for alternative in schedule.alternative[schedule.alternative != NONE].tolist():
            assert slack.admits(alternative)
            assert slack.admits_each(np.array([alternative])).all()
            slack.add(alternative)
        assert (slack.residual == Slack(problem, schedule.alternative).residual).all()


def nothing(problem: Problem) -> Schedule:
    runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
    return Schedule(np.full(problem.jobs, NONE, dtype=np.int64), runs)
