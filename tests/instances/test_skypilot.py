"""A task of SkyPilot as a job; the tasks are handmade in the form of its documentation."""

from __future__ import annotations

import pytest

from placewright.cli.app import main
from placewright.instances.converters import read_skypilot
from placewright.instances.errors import InvalidInputError

ROUND = """
apiVersion: placewright/v1alpha2
kind: Round
cluster:
  hosts: [{name: "h[0-1]", gpus: 8, gpu_model: A100, cpu: 96, memory: 1Ti}]
"""


def read(folder, text):
    file = folder / "task.yaml"
    file.write_text(text)
    return read_skypilot(file)


def groups(job):
    return [
        (g.gpu_models[0], g.count, g.gpu, g.cpu, g.memory)
        for option in job.options
        for g in option.groups
    ]


def test_nodes_are_tasks_and_amounts_are_least_ones(tmp_path):
    job = read(
        tmp_path,
        "name: train me\nnum_nodes: 2\n"
        "resources: {accelerators: 'H100:8', cpus: 32+, memory: 4x, use_spot: true}\nrun: x\n",
    )
    assert job.name == "train-me"
    assert groups(job) == [("H100", 2, 8000, 32_000, 128 * 1024)]


@pytest.mark.parametrize(
    "resources",
    [
        "{accelerators: {H100: 8, A100: 8}}",
        "{accelerators: ['H100:8', 'A100:8']}",
        "{any_of: [{accelerators: 'H100:8'}, {accelerators: 'A100:8'}]}",
        "{ordered: [{accelerators: 'H100:8'}, {accelerators: 'A100:8'}]}",
    ],
)
def test_alternatives_are_options(tmp_path, resources):
    job = read(tmp_path, f"resources: {resources}\n")
    assert [(model, gpu) for model, _, gpu, _, _ in groups(job)] == [("H100", 8000), ("A100", 8000)]
    assert [option.name for option in job.options] == ["0-H100-8", "1-A100-8"]
    assert job.name == "task"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- x\n", "resources: expected a task of SkyPilot, with resources"),
        ("resources: {cpus: 4}\n", "resources.accelerators: asks for no accelerator"),
        ("resources: {accelerators: 'tpu-v5e-8'}\n", "resources.accelerators: 'tpu-v5e-8'"),
        ("resources: {accelerators: 'H100:8', cpus: many}\n", "resources.cpus: 'many'"),
        ("num_nodes: 0\nresources: {accelerators: H100}\n", "num_nodes: 0: expected a number"),
        ("resources: {any_of: [1]}\n", "resources.any_of[0]: 1: expected resources"),
    ],
)
def test_a_wrong_value_is_one_line(tmp_path, text, said):
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_what_if_it_were_submitted(tmp_path, capsys):
    (tmp_path / "task.yaml").write_text("name: t\nresources: {accelerators: [A100:8, A100:4]}\n")
    (tmp_path / "round.yaml").write_text(ROUND)
    job = str(tmp_path / "job.yaml")
    assert main(["convert", "skypilot", str(tmp_path / "task.yaml"), "-o", job]) == 0
    assert main(["whatif", str(tmp_path / "round.yaml"), "-e", job, "--time-limit", "5"]) == 0
    assert "Jobs: 1 of 1 new jobs run." in capsys.readouterr().out
