"""The benchmark `deadline`: its baselines by hand, its rounds as they are described."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.formulations.deadline.models.time_indexed import build
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.solver import InProcess, Limits

ROOT = Path(__file__).parents[2]
TRACE = ROOT.parent / "shared/data/traces/chronus/trace_job_Philly_MIX2.csv"
needs_trace = pytest.mark.skipif(not TRACE.is_file(), reason="needs Chronus's trace")


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        patch.chdir(ROOT)
        names = "deadline", "lease_programs", "lease_rounds", "lease_rules", "measure"
        modules = *names, "baselines", "lease_answers"
        yield SimpleNamespace(
            **{name: importlib.import_module(f"benchmarks.{name}") for name in modules}
        )


def problem(
    capacity: list[int], *jobs: tuple[int, int, list[tuple[int, int]]], loss: tuple[int, ...] = ()
) -> Problem:
    """One row; jobs ask (demand, leases, [(end, value), ...])."""
    rows = [
        (i, need, 0, end, value, demand)
        for i, (demand, need, due) in enumerate(jobs)
        for end, value in due
    ]
    job, need, first, end, value, demand = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    return Problem(
        capacity=np.array([capacity], dtype=np.int64),
        loss=np.array(loss or [0] * len(jobs), dtype=np.int64),
        job=job,
        need=need,
        first=first,
        end=end,
        value=value,
        demand=demand[:, None],
    )


def leases(schedule: Schedule) -> list[list[int] | None]:
    """The leases of each job, None for one without a promise."""
    return [
        None if alternative == NONE else np.flatnonzero(runs).tolist()
        for alternative, runs in zip(schedule.alternative, schedule.runs, strict=True)
    ]


def test_by_earliest_deadline_each_takes_its_earliest_leases_and_then_its_next_deadline(
    bench: SimpleNamespace,
) -> None:
    asked = problem(
        [1] * 6,
        (1, 2, [(4, 10)]),
        (1, 1, [(1, 10)]),
        (1, 2, [(2, 10), (6, 5)]),
        (1, 1, [(5, 10)]),
        (1, 2, [(5, 10)]),
    )
    found = bench.lease_rules.earliest_deadline(asked)
    assert leases(found) == [[1, 2], [0], [4, 5], [3], None]
    assert found.admitted(asked) == 35


def test_by_least_laxity_time_begins_anew_without_a_job_that_misses(
    bench: SimpleNamespace,
) -> None:
    # The second runs first, then the first has no time to spare either and comes before it.
    asked = problem([1, 1, 1], (1, 1, [(2, 10)]), (1, 3, [(3, 10)]))
    assert leases(bench.lease_rules.least_laxity(asked)) == [[0], None]
    asked = problem([2, 1, 1, 1], (1, 1, [(4, 10)]), (1, 2, [(2, 10)]), (1, 1, [(1, 9), (3, 4)]))
    assert leases(bench.lease_rules.least_laxity(asked)) == [[2], [0, 1], [0]]


def test_by_least_laxity_a_refused_job_gets_what_is_left(bench: SimpleNamespace) -> None:
    # All three have nothing to spare; only the first two fit at once, and the third is later.
    asked = problem([2, 2, 2], (1, 3, [(3, 10)]), (1, 2, [(2, 10)]), (1, 1, [(1, 10), (3, 2)]))
    found = bench.lease_rules.least_laxity(asked)
    assert leases(found) == [[0, 1, 2], [0, 1], [2]]
    assert found.admitted(asked) == 22


def test_chronus_packs_latest_first_and_finds_the_earliest_end_for_a_soft_deadline(
    bench: SimpleNamespace,
) -> None:
    asked = problem(
        [1] * 6, (1, 1, [(3, 10)]), (1, 2, [(3, 10)]), (1, 1, [(3, 10), (6, 5)]), (1, 1, [(3, 10)])
    )
    assert leases(bench.lease_rules.chronus(asked)) == [[2], [0, 1], [3], None]


def test_chronus_takes_the_largest_gang_first_then_least_slack(bench: SimpleNamespace) -> None:
    asked = problem([2, 2], (1, 1, [(2, 10)]), (1, 2, [(2, 10)]), (2, 1, [(2, 10)]))
    assert leases(bench.lease_rules.chronus_at_once(asked)) == [[0], None, [1]]
    assert leases(bench.lease_rules.chronus(asked)) == [[1], [0, 1], None]


def test_by_density_the_most_value_per_gpu_and_lease_comes_first(bench: SimpleNamespace) -> None:
    asked = problem([2, 2], (2, 2, [(2, 12)]), (1, 1, [(2, 4)]), (2, 1, [(1, 7)]))
    assert leases(bench.lease_rules.by_density(asked)) == [None, [1], [0]]


def test_jobs_with_a_promise_come_first_under_every_rule(bench: SimpleNamespace) -> None:
    asked = problem([1, 1], (1, 1, [(1, 9)]), (1, 2, [(2, 5)]), loss=(0, 5))
    for name, rule in bench.lease_rules.RULES.items():
        found = rule(asked)
        assert found.broken(asked) == 0, name
        assert leases(found) == [None, [0, 1]], name


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    horizon, rows = draw(st.integers(1, 6)), draw(st.integers(1, 2))
    cell = st.integers(0, 4)
    alternatives = [
        (job, need, first, draw(st.integers(first + need, horizon)), value, *demand)
        for job in range(draw(st.integers(1, 6)))
        for need, first in [(draw(st.integers(1, horizon)), 0)]
        for demand in [draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))]
        for value in draw(st.lists(st.integers(1, 9), max_size=2, unique=True))
        if any(demand)
    ]
    table = np.array(alternatives, dtype=np.int64).reshape(-1, 5 + rows)
    capacity = draw(st.lists(cell, min_size=rows * horizon, max_size=rows * horizon))
    return Problem(
        capacity=np.array(capacity, dtype=np.int64).reshape(rows, horizon),
        loss=np.zeros(6, dtype=np.int64),
        job=table[:, 0],
        need=table[:, 1],
        first=table[:, 2],
        end=table[:, 3],
        value=table[:, 4],
        demand=table[:, 5:],
    )


@given(problems())
@settings(max_examples=examples(day=37, nightly=150))
def test_every_rule_makes_a_schedule_that_fits(bench: SimpleNamespace, asked: Problem) -> None:
    for name, rule in bench.lease_rules.RULES.items():
        assert rule(asked).fits(asked), name


@given(problems())
@settings(max_examples=examples(day=15, nightly=40))
def test_the_artifacts_program_is_as_good_as_the_exact_model(
    bench: SimpleNamespace, asked: Problem
) -> None:
    model, _, _ = bench.lease_programs.artifact_program(asked)
    solver = InProcess()
    theirs = solver.solve("highs", model.arrays("admitted"), Limits(seconds=60.0, gap=0.0))
    exact = solver.solve("highs", build(asked).maximise_admitted(0), Limits(seconds=60.0, gap=0.0))
    assert exact.objective is not None
    assert theirs.objective is not None
    # The use of the current lease counts for at most 1.
    assert exact.objective - 1e-6 <= theirs.objective <= exact.objective + 1 + 1e-6


@pytest.mark.parametrize("program", ["artifact", "indexed"])
def test_a_program_answers_with_the_value_of_its_schedule(
    bench: SimpleNamespace, program: str
) -> None:
    asked = problem(
        [1] * 6, (1, 1, [(3, 10)]), (1, 2, [(3, 10)]), (1, 1, [(3, 10), (6, 5)]), (1, 1, [(3, 10)])
    )
    found = getattr(bench.lease_programs, program)("highs", 60.0, asked)
    assert (found.status, found.term, found.value) == ("optimal", "admitted", 30)
    assert found.bound == (31 if program == "artifact" else 30)


def test_the_exact_program_answers_with_what_it_breaks_where_there_are_promises(
    bench: SimpleNamespace,
) -> None:
    asked = problem([1, 1], (1, 2, [(2, 7)]), (1, 1, [(1, 3)]), loss=(7, 3))
    found = bench.lease_programs.indexed("highs", 60.0, asked)
    assert (found.term, found.value, found.bound) == ("broken", 3, 3)


def test_a_job_may_end_in_the_middle_of_its_last_lease(bench: SimpleNamespace) -> None:
    # 30 s of each lease are lost: 1,170 s are done in one, and 60 more need 90 s of another.
    job = bench.lease_rounds.Asked(gpus=1, work_s=1230, due=((1289, 9), (1290, 8), (2490, 2)))
    assert (job.need, job.overhead_s) == (2, 30)
    assert job.alternatives(10) == ((2, 8), (3, 2))
    assert job.alternatives(2) == ((2, 8), (2, 2))
    late = bench.lease_rounds.Asked(gpus=2, work_s=1140, due=((3600, 1),), ready_s=1201)
    assert (late.first, late.need, late.alternatives(9)) == (2, 1, ((3, 1),))


@needs_trace
@pytest.mark.parametrize(("load", "target"), [("tight", 1.3), ("loose", 0.7)])
def test_rounds_are_drawn_by_their_seed_and_have_the_load_of_their_name(
    bench: SimpleNamespace, load: str, target: float
) -> None:
    draw = bench.lease_rounds.draw
    made = draw(100, 250, load, 1)
    assert made == draw(100, 250, load, 1) != draw(100, 250, load, 2)
    assert len(made.jobs) == 100
    asked = bench.lease_rounds.problem_of(made)
    best = np.unique(asked.job, return_index=True)[1]
    work = int((asked.demand[best, 0] * asked.need[best]).sum())
    assert work / asked.capacity[0, : asked.end.max()].sum() == pytest.approx(target, rel=0.05)
    assert (asked.demand <= asked.capacity[:, 0]).all()
    assert (asked.first + asked.need <= asked.end).all()


@needs_trace
def test_variants_arrive_later_lose_hosts_and_have_promises(bench: SimpleNamespace) -> None:
    draw, problem_of = bench.lease_rounds.draw, bench.lease_rounds.problem_of
    later = problem_of(draw(100, 250, "tight", 0, "arriving"))
    assert 30 <= len(np.unique(later.job[later.first > 0])) <= 50
    drawn = draw(200, 250, "tight", 0, "maintained")
    capacity = drawn.capacity() // 8000
    assert capacity[0] == drawn.hosts == capacity[48]
    away = [drawn.hosts - capacity[lease] for lease in (24, 72, 120)]
    assert sum(away) + drawn.hosts - capacity[124] >= drawn.hosts * 3 // 4
    assert capacity[-1] == drawn.hosts - -(-drawn.hosts // 8)
    promised = draw(100, 250, "loose", 0, "promised")
    asked = problem_of(promised)
    assert 40 <= (asked.loss > 0).sum() <= 67
    assert asked.capacity[0, 0] == 8000 * (promised.hosts - -(-promised.hosts // 4))
    few = bench.lease_rounds.few(135, 360, 0)
    assert (len(few.jobs), few.hosts) == (135, 4)
    assert 1.235 <= few.load <= 1.365


@needs_trace
@pytest.mark.parametrize("variant", ["", "arriving", "maintained", "promised"])
def test_the_arrays_of_a_round_are_what_was_drawn(bench: SimpleNamespace, variant: str) -> None:
    drawn = bench.lease_rounds.draw(100, 250, "tight", 0, variant)
    asked = bench.lease_rounds.problem_of(drawn)
    assert asked.capacity.tolist() == [drawn.capacity().tolist()]
    for i, job in enumerate(drawn.jobs):
        assert asked.loss[i] == (0 if job.promise is None else job.promise[1])
        mine = asked.job == i
        assert (asked.demand[mine, 0] == 1000 * job.gpus).all()
        # Of deadlines with the same last lease only the best is a way.
        expected = dict(reversed(job.alternatives(drawn.horizon)))
        alternatives = zip(asked.end[mine].tolist(), asked.value[mine].tolist(), strict=True)
        assert dict(alternatives) == expected
        assert set(asked.need[mine]) <= {job.need}
        assert set(asked.first[mine]) <= {job.first}


def test_rows_say_how_much_more_ours_admits_and_which_rule_is_better(
    bench: SimpleNamespace,
) -> None:
    def answer(admitted: int, broken: int = 0, bound: float | None = None) -> Any:
        figures = {"broken": broken, "admitted": admitted}
        found = bench.baselines.Answer("feasible", "broken", broken, bound, figures=figures)
        return lambda: [bench.measure.Measured(found, 1.0, 2.0, 3.0)]

    methods = {
        "placewright": answer(100, broken=2, bound=1),
        "breaks more": answer(200, broken=3),
        "admits more": answer(101, broken=2),
        "proves": answer(0, broken=1, bound=1),
    }
    rows = list(bench.lease_answers.answers("case", 0, methods, {"GPUs": 8}))
    assert [(row.method, row.status) for row in rows] == [
        ("placewright", "feasible"),
        ("breaks more", "feasible"),
        ("admits more", "feasible"),
        ("placewright", "error"),
        ("proves", "feasible"),
    ]
    assert rows[0].figures["GPUs"] == 8
    assert rows[1].figures["ours better by %"] == pytest.approx(-50)
    assert rows[3].note == "admits more is better by its rule alone"


def test_without_the_trace_its_cases_are_skipped_and_say_what_is_missing(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench.deadline, "TRACE", tmp_path / "none.csv")
    (row,) = bench.deadline.run([bench.deadline.Case("tight", 100, 250, 0)], quick=True)
    assert (row.status, row.case) == ("skipped", "tight-100-250")
    assert "none.csv not found" in row.note


def test_all_kinds_of_rounds_are_cases_and_programs_are_for_small_ones(
    bench: SimpleNamespace,
) -> None:
    every = bench.deadline.cases(quick=False)
    drawn = [case for case in every if isinstance(case, bench.deadline.Case)]
    assert {case.kind for case in drawn} == {
        *("tight", "loose", "arriving", "maintained", "promised", "few")
    }
    assert {case.jobs for case in drawn if case.kind == "tight"} == {100, 400, 1000, 5000}
    for case in drawn:
        methods = case.methods(bench.lease_rounds.Drawn((), 1, 1), quick=False)
        programs = {name for name in methods if ", highs" in name}
        assert bool(programs) == (case.jobs <= 400 and case.seed == 0)


@pytest.mark.nightly(after=1)
@needs_trace
@pytest.mark.parametrize(("kind", "jobs"), [("tight", 100), ("arriving", 60), ("few", 135)])
def test_ours_is_within_one_percent_and_no_rule_is_better(
    bench: SimpleNamespace, kind: str, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(prepare: Any, function: Any, repeats: int) -> list[Any]:
        return [bench.measure.Measured(function(prepare()), 1.0, 2.0, 3.0)] * repeats

    monkeypatch.setattr(bench.deadline, "measured", measured)
    monkeypatch.setattr(bench.deadline, "PROGRAMMED", 0)
    rows = list(bench.deadline.run([bench.deadline.Case(kind, jobs, 250, 0)], quick=True))
    assert [row.method for row in rows] == ["placewright", *bench.lease_rules.RULES]
    ours, *others = rows
    assert (ours.term, ours.figures["broken"]) == ("admitted", 0)
    assert ours.gap <= 0.01
    assert 0.6 <= ours.figures["load"] <= 1.4
    for row in others:
        assert row.value <= ours.value <= ours.bound
        assert row.figures["ours better by %"] >= 0
