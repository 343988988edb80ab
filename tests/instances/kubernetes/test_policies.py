"""Priority classes, disruption budgets, and controllers whose fields are told of their jobs."""

from __future__ import annotations

import pytest

from placewright.instances.documents.caveats import caveats_of
from tests.instances.kubernetes.dumps import convert, left_out, node, pod


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
