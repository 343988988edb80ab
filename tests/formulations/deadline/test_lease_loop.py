"""Lease by lease over tiny traces: what is known by hand, and promises that are never broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.deadline import Deadline, Due, Pace
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.leases import Leases, Outage
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Plan, Task
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.verify import verify
from placewright.rounds.replay.lease_decider import Served, decide_leases
from placewright.topology.units import WHOLE_GPU

LENGTH = 100
BY_WORK = ("broken", "admitted", "best_effort", "disruption", "early")
BY_STAYING = ("broken", "admitted", "disruption", "best_effort", "early")


def job(
    name: str,
    work_s: int,
    *due: tuple[int, int],
    gpus: int = 1,
    came: int = 0,
    overhead_s: int = 0,
    spanning: tuple[tuple[int, int], ...] = (),
) -> Job:
    return Job(
        name=name,
        options=(Option(groups=(TaskGroup(count=gpus, gpu=f"{WHOLE_GPU}m"),)),),
        deadline=Deadline(
            work_s=work_s,
            due=tuple(Due(at=at, value=value) for at, value in due),
            ready=came or None,
            paces=(Pace(overhead_s=overhead_s, spanning=spanning),),
        ),
    )


def trace(*jobs: Job, gpus: Sequence[int] = (1,), terms: tuple[str, ...] = BY_STAYING) -> Round:
    hosts = tuple(HostEntry(name=f"h{i}", gpus=n, gpu_model="V100") for i, n in enumerate(gpus))
    return Round(
        now=0,
        cluster=ClusterDocument(hosts=hosts),
        jobs=jobs,
        leases=Leases(length_s=LENGTH, horizon=20),
        policy=Policy(formulation="deadline", terms=terms),
    )


def play(round_: Round) -> dict[str, Served]:
    """Decide lease by lease, verify every plan, and return what became of the jobs."""
    found: list[object] = []

    def watch(decided: Round, plan: Plan) -> None:
        found.extend(verify(decided, plan).violations)

    served = decide_leases(round_, isolation="none", watch=watch)
    assert not found
    assert [one.job for one in served] == [one.name for one in round_.jobs]
    return {one.job: one for one in served}


def test_a_job_that_waits_takes_a_gpu_as_soon_as_it_is_idle() -> None:
    served = play(trace(job("first", 150, (1000, 5)), job("second", 50, came=30)))
    assert served["first"].finish == 150
    assert served["first"].value == served["first"].most == 5
    assert served["second"].finish == 200
    assert served["second"].stops == served["first"].stops == 0


def test_a_promise_may_wait_for_a_short_job_and_is_charged_for_the_stop() -> None:
    round_ = trace(
        job("first", 150, (1000, 5), overhead_s=10), job("second", 50, came=30), terms=BY_WORK
    )
    served = play(round_)
    assert served["second"].finish == 150
    assert served["first"].stops == 1
    assert served["first"].finish == 150 + 10 + 50
    assert not served["first"].broken


def test_a_job_that_is_early_is_preempted_at_once_for_a_job_without_a_deadline() -> None:
    first, early = job("first", 40), job("early", 80, (400, 1), came=10)
    served = play(trace(first, early, job("short", 20, came=60)))
    # `early` takes the GPU at 40 and would keep it until 120, but its promise can wait for `short`.
    assert (served["short"].finish, served["early"].finish) == (80, 140)
    assert served["early"].stops == 1


def test_who_cannot_wait_for_the_boundary_takes_the_place_of_a_job_without_a_deadline() -> None:
    served = play(trace(job("long", 90), job("late", 30, (50, 1), came=10)))
    assert (served["late"].finish, served["long"].finish) == (40, 120)
    assert served["long"].stops == 1


def test_a_job_leaves_once_its_last_deadline_cannot_be_met() -> None:
    served = play(trace(job("first", 300, (300, 5)), job("second", 150, (250, 4), came=10)))
    assert served["first"].finish == 300
    assert served["second"] == Served("second", 10, None, 0, 4, 0, 0, broken=False)


def test_a_soft_deadline_is_worth_what_the_finish_meets() -> None:
    served = play(trace(job("first", 150, (150, 9)), job("second", 90, (200, 5), (300, 2))))
    assert served["first"].value == 9
    assert served["second"].finish == 240
    assert served["second"].value == 2
    assert not served["second"].broken


def test_nothing_happens_before_the_first_job_comes() -> None:
    rounds: list[int] = []
    served = decide_leases(
        trace(job("late", 30, came=950)),
        isolation="none",
        watch=lambda decided, _: rounds.append(decided.now),
    )
    assert rounds == [1000]
    assert served[0].finish == 1030


def test_jobs_on_several_hosts_are_as_slow_as_their_pace_says() -> None:
    served = play(trace(job("gang", 60, gpus=2, spanning=((2, 500),)), gpus=(1, 1)))
    assert served["gang"].finish == 120


def test_a_gang_waits_for_a_host_and_not_for_scattered_gpus() -> None:
    round_ = trace(job("left", 90), job("right", 80), job("pair", 10, gpus=2, came=5), gpus=(2, 2))
    served = play(round_)
    hosts_shared = served["pair"].finish == 15
    assert served["pair"].finish in (15, 90)
    assert hosts_shared or served["pair"].stops == 0


def test_hosts_that_are_away_are_not_idle() -> None:
    leases = Leases(length_s=LENGTH, horizon=20, outages=(Outage(host="h1", end=250),))
    round_ = trace(job("first", 90), job("second", 20, came=10), gpus=(1, 1))
    served = play(round_.model_copy(update={"leases": leases}))
    assert served["second"].finish == 110


def test_only_rounds_of_the_policy_and_jobs_that_wait_are_taken() -> None:
    round_ = trace(job("first", 90))
    with pytest.raises(ValueError, match="policy 'deadline'"):
        decide_leases(round_.model_copy(update={"policy": Policy(terms=("value",))}))
    running = Running(tasks=(Task(host="h0", gpus=(0,)),))
    stray = round_.jobs[0].model_copy(update={"running": running})
    with pytest.raises(ValueError, match="first"):
        decide_leases(round_.model_copy(update={"jobs": (stray,)}))


@st.composite
def traces(draw: st.DrawFn) -> Round:
    """Return up to 8 jobs of whole hosts' powers of two, on one or two hosts of 4."""
    jobs = []
    for i in range(draw(st.integers(1, 8))):
        came, work = draw(st.integers(0, 500)), draw(st.integers(1, 400))
        due = []
        if draw(st.booleans()):
            at = came
            for value in range(draw(st.integers(1, 3)), 0, -1):
                at += draw(st.integers(1, 600))
                due.append((at, value))
        jobs.append(
            job(
                f"j{i}",
                work,
                *due,
                gpus=draw(st.sampled_from((1, 1, 2, 4))),
                came=came,
                overhead_s=draw(st.sampled_from((0, 7, 30))),
            )
        )
    terms = draw(st.sampled_from((BY_WORK, BY_STAYING)))
    made = trace(*jobs, gpus=(4,) * draw(st.integers(1, 2)), terms=terms)
    headroom = draw(st.sampled_from((0, 300)))
    return made.model_copy(
        update={"leases": Leases(length_s=LENGTH, horizon=20, headroom=headroom)}
    )


@given(traces())
@settings(max_examples=examples(day=10, nightly=30))
def test_no_promise_is_broken_while_capacity_is_constant(round_: Round) -> None:
    for one, asked in zip(play(round_).values(), round_.jobs, strict=True):
        assert not one.broken
        assert asked.deadline is not None
        assert asked.deadline.due or one.finish is not None
        assert one.finish is None or one.finish >= one.came + asked.deadline.work_s


class EnoughError(Exception):
    """The first plan is all that a test wants to see."""


def asking(round_: Round) -> set[str]:
    """The jobs that ask for a promise at the first boundary."""
    found: set[str] = set()

    def watch(decided: Round, _: Plan) -> None:
        found.update(job.name for job in decided.jobs if job.deadline and job.deadline.due)
        raise EnoughError

    with pytest.raises(EnoughError):
        decide_leases(round_, time_limit=0, isolation="none", watch=watch)
    return found


@pytest.mark.parametrize(
    ("gone", "names"),
    [
        ({}, {"dear", "fair", "cheap"}),
        ({"reservations": (Reservation(host="h1"),)}, {"dear", "fair"}),
        ({"outages": (Outage(host="h1"),)}, {"dear", "fair"}),
        # It is back after a quarter of the day.
        ({"outages": (Outage(host="h1", end=21_600),)}, {"dear", "fair", "cheap"}),
    ],
)
def test_the_price_of_a_promise_knows_of_gpus_that_are_not_there(
    gone: dict[str, Any], names: set[str]
) -> None:
    """The dear job takes most of what one GPU has for promises in a day."""
    value = {"dear": 9, "fair": 5, "cheap": 1}
    work = {"dear": 60_000, "fair": 20_000, "cheap": 20_000}
    round_ = trace(*(job(name, work[name], (10**6, value[name])) for name in value), gpus=(1, 1))
    leases = Leases(length_s=21_600, outages=gone.get("outages", ()))
    update = {"leases": leases, "reservations": gone.get("reservations", ())}
    assert asking(round_.model_copy(update=update)) == names
