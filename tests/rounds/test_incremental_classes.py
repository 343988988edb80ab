"""Engines adapt the last plan of rounds with several priority classes, and bound each class."""

from __future__ import annotations

import pytest
from gang_parameters import set_parameters

from examples import by_day, examples
from placewright import Changes, Engine, solve_round
from placewright.formulations.gang import incremental
from placewright.instances.documents.plan import TermResult
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.verify import verify

CLASSES, SECONDS = 3, examples(day=1.5, nightly=5.0)


def strict_round(seed: int) -> Round:
    round_ = generate_round(examples(day=128, nightly=512), 120, mix="tight", seed=seed)
    jobs = (
        job if job.running else job.model_copy(update={"priority": min(job.priority, CLASSES - 1)})
        for job in round_.jobs
    )
    policy = round_.policy.model_copy(update={"priority": "strict"})
    return round_.model_copy(update={"policy": policy, "jobs": tuple(jobs)})


def classes_of(terms: tuple[TermResult, ...]) -> list[TermResult]:
    return [term for term in terms if term.asked is not None]


@pytest.mark.parametrize("seed", by_day([0, 1]))
def test_a_plan_is_adapted_class_by_class_and_no_plan_beats_its_bounds(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=0)
    set_parameters(monkeypatch, "incremental", negligible_class_gain_rel=1.0)
    round_ = strict_round(seed)
    with Engine(round_, time_limit=SECONDS, isolation="none") as engine:
        engine.round()
        leaves = tuple(job.name for job in engine.state.jobs[::20])
        comes = tuple(
            job.model_copy(update={"name": f"new-{job.name}"})
            for job in strict_round(seed + 10).jobs
            if job.running is None
        )
        with monkeypatch.context() as patched:
            patched.delattr(incremental, "run")  # nothing is searched from scratch
            changes = Changes(removed=leaves, added=comes, now=engine.state.now + 60)
            plan = engine.round(changes)
        solved = engine.round_solved
    assert solved is not None
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    assert verify(solved, plan).ok
    mine = classes_of(plan.certificate.terms)
    assert len(mine) == CLASSES
    other = solve_round(solved, time_limit=SECONDS, isolation="none")
    assert other.certificate is not None
    for one, scratch in zip(mine, classes_of(other.certificate.terms), strict=True):
        assert one.bound is not None
        assert one.certified is not None
        assert scratch.value <= one.bound
        if scratch.value < one.value:
            break
