"""Priority classes, disruption budgets, and controllers whose fields are told of their jobs."""

from __future__ import annotations

import pytest

from placewright.instances.documents.caveats import caveats_of
from tests.instances.kubernetes.dumps import convert, left_out, node, pod
from tests.instances.kubernetes.test_kueue import workload


def priority_class(name: str, value: int, **fields: object) -> dict[str, object]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return head | {"metadata": {"name": name}, "value": value} | fields


def budget(allowed: int, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1} | spec,
        "status": {"disruptionsAllowed": allowed, "expectedPods": 2},
    }


def rules(made, name: str) -> set[str]:
    (job,) = (job for job in made.round.jobs if job.name == name)
    return {one.rule for one in caveats_of(job.annotations) if one.hard}


def test_a_class_gives_the_priority_that_a_pod_does_not_say(tmp_path):
    pods = [
        pod("named", priorityClassName="high"),
        pod("says", priorityClassName="high", priority=7),
        pod("none"),
        pod("unknown", priorityClassName="gone"),
    ]
    classes = [
        priority_class("high", 1000, preemptionPolicy="Never"),
        priority_class("usual", 5, globalDefault=True),
    ]
    made = convert(tmp_path, node("a"), *pods, *classes)
    priorities = {job.name: job.priority for job in made.round.jobs}
    assert priorities == {"ns/named": 1000, "ns/says": 7, "ns/none": 5, "ns/unknown": 0}
    assert [job.name for job in made.round.jobs if job.preempts == ()] == ["ns/named"]
    assert "other objects" not in {kind for kind, _ in made.book.left_out}


def queue_class(value: int) -> dict[str, object]:
    head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    return head | {"metadata": {"name": "high"}, "value": value}


@pytest.mark.parametrize(
    ("fields", "priority"),
    [
        ({"priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}, 1000),
        ({"priorityClassSource": "scheduling.k8s.io/priorityclass"}, 30),
        ({"priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass", "priority": 8}, 8),
        ({"priorityClassSource": "", "priorityClassName": ""}, 5),
        ({"priorityClassName": None, "priorityClassRef": {"kind": "WorkloadPriorityClass"}}, 1000),
        ({"priorityClassName": None, "priorityClassRef": {"kind": "PriorityClass"}}, 30),
    ],
)
def test_a_class_gives_the_priority_that_a_workload_does_not_say(tmp_path, fields, priority):
    if "priorityClassRef" in fields:
        fields["priorityClassRef"]["name"] = "high"
    classes = [
        queue_class(1000),
        priority_class("high", 30, preemptionPolicy="PreemptLowerPriority"),
        priority_class("usual", 5, globalDefault=True),
    ]
    one = workload(1, **{"priorityClassName": "high", **fields})
    (job,) = convert(tmp_path, node("a"), one, *classes).round.jobs
    assert job.priority == priority
    assert [each.rule for each in caveats_of(job.annotations)] == ["queue-missing"]


def test_a_label_names_the_class_of_kueue_that_a_pod_has(tmp_path):
    labels = {"kueue.x-k8s.io/priority-class": "high"}
    pods = [pod("queued", meta={"labels": labels}, priority=3), pod("other", priority=3)]
    made = convert(tmp_path, node("a"), *pods, queue_class(1000))
    assert {job.name: job.priority for job in made.round.jobs} == {
        "ns/queued": 1000,
        "ns/other": 3,
    }


@pytest.mark.parametrize(
    ("version", "fields", "priority"),
    [
        ("scheduling.volcano.sh/v1beta1", {"priorityClassName": "high"}, 30),
        ("scheduling.run.ai/v2alpha2", {"priorityClassName": "high"}, 30),
        ("scheduling.run.ai/v2alpha2", {"priorityClassName": "inference"}, 125),
        ("scheduling.k8s.io/v1alpha3", {"priority": 9, "priorityClassName": "high"}, 9),
        ("scheduling.volcano.sh/v1beta1", {}, 3),
    ],
)
def test_the_class_of_a_pod_group_goes_before_that_of_its_pods(tmp_path, version, fields, priority):
    least = {} if "v1alpha3" in version else {"minMember": 1}
    group = {"apiVersion": version, "kind": "PodGroup", "spec": {**least, **fields}}
    group["metadata"] = {"name": "g", "namespace": "ns"}
    notes = {"scheduling.k8s.io/group-name": "g"}
    if "run.ai" in version:
        notes = {"pod-group-name": "g"}
    mine = pod("p", meta={"annotations": notes}, priority=3)
    if "k8s.io" in version:
        mine["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    made = convert(tmp_path, node("a"), mine, group, priority_class("high", 30))
    (job,) = made.round.jobs
    assert job.priority == priority
    assert caveats_of(job.annotations) == ()


@pytest.mark.parametrize(
    ("allowed", "spec", "told"),
    [
        (0, {}, True),
        (1, {}, False),
        (0, {"selector": {"matchLabels": {"app": "y"}}}, False),
        (0, {"selector": {}}, True),
        (0, {"selector": None}, False),
    ],
)
def test_a_budget_that_a_move_would_break_is_told(tmp_path, allowed, spec, told):
    job = {"kind": "ReplicaSet", "name": "x", "uid": "1", "controller": True}
    labels = {"labels": {"app": "x"}, "ownerReferences": [job]}
    runs, waits = pod("runs", host="a", meta=labels), pod("waits", meta=labels)
    made = convert(tmp_path, node("a"), runs, waits, budget(allowed, **spec), movable=True)
    assert ("disruption-budget" in rules(made, "ns/runs")) is told
    assert "disruption-budget" not in rules(made, "ns/waits")


def test_a_gang_whose_pods_may_stop_one_by_one_may_not_move_together(tmp_path):
    job = {"kind": "Job", "name": "x", "uid": "1", "controller": True}
    meta = {"labels": {"app": "x"}, "ownerReferences": [job]}
    pods = [pod(name, host="a", meta=meta) for name in ("x-0", "x-1")]
    assert "disruption-budget" in rules(convert(tmp_path, node("a"), *pods, budget(1)), "ns/x")


@pytest.mark.parametrize(
    ("api", "kind", "label", "spec", "rule"),
    [
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "jobset.sigs.k8s.io/jobset-name",
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
            "startup-order",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "jobset.sigs.k8s.io/jobset-name",
            {"managedBy": "kueue.x-k8s.io/multikueue"},
            "multikueue",
        ),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "leaderworkerset.sigs.k8s.io/name",
            {"startupPolicy": "LeaderReady"},
            "startup-order",
        ),
    ],
)
def test_what_a_controller_says_is_told_of_its_pods(tmp_path, api, kind, label, spec, rule):
    made_by = {"apiVersion": api, "kind": kind, "spec": spec}
    made_by["metadata"] = {"name": "big", "namespace": "ns"}
    pods = [pod("p", meta={"labels": {label: "big"}}), pod("q", meta={"labels": {label: "small"}})]
    made = convert(tmp_path, node("a"), *pods, made_by)
    told = {job.name: [one.rule for one in caveats_of(job.annotations)] for job in made.round.jobs}
    assert told == {"ns/p": [rule], "ns/q": []}
    assert left_out(made) == {}
