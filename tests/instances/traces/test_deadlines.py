"""Traces whose jobs have deadlines: Chronus, and ElasticFlow with the deadlines of its authors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import NEVER, SECOND
from tests.instances.traces.files import TRACES, needs_traces, written

CHRONUS = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
    "expect_time_list,expect_value_list,best_effort,job_type\n"
    "a,vc_1,1,97,3534,resnet101,180,23,323-363-383-443,10-8-5-2,0,soft\n"
    "b,vc_2,2,90,747,vgg16,57,5,147,10,0,strict\n"
    "c,vc_1,4,100,747,vgg16,57,5,1,1,1,best\n"
    "d,vc_1,0,80,747,vgg16,57,5,1,1,1,best\n"
)

ELASTICFLOW = (
    "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
    "a,16566,40285,bert,21347,64,4,3890\n"
    "b,16560,38482,resnet50,16559,256,2,6216\n"
)


def test_chronus_is_in_minutes_and_a_job_is_due_when_it_is_worth_most(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, CHRONUS))
    assert trace.names == ("b", "a", "c")
    assert trace.submit_us.tolist() == [0, 7 * 60_000_000, 10 * 60_000_000]
    assert trace.work_us.tolist() == [57 * 60_000_000, 180 * 60_000_000, 57 * 60_000_000]
    assert trace.gpus.tolist() == [2, 1, 4]
    assert trace.deadline_us.tolist() == [147 * 60_000_000, (7 + 323) * 60_000_000, NEVER]
    assert trace.value.tolist() == [10, 10, 0]
    assert [trace.tenants[t] for t in trace.tenant] == ["vc_2", "vc_1", "vc_1"]
    assert [trace.models[m] for m in trace.model] == ["vgg16", "resnet101", "vgg16"]


def test_deadlines_of_elasticflow_are_on_the_clock_of_submission(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, ELASTICFLOW))
    assert trace.names == ("b", "a")
    assert trace.submit_us.tolist() == [0, 6_000_000]
    assert trace.work_us.tolist() == [6_216_000_000, 3_890_000_000]
    assert trace.deadline_us.tolist() == [-1_000_000, (21_347 - 16_560) * SECOND]
    assert trace.value.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CHRONUS.replace("323-363", "323-322"), "line 2, column expect_time_list"),
        (CHRONUS.replace(",147,10,", ",nan,10,"), "line 3, column expect_time_list"),
        (CHRONUS.replace("b,vc_2", "a,vc_2"), "line 3, column job_id: 'a': expected each name"),
        (CHRONUS.replace("best_effort", "effort"), "line 1: "),
        (CHRONUS.replace(",90,", ",-90,"), "line 3, column submit_time: '-90'"),
        (CHRONUS.replace(",57,5,147", ",99999999999,5,147"), "line 3, column duration"),
        (ELASTICFLOW.replace("21347", ""), "line 2, column deadline: ''"),
        (ELASTICFLOW.replace("21347", "1e99"), "line 2, column deadline: '1e99'"),
        (ELASTICFLOW.replace("b,165", "a,165"), "line 3, column job_id"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_trace(written(tmp_path, text))
    assert told in str(caught.value)


@needs_traces
def test_the_published_trace_of_chronus() -> None:
    trace = read_trace(TRACES / "chronus" / "trace_job_Philly_MIX2.csv")
    assert len(trace) == 30_940 - 194
    assert int(trace.submit_us[-1]) <= 20_151 * 60_000_000
    assert int(np.count_nonzero(trace.deadline_us != NEVER)) == 27_621
    assert int(trace.value.sum()) == 276_210


@needs_traces
@pytest.mark.parametrize("cluster", ["cluster03", "cluster06", "cluster10"])
def test_deadlines_come_on_top_of_the_same_jobs(cluster: str) -> None:
    folder = TRACES / "elasticflow"
    raw = read_trace(folder / "raw" / f"{cluster}.csv")
    due = read_trace(folder / "deadline" / f"{cluster}.csv")
    assert raw.names == due.names
    for column in ("submit_us", "gpus", "work_us"):
        assert np.array_equal(getattr(raw, column), getattr(due, column))
    assert not np.any(due.deadline_us == NEVER)
    assert not np.any(raw.deadline_us != NEVER)


@needs_traces
@pytest.mark.parametrize(("name", "missed"), [("195job", 92), ("cluster03", 1540)])
def test_deadlines_before_the_earliest_end(name: str, missed: int) -> None:
    trace = read_trace(TRACES / "elasticflow" / "deadline" / f"{name}.csv")
    assert int(np.sum(trace.deadline_us < trace.submit_us + trace.work_us)) == missed
