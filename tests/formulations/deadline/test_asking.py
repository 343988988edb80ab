"""The price of a promise, by hand."""

from __future__ import annotations

import pytest

from placewright.instances.documents.deadline import Deadline, Due, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.rounds.replay.lease_decider import SHARE, WINDOW_S, AdmissionPrice, Record
from placewright.topology.units import WHOLE_GPU


def record(name: str, gpus: int, part: float, value: int, came: int = 0) -> Record:
    """Return a job whose work is this part of what one GPU has for jobs that ask, per GPU."""
    deadline = Deadline(
        work_s=round(part * SHARE * WINDOW_S),
        due=(Due(at=10**6, value=value),) if value else (),
        paces=(Pace(speed=1000),),
    )
    option = Option(groups=(TaskGroup(count=gpus, gpu=f"{WHOLE_GPU}m"),))
    job = Job(name=name, options=(option,), deadline=deadline)
    return Record(job, deadline, came, 0)


FOUR = 4 * WHOLE_GPU


def prices(*records: Record) -> AdmissionPrice:
    made = AdmissionPrice()
    for one in records:
        made.arrive(one)
    return made


def test_all_ask_while_there_is_capacity_for_all() -> None:
    assert prices().price(0, FOUR) == 0
    assert prices(record("a", 2, 1.0, 5), record("b", 2, 0.9, 1)).price(0, FOUR) == 0


def test_the_price_is_the_value_of_the_last_job_that_fits() -> None:
    dear, fair, cheap = record("a", 2, 1.0, 9), record("b", 2, 1.1, 5), record("c", 4, 1.0, 1)
    price = prices(cheap, dear, fair).price(0, FOUR)
    assert price == pytest.approx(fair.value_per_gpu_time)
    assert dear.value_per_gpu_time > price > cheap.value_per_gpu_time


def test_only_the_last_day_and_jobs_with_a_deadline_count() -> None:
    first, later = record("a", 4, 2.0, 9), record("b", 4, 2.0, 5, came=WINDOW_S)
    made = prices(first, record("c", 4, 5.0, 0), later)
    assert made.price(WINDOW_S - 1, FOUR) == pytest.approx(first.value_per_gpu_time)
    assert made.price(WINDOW_S, FOUR) == pytest.approx(later.value_per_gpu_time)
    assert made.price(2 * WINDOW_S, FOUR) == 0


def test_an_option_that_takes_fewer_gpu_seconds_is_what_a_job_needs() -> None:
    deadline = Deadline(
        work_s=100,
        due=(Due(at=10**6, value=8),),
        paces=(Pace(speed=1000), Pace(speed=1500)),
    )
    options = tuple(Option(groups=(TaskGroup(count=n, gpu=f"{WHOLE_GPU}m"),)) for n in (1, 2))
    made = Record(Job(name="a", options=options, deadline=deadline), deadline, 0, 0)
    assert made.least_gpu_time == 100 * WHOLE_GPU
    assert made.value_per_gpu_time == 8 / made.least_gpu_time
