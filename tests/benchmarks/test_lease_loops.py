"""Baseline rules of the lease-by-lease benchmark on counted GPUs, and its offline bound."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.converters.support.trace_rounds import TraceJob
from placewright.rounds.replay.lease_decider import Served

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        patch.chdir(ROOT)
        bound, loops, loop_rules, rules = (
            importlib.import_module(f"benchmarks.lease_{name}")
            for name in ("bound", "loops", "loop_rules", "rules")
        )
        yield SimpleNamespace(
            bound=bound, counted=loop_rules.counted, loops=loops, rules=rules.RULES
        )


def asked(
    name: str, submit_s: int, duration_s: int, *due: tuple[int, int], gpus: int = 1
) -> TraceJob:
    return TraceJob(name, gpus, submit_s, duration_s, "model", due)


def test_a_shorter_job_runs_before_one_whose_promise_can_wait(bench: SimpleNamespace) -> None:
    jobs = (asked("long", 0, 1500, (9000, 10)), asked("short", 100, 600))
    long, short = bench.counted(bench.rules["Chronus"], jobs, 1)
    assert short == Served("short", 100, 1800, 0, 0, 0, 0, broken=False)
    assert long.stops == 1
    assert long.finish == 1200 + 600 + 30 + 300
    assert long.value == 10


def test_a_job_that_cannot_be_in_time_leaves(bench: SimpleNamespace) -> None:
    jobs = (asked("first", 0, 1500, (1600, 10)), asked("second", 0, 1500, (1700, 10)))
    for rule in bench.rules.values():
        served = bench.counted(rule, jobs, 1)
        assert sorted(one.finish or 0 for one in served) == [0, 1500]
        answer = bench.loops.outcome(served, {})
        assert answer.value == 10
        assert answer.figures["missed value %"] == 50


def test_the_bound_is_exact_where_two_jobs_ask_for_the_same_seconds(bench: SimpleNamespace) -> None:
    jobs = (asked("a", 0, 600, (600, 10)), asked("b", 0, 600, (600, 4)))
    assert bench.bound.value_at_most(jobs, 1, bin_s=600) == pytest.approx(10, abs=0.05)
    assert bench.bound.value_at_most(jobs, 2, bin_s=600) == pytest.approx(14)


def test_the_bound_counts_no_deadline_that_a_job_cannot_meet_alone(bench: SimpleNamespace) -> None:
    jobs = (asked("a", 0, 600, (500, 10), (700, 3)),)
    assert bench.bound.value_at_most(jobs, 1, bin_s=100) == pytest.approx(3)


@st.composite
def traces(draw: st.DrawFn) -> tuple[TraceJob, ...]:
    """Return jobs in the order of submission."""
    made = []
    for i in range(draw(st.integers(1, 12))):
        submit, duration = draw(st.integers(0, 9000)), draw(st.integers(60, 6000))
        due, at = [], submit
        for value in range(draw(st.integers(0, 3)), 0, -1):
            at += draw(st.integers(600, 6000))
            due.append((at, value))
        made.append(
            asked(f"j{i}", submit, duration, *due, gpus=draw(st.sampled_from((1, 1, 2, 4))))
        )
    return tuple(sorted(made, key=lambda job: job.submit_s))


@given(traces(), st.integers(4, 6), st.integers(0, 4))
@settings(max_examples=examples(day=15, nightly=60))
def test_no_rule_beats_the_bound_or_runs_a_job_too_short(
    bench: SimpleNamespace, jobs: tuple[TraceJob, ...], gpus: int, rule: int
) -> None:
    served = bench.counted(list(bench.rules.values())[rule], jobs, gpus)
    for one, job in zip(served, jobs, strict=True):
        assert one.finish is None or one.finish >= job.submit_s + job.duration_s
        assert job.due or one.finish is not None
    value = sum(one.value for one in served)
    assert value <= bench.bound.value_at_most(jobs, gpus, bin_s=600, steps=20) + 1e-6


def test_a_loop_takes_all_jobs_of_the_trace_as_they_come(bench: SimpleNamespace) -> None:
    assert len({case.name for case in bench.loops.loop_cases()}) == 5
    case = bench.loops.Loop(bench.loops.SAMPLE, 72, locality=True)
    if not list(bench.loops.FOLDER.glob(bench.loops.SAMPLE)):
        pytest.skip("the trace is not there")
    made = case.make()
    assert len(made.jobs) == 1199
    assert made.now == 0
    assert all(job.deadline is not None and job.deadline.ready for job in made.jobs)
    assert any(job.deadline and job.deadline.paces[0].spanning for job in made.jobs)
