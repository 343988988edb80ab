"""The benchmark `explain`: its openb round, and what a row says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from benchmarks import explain
from benchmarks.explain_rounds import JOBS, openb_round
from benchmarks.presets import NODES, PODS, TRACE
from benchmarks.report import SKIPPED
from placewright import Plan, Round, solve_round
from placewright.instances.generators.gang import generate_round

needs_trace = pytest.mark.skipif(not TRACE.exists(), reason="the openb trace is not here")


def small() -> tuple[Round, Plan | None]:
    round_ = generate_round(512, 60, mix="tight", seed=1)
    return round_, solve_round(round_, time_limit=0.0, isolation="none")


@pytest.mark.nightly
@needs_trace
def test_the_openb_round_has_racks_of_one_kind_and_all_jobs_wait():
    round_ = openb_round(TRACE / NODES, TRACE / PODS.format(explain.PODS_OF))
    assert sum(job.running is not None for job in round_.jobs) == 6350
    assert [job.name for job in round_.jobs if job.running is None] == [job.name for job in JOBS]
    kinds = {}
    for host in round_.cluster.hosts:
        kinds.setdefault(host.parent, []).append((host.gpu_model, host.gpus))
    assert all(len(set(hosts)) == 1 and len(hosts) <= 16 for hosts in kinds.values())
    assert len(round_.reservations) == 36


def test_one_job_and_all_jobs_of_a_small_round_are_explained():
    one = explain._one(None, small())
    assert one.status in {"not_now", "others_instead"}
    assert one.figures["conflict s"] >= 0
    assert one.figures["proven"] == 1
    every = explain._all(small())
    assert every.status == "decided"
    assert every.figures["jobs"] >= every.figures["causes"] > 0


def test_corrections_are_looked_for_where_there_is_no_plan():
    round_, _ = small()
    waits = next(job.name for job in round_.jobs if job.running is None)
    found = explain._one(waits, (round_, None))
    assert {"corrections s", "least"} <= set(found.figures) or found.status == "could_start"


def test_a_missing_trace_skips_its_cases(tmp_path):
    case = replace(explain.cases(quick=True)[0], needs=(tmp_path / "missing.csv",))
    (row,) = explain.run([case], quick=True)
    assert row.status == SKIPPED
    assert "missing.csv" in row.note


def test_quick_cases_are_few():
    assert [case.name for case in explain.cases(quick=True)] == [
        "openb-big-rack",
        "openb-v100-pair",
        "tight-4096-largest",
        "tight-4096-all",
    ]
    assert len(explain.cases(quick=False)) == len(JOBS) + 2
    assert isinstance(explain.cases(quick=True)[0].answer, partial)
