"""Task groups that want a MIG slice or GPU memory, and running jobs that hold some."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from placewright.instances.derived.hardware import hardware
from placewright.instances.documents.cluster import HostEntry
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Plan
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_plan, parse_round, write
from placewright.topology.mig import NO_MIG, PRODUCTS

Raw = dict[str, Any]
GROUP = "jobs[0].options[0].groups[0]"
HOSTS: list[Raw] = [
    {"name": "a", "gpus": 2, "gpu_model": "A100-SXM4-80GB"},
    {"name": "off", "gpus": 1, "gpu_model": "A100-SXM4-80GB", "mig": False},
    {"name": "t", "gpus": 1, "gpu_model": "T4"},
]


def refused(groups: list[Raw], tasks: list[Raw] | None = None) -> str:
    jobs: list[Raw] = [
        {"name": f"j{i}", "options": [{"groups": [group]}]} for i, group in enumerate(groups)
    ]
    for job, task in zip(jobs, tasks or (), strict=False):
        job["running"] = {"tasks": [task]}
    with pytest.raises(InvalidInputError) as caught:
        parse_round(
            {
                "apiVersion": "placewright/v1alpha2",
                "kind": "Round",
                "cluster": {"hosts": HOSTS},
                "jobs": jobs,
            }
        )
    return str(caught.value)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({}, "gpu: missing; expected a value"),
        ({"mig": "8g.80gb"}, "mig: '8g.80gb': unknown MIG profile; expected one of 1g.5gb, "),
        ({"mig": "1g.10gb", "gpu": 0.2}, "gpu: 0.2: given beside mig; expected none, or the 142m "),
        (
            {"mig": "1g.10gb", "gpu_memory": "5Mi"},
            "gpu_memory: '5Mi': given beside mig; expected none",
        ),
        (
            {"gpu": 0, "gpu_memory": "5Mi"},
            "gpu_memory: '5Mi': given for a task without GPUs; expected 0",
        ),
        ({"mig": 3, "gpu": 0.142}, "mig: 3: expected text"),
        ({"gpu": 0.5, "gpu_memory": "4GB"}, "gpu_memory: '4GB': expected a whole number of MiB"),
    ],
)
def test_a_group_that_contradicts_itself_is_refused(group, message):
    error_text = refused([group])
    assert f"{GROUP}.{message}" in error_text


@pytest.mark.parametrize(
    "group",
    [
        {"gpu": 0, "gpu_memory": 0},
        {"gpu": "0m", "gpu_memory": "0Mi"},
        {"mig": "1g.10gb", "gpu": "142m"},
        {"mig": "1g.10gb", "gpu": 0.142},
        {"mig": "1g.10gb", "gpu": "0.142", "gpu_memory": "0"},
    ],
    ids=str,
)
def test_zero_is_nothing_and_a_slice_may_be_said_twice(group):
    read = TaskGroup.model_validate(group)
    assert (read.gpu, read.gpu_memory) == (142 if read.mig else 0, 0)


def test_a_slice_is_its_part_of_a_gpu_also_when_it_is_read_again():
    group = TaskGroup.model_validate({"mig": "3g.40gb", "count": 2})
    assert (group.gpu, group.milli_gpu) == (428, 856)
    assert TaskGroup.model_validate(group.model_dump()) == group
    assert TaskGroup.model_validate(group.model_dump(exclude_defaults=True)) == group
    with pytest.raises(ValidationError):
        TaskGroup.model_validate({"mig": None})


@pytest.mark.parametrize(
    ("entry", "memory", "product"),
    [
        ({"model": "dgx-h100"}, 81_920, ("H100", 80)),
        ({"model": "dgx-a100", "gpu_model": "A100-SXM4-40GB"}, 40_960, ("A100", 40)),
        ({"model": "dgx-a100", "gpu_model": "L40S"}, None, None),
        ({"model": "dgx-h100", "mig": False}, 81_920, None),
        ({"gpus": 8, "gpu_model": "H100", "gpu_memory": "94Gi"}, 96_256, ("H100", 94)),
        ({"gpus": 8, "gpu_model": "H100"}, None, None),
        ({"gpus": 0, "gpu_memory": "94Gi"}, None, None),
    ],
)
def test_hardware_knows_the_memory_of_a_gpu_and_what_it_can_be_cut_into(entry, memory, product):
    has = hardware(HostEntry(name="h", **entry))
    known = None if has.product == NO_MIG else PRODUCTS[has.product]
    assert has.gpu_memory == memory
    assert (known and (known.family, known.gigabytes)) == product


ONE, HALF = {"mig": "1g.10gb"}, {"mig": "3g.40gb"}
MEDIA = {"mig": "1g.10gb+me"}
SHARE = {"gpu": 0.3, "gpu_memory": "50Gi"}


@pytest.mark.parametrize(
    ("groups", "tasks", "message"),
    [
        (
            [ONE],
            [{"host": "a", "gpus": [0]}],
            "jobs[0].running.tasks[0].slot: missing; expected a start of 1g.10gb: 0, 1, ",
        ),
        (
            [HALF],
            [{"host": "a", "gpus": [0], "slot": 2}],
            "jobs[0].running.tasks[0].slot: 2: expected a start of 3g.40gb: 0, 4",
        ),
        (
            [{"gpu": 0.5}],
            [{"host": "a", "gpus": [0], "slot": 2}],
            "jobs[0].running.tasks[0].slot: 2: given for a task that asks for no MIG slice",
        ),
        (
            [ONE],
            [{"host": "off", "gpus": [0], "slot": 2}],
            "jobs[0].running.tasks[0].host: 'off': has no MIG profile 1g.10gb; expected a host",
        ),
        (
            [{"mig": "1g.5gb"}],
            [{"host": "a", "gpus": [0], "slot": 2}],
            "'a': has no MIG profile 1g.5gb; expected one of 1g.10gb, ",
        ),
        (
            [HALF, ONE],
            [{"host": "a", "gpus": [0], "slot": 4}, {"host": "a", "gpus": [0], "slot": 5}],
            "jobs[1].running.tasks[0].slot: 5: two slices of GPU 0 of host a overlap; expected",
        ),
        (
            [MEDIA, MEDIA],
            [{"host": "a", "gpus": [0], "slot": 4}, {"host": "a", "gpus": [0], "slot": 5}],
            "jobs[1].running.tasks[0].slot: 5: two slices of GPU 0 of host a both have media",
        ),
        (
            [ONE, {"gpu": 0.1}],
            [{"host": "a", "gpus": [1], "slot": 0}, {"host": "a", "gpus": [1]}],
            "jobs[1].running.tasks[0].gpus: GPU 1 of host a holds MIG slices; expected a GPU",
        ),
        (
            [SHARE, SHARE],
            [{"host": "a", "gpus": [1]}, {"host": "a", "gpus": [1]}],
            (
                "jobs[1].running.tasks[0].gpus[0]: 1: running tasks hold 100Gi of this GPU of "
                "host a, which has 80Gi; expected no more than it has"
            ),
        ),
        (
            [SHARE],
            [{"host": "t", "gpus": [0]}],
            (
                "jobs[0].running.tasks[0].gpus[0]: 0: running tasks hold 50Gi of this GPU of "
                "host t, which has unknown memory; expected"
            ),
        ),
    ],
)
def test_running_jobs_that_cannot_share_so_are_refused(groups, tasks, message):
    assert message in refused(groups, tasks)


def test_a_written_plan_has_slots_where_there_are_slices(tmp_path):
    for slot in (None, 4):
        task = {"host": "a", "gpus": [0], "slot": slot}
        plan = Plan.model_validate(
            {"decisions": [{"job": "j", "decision": "start", "option": 0, "tasks": [task]}]}
        )
        for name in ("p.json", "p.yaml"):
            write(plan, tmp_path / name)
            assert ("slot" in (tmp_path / name).read_text()) == (slot is not None)
            assert load_plan(tmp_path / name) == plan
