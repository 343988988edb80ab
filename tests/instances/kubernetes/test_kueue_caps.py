"""Quotas of Kueue as caps: what queues hold of each flavor, alone and with others."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import solve_round
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.documents.plan import DecisionKind
from tests.instances.kubernetes.dumps import GPU, convert, node, pod
from tests.instances.kubernetes.test_kueue import of, queue, workload

MODEL = "nvidia.com/gpu.product"
NODES = [node(f"n{i}", labels={MODEL: ("A100", "H100")[i % 2]}) for i in range(4)]
FLAVORS = [of("ResourceFlavor", m.lower(), spec={"nodeLabels": {MODEL: m}}) for m in
           ("A100", "H100")]  # fmt: skip


def local(name: str) -> Any:
    return of("LocalQueue", f"lq-{name}", namespace="ns", spec={"clusterQueue": name})


def waits(name: str, in_queue: str, gpus: int = 4) -> Any:
    one = workload(1, gpus)
    one["metadata"] = {"name": name, "namespace": "ns"}
    one["spec"]["queueName"] = f"lq-{in_queue}"
    return one


def flavored(name: str, *quotas: tuple[str, str, str | None], **spec: Any) -> Any:
    flavors = []
    for flavor, nominal, limit in quotas:
        resource = {"name": GPU, "nominalQuota": nominal}
        resource |= {} if limit is None else {"borrowingLimit": limit}
        flavors.append({"name": flavor, "resources": [resource]})
    spec = {"namespaceSelector": {}, "resourceGroups": [{"flavors": flavors}], **spec}
    return of("ClusterQueue", name, spec=spec)


def caps_of(made: LiveConversion) -> dict[str, dict[str, int]]:
    return {
        name: {measure.key: most for measure, most in cap.limits.items()}
        for name, cap in made.round.caps.items()
    }


def started(made: LiveConversion) -> set[str]:
    plan = solve_round(made.round, isolation="none")
    return {d.job for d in plan.decisions if d.decision is DecisionKind.START}


def test_queues_of_a_cohort_hold_no_more_together_than_all_have(tmp_path):
    queues = [queue("a", "4", flavor="any", cohort="c"), queue("b", "4", flavor="any", cohort="c")]
    jobs = [waits("w1", "a"), waits("w2", "a"), waits("w3", "b")]
    made = convert(tmp_path, *NODES, *queues, local("a"), local("b"), *jobs)
    assert caps_of(made) == {"cohort/c": {"gpus": 8000}}
    assert {one.caps for one in made.round.jobs} == {("cohort/c",)}
    assert {one.name: dict(one.quota) for one in made.round.tenants} == {
        "a": {"gpu": 8000},
        "b": {"gpu": 8000},
    }
    assert len(started(made)) == 2
    assert "the cap of a cohort on its queues together" not in made.book.unsaid


def test_a_cohort_in_a_cohort_has_a_cap_of_its_own_if_it_may_borrow_only_some(tmp_path):
    groups = flavored("x", ("any", "0", "2"))["spec"]["resourceGroups"]
    inner = of("Cohort", "inner", spec={"parentName": "outer", "resourceGroups": groups})
    queues = [
        queue("a", "4", flavor="any", cohort="inner"),
        queue("b", "4", flavor="any", cohort="inner"),
        queue("c", "8", flavor="any", cohort="outer"),
    ]
    made = convert(
        tmp_path, *NODES, inner, *queues, *map(local, "abc"),
        waits("w1", "a"), waits("w2", "b"), waits("w3", "c"),
    )  # fmt: skip
    assert caps_of(made) == {"cohort/inner": {"gpus": 10_000}, "cohort/outer": {"gpus": 16_000}}
    caps = {one.name: one.caps for one in made.round.jobs}
    assert caps["ns/w1"] == ("cohort/inner", "cohort/outer")
    assert caps["ns/w3"] == ("cohort/outer",)


def test_what_a_queue_has_of_each_flavor_counts_by_flavor(tmp_path):
    mixed = flavored("q", ("a100", "4", None), ("h100", "4", None))
    jobs = [waits(f"w{i}", "q") for i in range(3)]
    made = convert(tmp_path, *NODES, *FLAVORS, mixed, local("q"), *jobs)
    assert caps_of(made) == {"queue/q": {"gpu@a100": 4000, "gpu@h100": 4000}}
    for job in made.round.jobs:
        assert [o.groups[0].gpu_models for o in job.options] == [("A100",), ("H100",)]
        assert [o.uses for o in job.options] == [{"gpu@a100": 4000}, {"gpu@h100": 4000}]
    plan = solve_round(made.round, isolation="none")
    models = [
        made.round.jobs[j].options[d.option or 0].groups[0].gpu_models
        for j, d in enumerate(plan.decisions)
        if d.decision is DecisionKind.START
    ]
    assert sorted(models, key=str) == [("A100",), ("H100",)]


def test_a_running_pod_counts_with_the_flavor_that_it_has(tmp_path):
    mixed = flavored("q", ("a100", "4", None), ("h100", "4", None))
    one = waits("w0", "q")
    one["metadata"]["ownerReferences"] = [{"uid": "u", "kind": "Job", "name": "j"}]
    assignment = {"name": "main", "flavors": {GPU: "h100"}, "count": 1}
    one["status"] = {"admission": {"clusterQueue": "q", "podSetAssignments": [assignment]}}
    meta = {"ownerReferences": [{"uid": "u", "kind": "Job", "name": "j", "controller": True}]}
    runs = pod("p", 4, host="n1", meta=meta)
    made = convert(tmp_path, *NODES, *FLAVORS, mixed, local("q"), one, runs, waits("w1", "q"))
    running = next(job for job in made.round.jobs if job.running is not None)
    assert running.options[0].uses == {"gpu@h100": 4000}
    assert running.caps == ("queue/q",)
    plan = solve_round(made.round, isolation="none")
    (start,) = [d for d in plan.decisions if d.decision is DecisionKind.START]
    job = next(job for job in made.round.jobs if job.name == start.job)
    assert job.options[start.option or 0].groups[0].gpu_models == ("A100",)


def test_a_cohort_lends_by_flavor(tmp_path):
    queues = [
        flavored("a", ("a100", "4", None), ("h100", "0", "2"), cohort="c"),
        flavored("b", ("h100", "4", None), cohort="c"),
    ]
    made = convert(tmp_path, *NODES, *FLAVORS, *queues, local("a"), local("b"),
                   waits("w1", "a", 2), waits("w2", "b"))  # fmt: skip
    assert caps_of(made) == {
        "cohort/c": {"gpu@h100": 4000},
        "queue/a": {"gpu@a100": 4000, "gpu@h100": 2000},
    }


@pytest.mark.parametrize("order", [1, -1])
def test_a_flavor_has_a_quota_of_each_vendor(tmp_path, order):
    other = node("amd", gpus=0)
    other["status"]["allocatable"]["amd.com/gpu"] = "8"
    quotas = [{"name": GPU, "nominalQuota": 2}, {"name": "amd.com/gpu", "nominalQuota": 4}]
    flavors = [{"name": "any", "resources": quotas[::order]}]
    group = {"coveredResources": [GPU, "amd.com/gpu"], "flavors": flavors}
    one = of("ClusterQueue", "q", spec={"namespaceSelector": {}, "resourceGroups": [group]})
    jobs = [waits("w1", "q", 2), waits("w2", "q", 1), waits("w3", "q", 4), waits("w4", "q", 2)]
    for job in jobs[2:]:
        containers = job["spec"]["podSets"][0]["template"]["spec"]["containers"]
        asked = containers[0]["resources"]["requests"]
        asked["amd.com/gpu"] = asked.pop(GPU)
    made = convert(tmp_path, *NODES, other, one, local("q"), *jobs)
    assert started(made) == {"ns/w1", "ns/w3"}
