"""The reader of openb, pods with times of Kubernetes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.read import read_trace
from tests.instances.traces.files import TRACES, needs_traces, written

HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)
PODS = (
    "a,6000,12288,1,460,,LS,Running,100,160,105\n"
    "b,6000,12288,8,1000,V100M16,LS,Succeeded,90,100,90\n"
    "none,6000,12288,0,0,,LS,Running,10,20,10\n"
    "waits,6000,12288,1,460,,LS,Pending,10,20,\n"
    "stays,6000,12288,1,460,,LS,Running,10,,10\n"
)


def test_a_pod_runs_from_its_schedule_to_its_deletion(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, HEAD + PODS))
    assert trace.names == ("b", "a")
    assert trace.submit_us.tolist() == [0, 10_000_000]
    assert trace.gpus.tolist() == [8, 1]
    assert trace.work_us.tolist() == [10_000_000, 55_000_000]
    assert trace.extra["gpu_milli"].tolist() == [1000, 460]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD + PODS.replace("160,105", "104,105"), "line 2, column deletion_time: '104'"),
        (HEAD + PODS.replace("160,105", "160,99"), "line 2, column scheduled_time: '99'"),
        (HEAD + PODS.replace("160,105", "-160,105"), "line 2, column deletion_time: '-160'"),
        (HEAD + PODS.replace("160,105", "9999999999,105"), "line 2, column deletion_time"),
        (HEAD + PODS.replace("b,6000", "a,6000"), "line 3, column name: 'a'"),
        ("name,num_gpu,gpu_milli\na,1,1000\n", "expected a column creation_time"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_trace(written(tmp_path, text))
    assert told in str(caught.value)


@needs_traces
def test_the_published_pods() -> None:
    trace = read_trace(TRACES / "openb" / "openb_pod_list_default.csv")
    assert int(np.max(trace.gpus)) == 8
    assert len(trace) <= 8152 - 1088
    with pytest.raises(InvalidInputError, match="expected a column creation_time"):
        read_trace(TRACES / "openb" / "openb_pod_list_multigpu20.csv")
    with pytest.raises(InvalidInputError, match="columns of a known trace"):
        read_trace(TRACES / "openb" / "openb_node_list_all_node.csv")
