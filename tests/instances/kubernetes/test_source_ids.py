"""Annotations of jobs and hosts: what they are in Kubernetes."""

from __future__ import annotations

import json

from tests.instances.kubernetes.dumps import GPU, convert, node, pod
from tests.instances.kubernetes.test_kueue import LOCAL, NODES, queue, workload

HOST = "kubernetes.io/hostname"


def ids(made, name):
    (job,) = (one for one in made.round.jobs if one.name == name)
    return {key.removeprefix("kubernetes/"): text for key, text in job.annotations.items()}


def meta(uid, **more):
    return {"uid": uid, **more}


def test_a_pod_alone_and_its_controller(tmp_path):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u-rs"}
    one = pod("a", meta=meta("u-a", ownerReferences=[owner | {"controller": True}]))
    assert ids(convert(tmp_path, node("n0"), one), "ns/a") == {
        "kind": "Pod",
        "by": "Pod",
        "namespace": "ns",
        "name": "a",
        "uid": "u-a",
        "api-version": "v1",
        "owner-api-version": "apps/v1",
        "owner-kind": "ReplicaSet",
        "owner-name": "rs",
        "owner-uid": "u-rs",
        "pods/0": "a",
        "pod-uids/0": "u-a",
    }


def test_pods_of_a_gang_are_in_the_order_of_tasks(tmp_path):
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns", "uid": "u-g"},
        "spec": {"minMember": 3},
    }
    notes = {"annotations": {"pod-group-name": "g"}}
    sizes = {"a": 2, "b": 8, "c": 2}
    waiting = [pod(name, n, meta=meta(f"u-{name}", **notes)) for name, n in sizes.items()]
    made = convert(tmp_path, node("n0"), node("n1"), group, *waiting)
    found = ids(made, "ns/g")
    assert (found["kind"], found["by"], found["uid"]) == ("PodGroup", "scheduling.run.ai", "u-g")
    assert (found["pods/0"], found["pods/1"]) == ("a,c", "b")
    assert (found["pod-uids/0"], found["pod-uids/1"]) == ("u-a,u-c", "u-b")
    assert [g.gpu for g in made.round.jobs[0].options[0].groups] == [2000, 8000]
    bound = [
        pod(name, 1, host=host, meta=meta(f"u-{name}", **notes))
        for name, host in (("a", "n1"), ("b", "n0"), ("c", "n1"))
    ]
    made = convert(tmp_path, node("n0"), node("n1"), group, *bound)
    assert ids(made, "ns/g")["pods/0"] == "a,b,c"
    assert [task.host for task in made.round.jobs[0].running.tasks] == ["n1", "n0", "n1"]


def test_a_job_makes_a_gang(tmp_path):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j"}
    mine = meta("u-a", ownerReferences=[owner | {"controller": True}])
    found = ids(convert(tmp_path, node("n0"), pod("a", meta=mine)), "ns/j")
    assert (found["kind"], found["by"], found["name"], found["uid"]) == ("Job", "Job", "j", "u-j")


def test_a_workload_its_job_and_its_pods(tmp_path):
    one = workload(2)
    one["status"] = {"resourceRequests": [{"name": "main", "resources": {GPU: "16"}}]}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", "controller": True}
    one["metadata"] |= {"uid": "u-w", "ownerReferences": [owner]}
    without = ids(convert(tmp_path, *NODES, queue("cq", "32"), LOCAL, one), "ns/w")
    assert without == {
        "kind": "Workload",
        "by": "kueue.x-k8s.io",
        "namespace": "ns",
        "name": "w",
        "uid": "u-w",
        "api-version": "kueue.x-k8s.io/v1beta2",
        "topology": "no",
        "affinity": "no",
        "owner-api-version": "batch/v1",
        "owner-kind": "Job",
        "owner-name": "j",
        "owner-uid": "u-j",
        "pod-sets": "main",
    }
    gated = [
        pod(name, 8, meta=meta(f"u-{name}", ownerReferences=[owner]), schedulingGates=[])
        for name in ("p0", "p1")
    ]
    made = convert(tmp_path, *NODES, queue("cq", "32"), LOCAL, one, *gated)
    assert ids(made, "ns/w") == without | {"pods/0": "p0,p1", "pod-uids/0": "u-p0,u-p1"}


def test_hosts_have_the_uid_and_the_hostname_of_their_node(tmp_path):
    one = node("n0", labels={HOST: "host-0"})
    one["metadata"]["uid"] = "u-n0"
    (host,) = convert(tmp_path, one, pod("a")).round.cluster.hosts
    assert host.annotations == {"kubernetes/uid": "u-n0", "kubernetes/hostname": "host-0"}


def test_texts_that_cannot_be_names_are_left_out(tmp_path):
    bad = pod("a", meta={"uid": "\x1b[31m,;rm"})
    found = ids(convert(tmp_path, node("n0"), bad), "ns/a")
    assert "uid" not in found and "pod-uids/0" not in found
    assert found["pods/0"] == "a"


def test_the_round_has_the_bookkeeping(tmp_path):
    made = convert(tmp_path, node("n0"), pod("a"), pod("b", 0))
    assert made.round.annotations["source"] == "kubernetes"
    counts = json.loads(made.round.annotations["bookkeeping"])
    assert counts["taken"]["pods"] == 1
    assert counts["left_out"] == [
        {"kind": "pods", "reason": "asks for no GPU", "count": 1, "names": ["ns/b"]}
    ]
