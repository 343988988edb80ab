"""A placement undoes what it did: to stop and to restart leaves every array as it was."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import tried
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.round import Round
from tests.formulations.gang import tiny

STABLE: dict[str, Any] = {
    "suppress_health_check": [HealthCheck.too_slow],
}


def all_of(placement: Placement) -> dict[str, Any]:
    """Return what a placement knows, but for the order of what has none."""
    shapes = range(len(placement.problem.shape_gpu))
    return {
        "free": placement.free.tolist(),
        "whole": placement.whole.tolist(),
        "partial": placement.partial_free.tolist(),
        "gpu": f"{placement.gpu_free.tolist()}m",
        "waiting": list(placement.waiting),
        "stopped": [sorted(jobs) for jobs in placement.stopped],
        "arrivals": placement.arrivals.tolist(),
        "fits": [placement.fits(shape).tolist() for shape in shapes],
        "starts": sorted(repr(start) for _, start in placement.started()),
        "quota": placement.quota_left(),
        "value": placement.value,
    }


def test_stopped_jobs_that_restart_leave_nothing_behind() -> None:
    @settings(max_examples=tried(80), **STABLE)
    @given(tiny.running_rounds(), st.data())
    def check(round_: Round, data: st.DataObject) -> None:
        placement = Placement(compile_round(round_))
        fill_greedily(placement)
        before = all_of(placement)
        numbers = [number for number, _ in placement.started()]
        chosen = data.draw(st.lists(st.sampled_from(numbers), unique=True))
        starts = [placement.get(number) for number in chosen]
        for number in chosen:
            placement.stop(number)
        for start in data.draw(st.permutations(starts)):
            assert start is not None
            placement.restart(start)
        assert all_of(placement) == before

    check()


def test_a_cleared_placement_with_all_jobs_restarted_is_that_of_the_round() -> None:
    @settings(max_examples=tried(60), **STABLE)
    @given(tiny.running_rounds())
    def check(round_: Round) -> None:
        problem = compile_round(round_)
        placement = Placement(problem, cleared=True)
        for start in problem.running_placements:
            assert placement.fits_in_place(start.job)
            placement.restart(start)
        assert all_of(placement) == all_of(Placement(problem))

    check()


def test_a_question_or_a_reopened_host_changes_nothing() -> None:
    @settings(max_examples=tried(80), **STABLE)
    @given(tiny.running_rounds(), st.data())
    def check(round_: Round, data: st.DataObject) -> None:
        placement = Placement(compile_round(round_))
        jobs = list(placement.problem.running)
        chosen = data.draw(st.lists(st.sampled_from(jobs), unique=True) if jobs else st.just([]))
        for job in chosen:
            placement.stop(placement.start_of(job))
        fill_greedily(placement)
        before = all_of(placement)
        for job in chosen:
            if not placement.is_running(job):
                placement.fits_in_place(job)
                with placement.without_rank_limits([job]):
                    pass
        assert all_of(placement) == before

    check()


def test_a_stopped_job_fits_in_place_until_another_takes_what_it_had() -> None:
    answers = []

    @settings(max_examples=tried(120), **STABLE)
    @given(tiny.running_rounds())
    def check(round_: Round) -> None:
        problem = compile_round(round_)
        placement = Placement(problem)
        for job in problem.running:
            placement.stop(placement.start_of(job))
            assert placement.fits_in_place(job)
        fill_greedily(placement)
        for job in problem.running:
            if placement.is_running(job):
                continue
            answers.append(placement.fits_in_place(job))
            if answers[-1]:
                placement.restart(problem.running_placement_of[job])
            assert (placement.free >= 0).all()
            assert (placement.gpu_free >= 0).all()
            assert (placement.whole >= 0).all()
            # Tasks of whole GPUs that have no names yet must still find them.
            assert (placement.whole <= (placement.gpu_free == 1000).sum(axis=1)).all()

    check()
    assert {True, False} <= set(answers)


def test_the_greedy_ends_beside_a_host_that_holds_too_much() -> None:
    job = {"options": [{"groups": [{"gpu": 2}]}]}
    hosts = [{"name": "h", "gpus": 2, "gpu_model": "A"}]
    jobs = [{"name": f"j{i}", **job} for i in range(3)]
    problem = compile_round(Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs}))
    placement = Placement(problem)
    for _ in range(2):
        placement.put(problem.classes[0].choices[0].groups[0].shape, 0)
    fill_greedily(placement)
    assert placement.waiting == [3]
