"""Promises that the last round has left a schedule for are kept, however little time there is."""

from __future__ import annotations

import time

import numpy as np

from examples import examples
from placewright import Changes, Engine, Round, verify
from placewright.formulations.deadline.heuristics.list_scheduling import list_schedule
from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.formulations.deadline.run import admit
from placewright.formulations.session import Session
from placewright.solver import InProcess, Limits
from tests.formulations.deadline import tiny

HOUR = 3600


def first(problem: Problem, known: Schedule | None) -> Schedule:
    """What admission says before it has asked any solver."""
    session = Session(InProcess().solve, time.monotonic() - 1)
    step = next(admit(problem, session, known))
    assert isinstance(step, Schedule)
    return step


def exact(problem: Problem) -> Schedule:
    """A schedule that breaks the least."""
    model = time_indexed.build(problem)
    outcome = InProcess().solve("highs", model.model.arrays("broken"), Limits(20, gap=0.0))
    assert outcome.values is not None
    return time_indexed.read(model, outcome.values)


def test_the_first_schedule_breaks_no_more_than_the_last_round_left() -> None:
    better = 0
    for seed in range(examples(day=60, nightly=150)):
        problem = tiny.problem(seed, tiny.SHAPES[seed % 4], promises=True, releases=True)
        without = first(problem, None)
        if not without.broken(problem):
            continue
        known = exact(problem)
        found = first(problem, known)
        assert found.fits(problem)
        assert found.broken(problem) == known.broken(problem)
        better += found.broken(problem) < without.broken(problem)
    assert better > 0


def test_the_fastest_options_are_tried_where_those_that_ask_least_do_not_fit() -> None:
    # Two GPUs, four leases: a job of one GPU for four leases or of two for three; one of two GPUs.
    alternatives = np.array([(0, 4, 4, 1), (0, 3, 4, 2), (1, 1, 4, 2)], dtype=np.int64)
    problem = Problem(
        capacity=np.full((1, 4), 2, dtype=np.int64),
        loss=np.array([1, 1], dtype=np.int64),
        job=alternatives[:, 0],
        need=alternatives[:, 1],
        first=np.zeros(3, dtype=np.int64),
        end=alternatives[:, 2],
        value=np.ones(3, dtype=np.int64),
        demand=alternatives[:, 3:],
    )
    least = np.array([0, 2], dtype=np.int64)
    assert (list_schedule(problem, least).alternative == NONE).any()
    assert first(problem, None).alternative.tolist() == [1, 2]


def test_an_engine_keeps_elastic_promises_from_lease_to_lease() -> None:
    sizes = [{"groups": [{"gpu": gpus}]} for gpus in (1, 2, 4)]
    paces = [{"speed": speed} for speed in (1000, 1904, 3478)]
    asked = {"a": (9, 6), "b": (12, 7), "c": (4, 4), "d": (9, 8), "e": (3, 7)}
    round_ = Round.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h0", "gpus": 4, "gpu_model": "A100"}]},
            "jobs": [
                {
                    "name": name,
                    "options": sizes,
                    "deadline": {
                        "work_s": hours * HOUR,
                        "due": [{"at": due * HOUR, "value": 1}],
                        "paces": paces,
                    },
                }
                for name, (hours, due) in asked.items()
            ],
            "leases": {"length_s": HOUR, "horizon": 12},
            "policy": {"formulation": "deadline"},
        }
    )
    with Engine(round_, isolation="none") as engine:
        finish: dict[str, int] = {}
        for now in range(0, 8 * HOUR, HOUR):
            done = {name for name, at in finish.items() if at <= now}
            done &= {job.name for job in engine.state.jobs}
            plan = engine.round(Changes(now=now, removed=sorted(done)))
            assert verify(engine.round_solved, plan).ok
            (section,) = [one for one in plan.sections if one["kind"] == "leases"]
            assert section["broken"] == []
            finish |= {entry["job"]: entry["finish"] for entry in section["jobs"]}
        assert len(finish) >= 4
        assert all(finish[name] <= asked[name][1] * HOUR for name in finish)
