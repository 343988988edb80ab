"""Manifests of JobSets and LeaderWorkerSets as jobs; handmade, and examples of both projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright import Round
from placewright.cli.app import main
from placewright.formulations.stages.bounds import bounds
from placewright.formulations.stages.problem import compile_stages
from placewright.instances.converters import read_manifest
from placewright.instances.errors import InvalidInputError

REAL = Path(__file__).parents[4] / "shared" / "data" / "live" / "kubernetes"
ROUND = """
apiVersion: placewright/v1alpha2
kind: Round
cluster:
  levels: [rack]
  domains: [{name: r0, level: rack}, {name: r1, level: rack}]
  hosts:
    - {name: "a[0-2]", parent: r0, gpus: 8, gpu_model: H100, cpu: 96, memory: 1Ti}
    - {name: "b[0-1]", parent: r1, gpus: 8, gpu_model: H100, cpu: 96, memory: 1Ti}
"""
JOB_SET = """# A set, and its service.
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: example.com/rack}
spec:
  replicatedJobs:
    - name: driver
      template: {spec: {template: {spec: {containers: [{resources: {requests: {cpu: 2}}}]}}}}
    - name: workers
      replicas: 2
      template:
        spec:
          parallelism: 4
          completions: 2
          template:
            spec:
              nodeSelector: {nvidia.com/gpu.product: H100, zone: a}
              containers:
                - resources:
                    requests: {cpu: 500m}
                    limits: {nvidia.com/gpu: "8", memory: 64Gi, example.com/nic: 2}
---
kind: Service
metadata: {name: train}
"""
LEADER = """
kind: LeaderWorkerSet
metadata:
  name: serve
  annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: example.com/rack}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 3
    leaderTemplate: {spec: {containers: [{resources: {limits: {cpu: 1}}}]}}
    workerTemplate: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 4}}}]}}
"""


def read(folder, text, **levels):
    file = folder / "manifest.yaml"
    file.write_text(text)
    return read_manifest(file, levels={"example.com/rack": "rack"} if levels else None)


def test_replicated_jobs_are_task_groups(tmp_path):
    made = read(tmp_path, JOB_SET)
    (job,) = made.jobs
    driver, workers = job.options[0].groups
    assert (job.name, driver.name, driver.count, driver.gpu, driver.cpu) == (
        "train",
        "driver",
        1,
        0,
        2000,
    )
    assert (workers.count, workers.gpu, workers.cpu, workers.memory) == (4, 8000, 500, 64 * 1024)
    assert workers.gpu_models == ("H100",)
    assert workers.resources == {"example.com/nic": 2}
    assert workers.slices is workers.required is driver.required is None
    unnamed = "exclusive topology by example.com/rack, which no --level names"
    assert made.book.lines() == [
        "objects: 1 of 2 in the round",
        "left out: 1 object: no JobSet, LeaderWorkerSet or Workflow: Service",
        f"not said by the round: {unnamed}: train/driver, train/workers",
        "not said by the round: nodes by label (zone): train/workers",
    ]


def test_an_exclusive_topology_is_a_domain_for_each_replica(tmp_path):
    driver, workers = read(tmp_path, JOB_SET, rack="rack").jobs[0].options[0].groups
    assert driver.required == "rack"
    assert (workers.slices.size, workers.slices.required) == (2, "rack")
    assert (workers.apart.level, workers.apart.most) == ("rack", 2)


def test_each_replica_of_a_leader_and_workers_is_a_job(tmp_path):
    made = read(tmp_path, LEADER, rack="rack")
    assert [job.name for job in made.jobs] == ["serve-0", "serve-1"]
    for job in made.jobs:
        assert job.options[0].required == "rack"
        assert [(g.name, g.count, g.gpu, g.cpu) for g in job.options[0].groups] == [
            ("leader", 1, 0, 1000),
            ("workers", 2, 4000, 0),
        ]


def test_examples():
    if not REAL.exists():
        pytest.skip("no data")
    made = read_manifest(REAL / "lws" / "docs__examples__vllm__GPU__lws.yaml")
    assert [job.name for job in made.jobs] == ["vllm-0", "vllm-1"]
    groups = made.jobs[0].options[0].groups
    assert [(g.count, g.gpu, g.cpu, g.memory) for g in groups] == [
        (1, 8000, 125_000, 1124 * 1024)
    ] * 2
    for file in sorted((REAL / "jobset").glob("site__static__examples__simple__*.yaml")):
        with pytest.raises(InvalidInputError, match="whose pods ask for GPUs"):
            read_manifest(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1\n", "expected an object of Kubernetes"),
        (
            "kind: Service\n",
            "expected a JobSet or a LeaderWorkerSet whose pods ask for GPUs, or a Workflow",
        ),
        (JOB_SET.replace("replicas: 2", "replicas: many"), "replicatedJobs[1].replicas: 'many'"),
        (LEADER.replace("replicas: 2", "replicas: 20000"), "spec.replicas: 20000: expected at"),
        (LEADER.replace("gpu: 4", "gpu: x"), "limits['nvidia.com/gpu']: 'x': expected a quantity"),
        (f"{JOB_SET}---\na: [\n", f"line {JOB_SET.count(chr(10)) + 3}, column 1"),
    ],
)
def test_a_wrong_value_is_one_line(tmp_path, text, said):
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_what_if_it_were_submitted(tmp_path, capsys):
    (tmp_path / "set.yaml").write_text(JOB_SET.replace(", example.com/nic: 2", ""))
    (tmp_path / "round.yaml").write_text(ROUND)
    made, given = str(tmp_path / "jobs.yaml"), str(tmp_path / "set.yaml")
    level = ["--level", "example.com/rack=rack"]
    assert main(["convert", "manifest", given, "-o", made, *level]) == 0
    assert main(["whatif", str(tmp_path / "round.yaml"), "-e", made, "--time-limit", "5"]) == 0
    assert "Jobs: 1 of 1 new jobs run." in capsys.readouterr().out
    assert main(["convert", "manifest", given, "-o", made, "--level", "rack"]) == 2
    assert "expected KEY=LEVEL" in capsys.readouterr().err


WORKFLOW = """
kind: Workflow
metadata: {generateName: nightly-}
spec:
  entrypoint: main
  templates:
    - name: main
      dag:
        tasks:
          - {name: train, template: gpu}
          - {name: score, template: gpu, dependencies: [train], withItems: [a, b, c]}
          - {name: report, template: cpu, depends: "score.Succeeded && (train || train.Failed)"}
    - name: gpu
      activeDeadlineSeconds: 600
      nodeSelector: {nvidia.com/gpu.product: H100}
      container: {resources: {limits: {nvidia.com/gpu: 1, cpu: 2}}}
    - {name: cpu, activeDeadlineSeconds: 60, script: {resources: {requests: {cpu: 500m}}}}
"""


def test_a_workflow_of_argo_is_jobs_with_stages(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    made = read_manifest(tmp_path / "w.yaml")
    assert [
        (
            job.name,
            job.stage.task_s,
            job.stage.after,
            job.stage.gang,
            job.options[0].groups[0].count,
        )
        for job in made.jobs
        if job.stage
    ] == [
        ("nightly/train", 600, (), True, 1),
        ("nightly/score", 600, ("nightly/train",), False, 3),
        ("nightly/report", 60, ("nightly/score", "nightly/train"), True, 1),
    ]
    assert any("not all tasks before" in line for line in made.book.lines())
    hosts = [{"name": "h", "gpus": 2, "gpu_model": "H100", "cpu": 8}]
    round_ = Round.of({"hosts": hosts}, made.jobs, policy={"formulation": "stages"})
    assert bounds(compile_stages(round_))["makespan"] == 600 + 1200 + 60


def test_what_the_jobs_of_a_workflow_do_not_say_is_told(tmp_path: Path) -> None:
    limited = WORKFLOW.replace("  entrypoint", "  parallelism: 1\n  entrypoint")
    limited = limited.replace("name: train, ", "name: train, when: '{{x}} == 1', ")
    limited = limited.replace("600\n", "600\n      synchronization: {mutex: {name: m}}\n")
    sidecar = "{resources: {limits: {nvidia.com/gpu: 1}}}"
    (tmp_path / "w.yaml").write_text(
        limited.replace("600\n", f"600\n      sidecars: [{sidecar}]\n")
    )
    made = read_manifest(tmp_path / "w.yaml")
    said = "\n".join(made.book.lines())
    for rule in (
        "how many tasks may run at once: nightly",
        "when a task is left out: nightly/train",
        "mutexes and semaphores: nightly/train, nightly/score",
        "that a task waits for another to end in a certain way: nightly/report",
    ):
        assert rule in said
    assert [job.options[0].groups[0].gpu for job in made.jobs] == [2000, 2000, 0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("entrypoint: main", "entrypoint: gpu", "expected a template with a dag"),
        ("activeDeadlineSeconds: 600", "retries: 3", "task train needs a template"),
        ("activeDeadlineSeconds: 600", "activeDeadlineSeconds: 1000000000", "1 to 100,000,000"),
        ("withItems: [a, b, c]", "withParam: x", "items that are not listed"),
        ("generateName: nightly-", "generateName: '{{x}}'", "w.yaml"),
        ("dependencies: [train]", "dependencies: [trian]", "'trian': task score waits for it"),
        ("name: train, template", "name: train, depends: report, template", "a cycle: "),
        ("name: score", "name: train", "templates: 'train': given twice; expected each name once"),
    ],
)
def test_a_workflow_that_says_too_little_is_refused(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW.replace(old, new))
    with pytest.raises(InvalidInputError, match=said):
        read_manifest(tmp_path / "w.yaml")
