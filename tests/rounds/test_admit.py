"""Engine.admit: one job asks for a promise, and the answer keeps all other promises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright import Changes, Engine, InvalidInputError, Plan, Round, verify
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job

HOUR = 3600


def round_of(jobs: list[Job], hosts: int = 1, horizon: int = 8) -> Round:
    round_ = Round.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "apiVersion": "placewright/v1alpha2",
                "kind": "Cluster",
                "hosts": [{"name": f"h[0-{hosts - 1}]", "gpus": 4, "gpu_model": "A100"}],
            },
            "jobs": [job.model_dump() for job in jobs],
            "policy": {"formulation": "deadline"},
            "leases": {"length_s": HOUR, "horizon": horizon},
        }
    )
    check_round(round_)
    return round_


def job(name: str, gpus: int, hours: int, due: dict[int, int]) -> Job:
    times = [{"at": at * HOUR, "value": value} for at, value in due.items()]
    return Job.model_validate(
        {
            "name": name,
            "options": [{"groups": [{"gpu": gpus}]}],
            "deadline": {"work_s": hours * HOUR, "due": times},
        }
    )


def section(plan: Plan) -> dict[str, Any]:
    return next(one for one in plan.sections if one["kind"] == "leases")


def test_a_job_that_fits_beside_the_promises_is_promised_its_best_time() -> None:
    with Engine(round_of([job("a", 4, 2, {2: 5})]), isolation="none") as engine:
        engine.round()
        answer = engine.admit(job("b", 4, 2, {3: 9, 5: 4}))
        # `a` has the GPUs for two hours, so the first time is out of reach.
        assert answer.promise is not None
        assert (answer.promise.at, answer.promise.value) == (5 * HOUR, 4)
        assert answer.runs == ((3 * HOUR, 5 * HOUR),)
        plan = engine.round(Changes(now=HOUR))
        kept = {entry["job"]: entry["promise"]["at"] for entry in section(plan)["jobs"]}
        assert kept == {"a": 2 * HOUR, "b": 5 * HOUR}


def test_a_refused_job_learns_by_when_it_could_be_done_and_what_stands_in_the_way() -> None:
    with Engine(round_of([job("a", 4, 2, {2: 5})]), isolation="none") as engine:
        engine.round()
        answer = engine.admit(job("b", 2, 2, {3: 9}))
        assert answer.promise is None
        assert answer.finish == 4 * HOUR
        assert answer.runs == ((2 * HOUR, 4 * HOUR),)
        assert answer.in_the_way == ("a",)
        assert [one.name for one in engine.state.jobs] == ["a"]


def test_promises_made_between_two_rounds_know_of_each_other() -> None:
    with Engine(round_of([]), isolation="none") as engine:
        engine.round()
        assert engine.admit(job("a", 4, 1, {2: 1})).promise is not None
        assert engine.admit(job("b", 4, 1, {2: 9})).promise is None
        assert engine.admit(job("c", 4, 1, {3: 1})).promise is not None
        plan = engine.round(Changes(now=HOUR))
        assert [entry["job"] for entry in section(plan)["jobs"]] == ["a", "c"]


def test_others_run_in_other_leases_for_an_arrival() -> None:
    # `a` may wait; `b` cannot, so `a` does.
    with Engine(round_of([]), isolation="none") as engine:
        assert engine.admit(job("a", 4, 1, {4: 1})).promise is not None
        assert engine.admit(job("b", 4, 1, {1: 1})).promise is not None
        assert engine.admit(job("c", 4, 2, {4: 1})).promise is not None
        assert engine.admit(job("d", 1, 1, {4: 1})).promise is None


def test_before_the_first_round_the_current_lease_is_open() -> None:
    with Engine(round_of([]), isolation="none") as engine:
        answer = engine.admit(job("a", 4, 1, {1: 1}))
        assert answer.promise is not None
        assert answer.runs == ((0, HOUR),)
        plan = engine.round()
        assert plan.decisions[0].decision == "start"


def test_a_job_that_never_fits_has_no_finish() -> None:
    with Engine(round_of([]), isolation="none") as engine:
        answer = engine.admit(job("a", 8, 1, {4: 1}))
        assert (answer.promise, answer.finish, answer.runs) == (None, None, ())


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (job("a", 1, 1, {}), ("deadline",)),
        (job("a", 1, 1, {1: 1}).model_copy(update={"tenant": "nobody"}), ("added", 0, "tenant")),
    ],
)
def test_what_makes_no_sense_is_an_error_and_changes_nothing(asked: Job, path: tuple[str]) -> None:
    engine = Engine(round_of([]), isolation="none")
    before = engine.state
    with pytest.raises(InvalidInputError) as caught:
        engine.admit(asked)
    assert caught.value.path == path
    assert engine.state is before


def test_other_policies_give_no_promises() -> None:
    round_ = Round.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "apiVersion": "placewright/v1alpha2",
                "kind": "Cluster",
                "hosts": [{"name": "h", "gpus": 4, "gpu_model": "A100"}],
            },
        }
    )
    with pytest.raises(InvalidInputError, match="expected the policy deadline"):
        Engine(round_, isolation="none").admit(job("a", 1, 1, {1: 1}))


ASKED = st.tuples(
    st.sampled_from([1, 2, 4]),
    st.integers(1, 3),
    st.integers(1, 8),
    st.integers(1, 9),
)


@settings(max_examples=examples(day=8, nightly=25))
@given(st.lists(st.lists(ASKED, max_size=3), min_size=2, max_size=5))
def test_no_promise_is_broken_while_capacity_stays(arrivals: list[list[Any]]) -> None:
    with Engine(round_of([], hosts=2), isolation="none", time_limit=2.0) as engine:
        engine.round()
        count = 0
        for hour, asking in enumerate(arrivals, 1):
            for gpus, hours, due, value in asking:
                count += 1
                engine.admit(job(f"j{count}", gpus, hours, {hour + due: value}))
            done = [
                one.name
                for one in engine.state.jobs
                if one.deadline is not None
                and one.running is not None
                and one.deadline.work_s <= HOUR
            ]
            plan = engine.round(Changes(removed=done, now=hour * HOUR))
            assert verify(engine.round_solved, plan).ok
            assert section(plan)["broken"] == []
            assert len(section(plan)["jobs"]) == len(engine.state.jobs)
