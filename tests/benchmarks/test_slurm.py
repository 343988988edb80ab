"""What the benchmark of a real Slurm counts."""

from __future__ import annotations

import pytest

from benchmarks.slurm import CLASSES, cases, classes
from benchmarks.slurm_arrivals import Ran, arrivals, overtaken, starving
from benchmarks.slurm_queue import asked

HOSTS = tuple(f"h{i}" for i in range(16))


def ran(place, hosts, started, ended, *, urgent=0, submitted=0, gpus=8):
    return Ran(urgent, place, gpus, frozenset(hosts), submitted, started, ended)


def test_a_job_is_overtaken_by_one_behind_it_that_holds_what_it_needs():
    runs = ran(0, HOSTS[:8], 0, 100)
    head = ran(1, HOSTS, 300, 400, urgent=1, submitted=10)
    behind = ran(2, HOSTS[8:], 40, 300, submitted=20)
    assert overtaken(head, [runs, head, behind], len(HOSTS)) == 200
    unnoticed = behind._replace(started=19)
    assert overtaken(head, [runs, head, unnoticed], len(HOSTS)) == 0


def test_a_job_behind_that_ends_in_time_overtakes_nobody():
    runs = ran(0, HOSTS[:8], 0, 100)
    head = ran(1, HOSTS, 101, 200, urgent=1, submitted=10)
    behind = ran(2, HOSTS[8:], 20, 90, submitted=20)
    assert overtaken(head, [runs, head, behind], len(HOSTS)) == 0


def test_a_job_behind_another_that_waits_is_not_overtaken():
    runs = ran(0, HOSTS[:8], 0, 100)
    first = ran(1, HOSTS, 400, 500, urgent=2, submitted=10)
    second = ran(2, HOSTS, 500, 600, urgent=1, submitted=10)
    behind = ran(3, HOSTS[8:], 40, 400, submitted=20)
    assert overtaken(second, [runs, first, second, behind], len(HOSTS)) == 0
    assert overtaken(first, [runs, first, second, behind], len(HOSTS)) == 300


def test_jobs_that_started_before_a_job_came_are_in_nobodys_way():
    runs = ran(0, HOSTS, 0, 100)
    late = ran(1, HOSTS[:1], 100, 200, urgent=2, submitted=50)
    assert overtaken(late, [runs, late], len(HOSTS)) == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_draws_the_same_jobs(seed):
    assert list(asked(seed, 100)) == list(asked(seed, 100))
    assert sum(job.total for job in asked(seed, 100)) >= 100
    assert set(classes(seed, 100)) == set(range(CLASSES))
    for stream in (arrivals(seed, classes(seed, 100)), starving()):
        assert [one.at for one in stream.jobs] == sorted(one.at for one in stream.jobs)
        assert all(one.seconds < one.job.minutes * 60 for one in stream.jobs)
        assert all(one.job.hosts <= stream.hosts for one in stream.jobs)


def test_cases_have_names_of_their_own():
    names = [case.name for case in cases(quick=False)]
    assert len(set(names)) == len(names) == 18
    assert cases(quick=True)[0].name in names
