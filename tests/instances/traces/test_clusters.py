"""Logs of production clusters, handmade after the published schemas: Philly, Helios, Acme, PAI."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.clusters import JOBS, PERCENT, TASKS
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import (
    BACKWARDS,
    NEVER_RAN,
    NO_GPU,
    NO_TIME,
    NOT_ENDED,
    SECOND,
    Trace,
    told,
)
from tests.instances.traces.files import written

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,ua,vcx,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
12,ub,vcy,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:42:27,2020-06-09 18:45:36,189,60
13,uc,vcx,0,16,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:45:36,248,0
14,uc,vcx,8,32,1,CANCELLED,2020-06-09 18:41:29,None,2020-06-09 18:45:36,0,247
15,uc,vcx,8,32,1,CANCELLED,2020-06-09 18:41:30,,,0,0
16,ua,vcz,16,64,2,TIMEOUT,2020-06-09 18:41:00,2020-06-09 19:00:00,2020-06-10 19:00:00,86400,1140
17,ua,vcz,16,64,2,RUNNING,2020-06-09 18:41:00,2020-06-09 19:00:00,,0,1140
18,ua,vcz,1,64,2,FAILED,2020-06-09 18:41:00,2020-06-09 19:00:00,2020-06-09 19:00:00,0,1140
19,ua,vcz,1,64,2,FAILED,2020-06-09 18:41:00,2020-06-09 19:00:00,2020-06-09 18:59:59,0,1140
20,ud,vcy,2,8,1,NODE_FAIL,2020-06-09 18:41:27,2020-06-09 18:42:27,2020-06-09 18:42:28,1,60
"""

SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,\
duration,queue,gpu_time
5,u1,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,\
2023-03-01 00:20:51+08:00,117,32,936.0
6,u2,1,0,4,Debug,COMPLETED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,\
2023-03-01 00:20:51+08:00,117,32,0.0
7,u1,64,512,8192,Pretrain,CANCELLED,2023-02-28 16:00:00+00:00,2023-03-01 00:01:00+08:00,\
2023-03-02 00:01:00+08:00,86400,60,1.0
"""

KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,\
start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlca,u7,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
"""


def philly_attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    """Return an attempt on hosts of which it has these numbers of GPUs."""
    detail = [{"ip": f"m{h}", "gpus": [f"gpu{g}" for g in range(n)]} for h, n in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly_job(name: str, *attempts: dict[str, Any], submitted: str = "00:00:00") -> dict[str, Any]:
    """Return a job of 7 October 2017."""
    return {
        "status": "Pass",
        "vc": f"vc{name[0]}",
        "jobid": name,
        "attempts": list(attempts),
        "submitted_time": f"2017-10-07 {submitted}",
        "user": "ü",
    }


DAY = "2017-10-07 "
PHILLY: list[dict[str, Any]] = [
    philly_job(
        "a1",
        philly_attempt(DAY + "01:12:09", DAY + "01:13:23", 8),
        philly_attempt(DAY + "01:13:30", "2017-10-09 06:53:12", 8),
        submitted="01:11:39",
    ),
    philly_job(
        "a2", philly_attempt(DAY + "00:10:00", DAY + "00:20:00", 8, 8), submitted="00:01:00"
    ),
    philly_job("b1"),
    philly_job("b2", philly_attempt(None, None, 1)),
    philly_job("b3", philly_attempt(DAY + "00:10:00", DAY + "00:20:00")),
    philly_job("c1", philly_attempt(DAY + "00:10:00", None, 4)),
    philly_job(
        "c2",
        philly_attempt(DAY + "00:10:00", None, 4),
        philly_attempt(DAY + "00:30:00", DAY + "00:31:00", 2),
        submitted="00:02:00",
    ),
    philly_job("c3", philly_attempt(DAY + "00:10:00", DAY + "00:09:59", 4)),
    philly_job("d1", philly_attempt(DAY + "00:10:00", DAY + "00:10:00", 4)),
    philly_job("d2", philly_attempt(DAY + "00:10:00", DAY + "00:10:01", 1), submitted="00:03:00"),
]

PAI = """\
j1,ps,1.0,Terminated,1000.0,2000.0,600.0,29.296875,,
j1,worker,3.0,Terminated,1010.0,2100.0,600.0,29.296875,50.0,MISC
j2,tensorflow,1.0,Failed,500.0,600.5,600.0,29.296875,25.0,T4
j3,worker,4.0,Terminated,700.0,900.0,600.0,29.296875,800.0,V100
j3,evaluator,1.0,Terminated,650.0,800.0,600.0,29.296875,100.0,V100
j4,worker,1.0,Running,800.0,,600.0,29.296875,100.0,V100
j5,worker,1.0,Waiting,,,600.0,29.296875,100.0,V100
j6,worker,2.0,Terminated,100.0,200.0,600.0,29.296875,0.0,
j7,worker,1.0,Failed,100.0,100.0,600.0,29.296875,100.0,P100
j8,worker,,Failed,100.0,90.0,600.0,29.296875,100.0,P100
"""

PAI_JOBS = """\
j3,inst3,alice,Terminated,640.0,900.0
j2,inst2,bob,Failed,490.5,600.0
j1,inst1,alice,Terminated,1000.0,2100.0
"""


def columns_of(trace: Trace) -> list[tuple[str, int, int, int, str]]:
    """Return name, submission, GPUs, work and tenant of each job."""
    columns = (trace.submit_us.tolist(), trace.gpus.tolist(), trace.work_us.tolist())
    tenants = [trace.tenants[tenant] for tenant in trace.tenant.tolist()]
    return list(zip(trace.names, *columns, tenants, strict=True))


def test_helios_runs_from_start_to_end(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, HELIOS, "cluster_log.csv"))
    assert columns_of(trace) == [
        ("16", 0, 16, 86_400_000_000, "vcz"),
        ("11", 1_000_000, 1, 36_848_000_000, "vcx"),
        ("12", 27_000_000, 4, 189_000_000, "vcy"),
        ("20", 27_000_000, 2, 1_000_000, "vcy"),
    ]
    assert trace.left_out == {NO_GPU: 1, NEVER_RAN: 2, NOT_ENDED: 1, BACKWARDS: 1, NO_TIME: 1}
    assert told(trace.left_out).startswith("jobs left out: 1 that asked no GPU, 2 that never ran,")


def test_acme_has_offsets_and_types(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, SEREN, "trace_seren.csv"))
    assert columns_of(trace) == [
        ("7", 0, 512, 86_400_000_000, "u1"),
        ("5", 18 * 60_000_000 + 22_000_000, 8, 117_000_000, "u1"),
    ]
    assert [trace.models[model] for model in trace.model.tolist()] == ["Pretrain", "Other"]
    assert trace.left_out == {NO_GPU: 1}


def test_durations_of_kalos_count_from_submission_and_are_not_read(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, KALOS, "trace_kalos.csv"))
    assert columns_of(trace) == [("dlca", 0, 64, 8_000_000, "u7")]


@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize("ascii_", [True, False])
def test_philly_adds_attempts(indent: int | None, ascii_: bool, tmp_path: Path) -> None:
    text = json.dumps(PHILLY, indent=indent, ensure_ascii=ascii_)
    trace = read_trace(written(tmp_path, text, "cluster_job_log"))
    attempts = 74 + (2 * 24 * 3600 + 5 * 3600 + 39 * 60 + 42)
    assert columns_of(trace) == [
        ("a2", 0, 16, 600_000_000, "vca"),
        ("c2", 60_000_000, 4, 60_000_000, "vcc"),
        ("d2", 120_000_000, 1, 1_000_000, "vcd"),
        ("a1", 3_600_000_000 + 10 * 60_000_000 + 39_000_000, 8, SECOND * attempts, "vca"),
    ]
    assert trace.left_out == {NEVER_RAN: 2, NO_GPU: 1, NOT_ENDED: 1, BACKWARDS: 1, NO_TIME: 1}
    (tmp_path / "packed").write_bytes(gzip.compress(text.encode()))
    assert read_trace(tmp_path / "packed").names == trace.names


def test_a_long_list_is_read_in_pieces(tmp_path: Path) -> None:
    jobs = [
        philly_job(f"a{number}-{'ü' * 3000}", philly_attempt(DAY + "00:10:00", DAY + "00:20:00", 1))
        for number in range(700)
    ]
    text = json.dumps(jobs, ensure_ascii=False)
    assert len(read_trace(written(tmp_path, text, "cluster_job_log"))) == 700
    assert len(text.encode()) > 3 << 20


def test_pai_rounds_up_per_task(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, PAI, "pai_task_table.csv"))
    assert columns_of(trace) == [
        ("j2", 0, 1, 100_500_000, ""),
        ("j3", 150_000_000, 33, 250_000_000, ""),
        ("j1", 510_000_000, 2, 1_090_000_000, ""),
    ]
    assert trace.extra[PERCENT].tolist() == [25, 3300, 150]
    assert trace.left_out == {NO_GPU: 2, NEVER_RAN: 1, NOT_ENDED: 1, NO_TIME: 1}
    headed = read_trace(written(tmp_path, ",".join(TASKS) + "\n" + PAI, "headed.csv"))
    assert np.array_equal(headed.work_us, trace.work_us)


@pytest.mark.parametrize("header", ["", ",".join(JOBS) + "\n"])
def test_the_table_of_jobs_has_submissions_and_users(header: str, tmp_path: Path) -> None:
    written(tmp_path, header + PAI_JOBS, "pai_job_table.csv")
    trace = read_trace(written(tmp_path, PAI, "pai_task_table.csv"))
    assert columns_of(trace) == [
        ("j2", 0, 1, 100_500_000, "bob"),
        ("j3", 149_500_000, 33, 250_000_000, "alice"),
        ("j1", 509_500_000, 2, 1_090_000_000, "alice"),
    ]
    written(tmp_path, "", "pai_job_table.csv")
    with pytest.raises(InvalidInputError, match=r"pai_job_table\.csv: empty"):
        read_trace(tmp_path / "pai_task_table.csv")


def changed(number: int, **keys: object) -> str:
    """Return the log of Philly with a job changed."""
    return json.dumps(
        [job | (keys if row == number else {}) for row, job in enumerate(PHILLY)], indent=0
    )


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "h.csv",
            HELIOS.replace("18:41:27", "18:61:27", 1),
            "line 3, column submit_time: .*as 2020",
        ),
        ("h.csv", HELIOS.replace(",4,16,", ",four,16,"), "line 3, column gpu_num: 'four'"),
        ("h.csv", HELIOS.replace("\n12,", "\n11,"), "line 3, column job_id: '11': expected each"),
        ("h.csv", HELIOS.replace("2020-06-09 18:41:00", "", 1), "line 7, column submit_time: ''"),
        (
            "h.csv",
            HELIOS.replace("2020-06-10 19", "9020-06-10 19"),
            "line 7, column end_time: .*most",
        ),
        (
            "h.csv",
            HELIOS.replace("2020-06-10 19", "1020-06-10 19"),
            "line 7, column end_time: .*1970",
        ),
        ("p", changed(1, vc=None), "job of line .*: vc: None: expected text"),
        ("p", changed(1, submitted_time=None), "submitted_time: None: expected a time as 2020"),
        ("p", changed(1, attempts={}), "attempts: {}: expected a list"),
        ("p", changed(1, attempts=[1]), r"attempts\[0\]: 1: expected an attempt"),
        ("p", changed(2, jobid="a1"), "jobid: 'a1': expected each job once; line 2 has it"),
        ("p", changed(0, attempts=[{"detail": 0}]), r"attempts\[0\]\.detail: 0: expected a list"),
        ("p", changed(0, attempts=[{"start_time": 5}]), r"attempts\[0\]\.start_time: 5: expected"),
        ("p", changed(0, x=5)[:-1], "line .*: '': expected , or ]"),
        ("p", changed(0, x=5) + "x", "expected nothing behind the list"),
        ("p", changed(0, x=5)[:-9], "expected a JSON value"),
        ("p", changed(0, x=5).replace('"x": 5', '"x": ' + "[" * 99_999), "expected fewer levels"),
        ("p", '[{"jobid": "a"}, 7]', "job of line 1: vc: None"),
        ("p", '["jobid"]', "job of line 1: 'jobid': expected a job"),
        ("t", PAI.replace("3.0,", "3.5,"), "line 2, column inst_num: '3.5': expected a whole"),
        ("t", PAI.replace("50.0,MISC", "half,MISC"), "line 2, column plan_gpu: 'half'"),
        ("t", PAI.replace("600.5", "-600"), "line 3, column end_time: '-600'"),
        (
            "t",
            PAI.replace("600.5", "9999999999"),
            "line 3, column job_name: 'j2': expected a job of",
        ),
    ],
)
def test_errors_name_place_and_expectation(
    name: str, text: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=expected) as caught:
        read_trace(written(tmp_path, text, name))
    assert str(caught.value).startswith(str(tmp_path / name))
    assert str(caught.value).isprintable()
