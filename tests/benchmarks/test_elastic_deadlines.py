"""The benchmark of elastic deadlines: its rule by hand, and more admitted than can be without."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from placewright.formulations.deadline.problem.problem import NONE, Problem

ROOT = Path(__file__).parents[2]
TRACES = ROOT.parent / "shared/data/traces/elasticflow/deadline"
needs_trace = pytest.mark.skipif(not TRACES.is_dir(), reason="needs the traces of ElasticFlow")


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        patch.chdir(ROOT)
        modules = "elastic_deadlines", "lease_answers", "lease_rules"
        yield SimpleNamespace(
            **{name: importlib.import_module(f"benchmarks.{name}") for name in modules}
        )


def test_a_job_gets_the_least_gpus_that_make_its_deadline(bench: SimpleNamespace) -> None:
    # Job, leases, the one after the last that it can use, GPUs, and one promise made before.
    alternatives = np.array(
        [(0, 4, 3, 1), (0, 2, 3, 2), (0, 1, 3, 4), (1, 2, 3, 2), (1, 1, 3, 3), (2, 2, 3, 1)],
        dtype=np.int64,
    )
    alternatives = alternatives[alternatives[:, 1] <= alternatives[:, 2]]
    problem = Problem(
        capacity=np.full((1, 3), 4, dtype=np.int64),
        loss=np.array([0, 0, 1], dtype=np.int64),
        job=alternatives[:, 0],
        need=alternatives[:, 1],
        first=np.zeros(len(alternatives), dtype=np.int64),
        end=alternatives[:, 2],
        value=np.ones(len(alternatives), dtype=np.int64),
        demand=alternatives[:, 3:],
    )
    made = bench.lease_rules.least_share(problem)
    assert made.fits(problem)
    assert made.admitted(problem) == 3
    assert made.alternative.tolist() == [0, 3, 4]
    # Promises first, then job 0 on two GPUs; job 1 has three only where job 0 is not.
    assert [np.flatnonzero(runs).tolist() for runs in made.runs] == [[0, 1], [2], [0, 1]]
    assert NONE not in made.alternative


@pytest.mark.nightly
@needs_trace
def test_elastic_options_admit_more_than_can_be_admitted_without(bench: SimpleNamespace) -> None:
    (case,) = bench.elastic_deadlines.cases(quick=True)
    asked, elastic = (case.make(elastic=kind) for kind in (False, True))
    without = bench.lease_answers.placewright(60.0, asked)
    found = bench.lease_answers.placewright(60.0, elastic)
    assert found.value > without.bound >= without.value
    for rule in (*bench.lease_rules.RULES.values(), bench.lease_rules.least_share):
        for round_, ours in ((asked, without), (elastic, found)):
            answer = bench.lease_answers.ruled(rule, round_)
            assert answer.value <= ours.value
            assert answer.value <= ours.bound
