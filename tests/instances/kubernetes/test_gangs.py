"""Gangs of Kubernetes: by which sign pods belong together, how many are needed, in which queue."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import explain_job
from placewright.explain.explanation import Verdict
from placewright.instances.derived.source_words import jobs_called
from placewright.instances.documents.caveats import caveats_of
from tests.instances.kubernetes.dumps import RACK, convert, left_out, node, pod

NODES = [node(f"n{i}", labels={RACK: f"r{i // 2}"}) for i in range(4)]
GROUPS = {
    "native": ("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 2}}}),
    "kai": ("scheduling.run.ai/v2alpha2", {"minMember": 2}),
    "volcano": ("scheduling.volcano.sh/v1beta1", {"minMember": 2}),
    "coscheduling": ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2}),
}
SIGNS = [*GROUPS, "kueue", "pod-group", "lws", "jobset", "kubeflow", "ray", "Job"]


def member(name: str, sign: str, **more: Any) -> Any:
    """A pod of the gang `g`, told by one sign."""
    meta: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    if sign == "native":
        spec = {"schedulingGroup": {"podGroupName": "g"}}
    elif sign == "Job":
        meta["ownerReferences"] = [{"kind": "Job", "name": "g", "uid": "u", "controller": True}]
    else:
        where, key = {
            "kueue": ("annotations", "kueue.x-k8s.io/workload"),
            "kai": ("annotations", "pod-group-name"),
            "volcano": ("annotations", "scheduling.k8s.io/group-name"),
            "coscheduling": ("labels", "scheduling.x-k8s.io/pod-group"),
            "pod-group": ("labels", "kueue.x-k8s.io/pod-group-name"),
            "lws": ("labels", "leaderworkerset.sigs.k8s.io/group-key"),
            "jobset": ("labels", "jobset.sigs.k8s.io/jobset-uid"),
            "kubeflow": ("labels", "training.kubeflow.org/job-name"),
            "ray": ("labels", "ray.io/cluster"),
        }[sign]
        meta[where] = {key: "g"}
    return pod(name, 8, meta=meta, **spec, **more)


def group(sign: str, **spec: Any) -> Any:
    version, given = GROUPS[sign]
    return {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": given | spec,
    }


@pytest.mark.parametrize("sign", SIGNS)
def test_pods_with_one_sign_are_one_job_of_all_of_them(tmp_path, sign):
    pods = [member(f"p{i}", sign) for i in range(3)]
    (job,) = convert(tmp_path, *NODES, *pods).round.jobs
    assert job.name == "ns/g"
    assert [[g.count for g in option.groups] for option in job.options] == [[3]]


@pytest.mark.parametrize("sign", GROUPS)
def test_a_group_that_needs_fewer_pods_has_an_option_for_each_size(tmp_path, sign):
    pods = [member(f"p{i}", sign) for i in range(4)]
    made = convert(tmp_path, *NODES, *pods, group(sign))
    (job,) = made.round.jobs
    assert [option.groups[0].count for option in job.options] == [4, 3, 2]
    assert made.book.taken["pod groups"] == 1


@pytest.mark.parametrize("sign", GROUPS)
def test_a_group_with_fewer_pods_than_it_needs_is_left_out(tmp_path, sign):
    made = convert(tmp_path, *NODES, member("p", sign), group(sign))
    assert left_out(made) == {"its gang has fewer pods than it needs": ["ns/p"]}


def test_a_group_without_pods_is_counted(tmp_path):
    made = convert(tmp_path, *NODES, group("kai"))
    assert left_out(made) == {"has no pods": ["ns/g"]}


def test_a_native_group_without_a_gang_has_pods_of_their_own(tmp_path):
    pods = [member(f"p{i}", "native") for i in range(2)]
    alone = group("native", schedulingPolicy={"basic": {}})
    made = convert(tmp_path, *NODES, *pods, alone)
    assert [job.name for job in made.round.jobs] == ["ns/p0", "ns/p1"]


def test_topology_and_queue_of_a_group_are_those_of_its_job(tmp_path):
    native = group("native", schedulingConstraints={"topology": [{"key": RACK}]})
    pods = [member(f"p{i}", "native") for i in range(2)]
    (job,) = convert(tmp_path, *NODES, *pods, native).round.jobs
    assert job.options[0].required == "gce-topology-subblock"
    near = {"requiredTopologyLevel": "kubernetes.io/hostname", "preferredTopologyLevel": RACK}
    kai = group("kai", queue="team-a", topologyConstraint=near)
    pods = [member(f"p{i}", "kai") for i in range(2)]
    made = convert(tmp_path, *NODES, *pods, kai)
    (job,) = made.round.jobs
    assert (job.tenant, job.options[0].required) == ("team-a", "host")
    assert job.options[0].groups[0].preferred == ("gce-topology-subblock",)
    assert [tenant.name for tenant in made.round.tenants] == ["team-a"]


def test_leader_and_workers_are_groups_of_one_job(tmp_path):
    leader = member("leader", "lws")
    leader["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    (job,) = convert(tmp_path, *NODES, leader, member("w0", "lws"), member("w1", "lws")).round.jobs
    assert sorted((g.count, g.gpu) for g in job.options[0].groups) == [(1, 0), (2, 8000)]


def test_a_gang_that_runs_in_part_is_two_jobs(tmp_path):
    pods = [member("p0", "Job", nodeName="n0"), member("p1", "Job")]
    made = convert(tmp_path, *NODES, *pods)
    assert [(job.name, job.running is not None) for job in made.round.jobs] == [
        ("ns/g", True),
        ("ns/g:waiting", False),
    ]
    assert made.book.unsaid["that some pods of a gang run and others wait"] == ["ns/g"]


def test_pods_beyond_what_a_running_gang_needs_wait_one_by_one(tmp_path):
    pods = [member(f"p{i}", "kai", **({"nodeName": f"n{i}"} if i < 2 else {})) for i in range(4)]
    made = convert(tmp_path, *NODES, *pods, group("kai"))
    assert sorted(job.name for job in made.round.jobs) == ["ns/g", "ns/p2", "ns/p3"]


def test_a_text_that_is_no_name_makes_no_gang(tmp_path):
    meta = {"annotations": {"pod-group-name": "\x1b[31m;rm -rf"}}
    (job,) = convert(tmp_path, *NODES, pod("p", meta=meta)).round.jobs
    assert job.name == "ns/p"


def test_a_gate_holds_a_pod_but_for_our_own(tmp_path):
    gated = {"schedulingGates": [{"name": "example.com/later"}]}
    ours = {"schedulingGates": [{"name": "placewright.dev/plan"}]}
    made = convert(tmp_path, *NODES, pod("a", **gated), pod("b", **ours))
    assert {job.name: job.held for job in made.round.jobs} == {"ns/a": True, "ns/b": False}


def test_a_level_may_have_a_name_of_its_own_in_a_topology_of_kai(tmp_path):
    levels = [{"nodeLabel": RACK, "alias": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "network"},
        "spec": {"levels": levels},
    }
    near = {"topology": "network", "requiredTopologyLevel": "rack"}
    pods = [member(f"p{i}", "kai") for i in range(2)]
    made = convert(tmp_path, *NODES, topology, *pods, group("kai", topologyConstraint=near))
    assert made.round.jobs[0].options[0].required == "gce-topology-subblock"


def test_queues_of_kai_and_volcano_are_tenants(tmp_path):
    gpu = {"quota": 8, "limit": -1, "overQuotaWeight": 2}
    kai = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "a"},
        "spec": {"parentQueue": "all", "resources": {"gpu": gpu, "cpu": {"limit": -1}}},
    }
    volcano = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "b"},
        "spec": {"capability": {"nvidia.com/gpu": "16"}, "deserved": {"nvidia.com/gpu": 4}},
    }
    labelled = pod("p", 1, meta={"labels": {"kai.scheduler/queue": "a"}})
    made = convert(tmp_path, *NODES, kai, volcano, labelled)
    found = {t.name: (t.quota, t.guarantee, t.weight) for t in made.round.tenants}
    assert found == {
        "a": ({}, {"gpu": 8000}, 2),
        "b": ({"gpu": 16_000}, {"gpu": 4000}, 1),
    }
    assert made.round.jobs[0].tenant == "a"
    assert made.book.unsaid["limits of a queue that others are in"] == ["a"]


def test_a_queue_that_others_are_in_is_a_cap(tmp_path):
    def queue(name, limit, parent=None):
        spec = {"resources": {"gpu": {"limit": limit}}} | (
            {"parentQueue": parent} if parent else {}
        )
        meta = {"name": name}
        return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": meta,
                "spec": spec}  # fmt: skip

    queues = [queue("all", 12), queue("dept", -1, "all"), queue("a", 8, "dept"), queue("b", 4)]
    pods = [
        pod(f"p-{name}", 1, meta={"labels": {"kai.scheduler/queue": name}}) for name in ("a", "b")
    ]
    made = convert(tmp_path, *NODES, *queues, *pods)
    assert {job.tenant: job.caps for job in made.round.jobs} == {"a": ("queue/all",), "b": ()}
    assert {name: cap.gpus for name, cap in made.round.caps.items()} == {"queue/all": 12_000}
    assert "limits of a queue that others are in" not in made.book.unsaid


@pytest.mark.parametrize(
    ("spec", "priority", "pinned"),
    [
        ({}, 50, False),
        ({}, 100, True),
        ({"preemptibility": "preemptible"}, 100, False),
        ({"preemptibility": "non-preemptible"}, 50, True),
    ],
)
def test_what_kai_does_not_preempt_stays(tmp_path, spec, priority, pinned):
    pods = [member(f"p{i}", "kai", nodeName=f"n{i}", priority=priority) for i in range(2)]
    for one in pods:
        owner = {"kind": "Job", "name": "j", "uid": "u", "controller": True}
        one["metadata"]["ownerReferences"] = [owner]
    made = convert(tmp_path, *NODES, *pods, group("kai", **spec), movable=True)
    assert made.round.jobs[0].running.pinned is pinned


def queue(of: str, name: str = "team", status: Any = None, **spec: Any) -> Any:
    """A queue of KAI, with shares by resource, or of Volcano, with what it may hold."""
    version = "scheduling.run.ai/v2" if of == "kai" else "scheduling.volcano.sh/v1beta1"
    parent = {"parentQueue": spec.pop("parent")} if "parent" in spec else {}
    spec = {"resources": spec, **parent} if of == "kai" else {"capability": spec}
    head = {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}}
    return head | {"spec": spec, "status": status or {}}


def could_start(made: Any, job: str = "ns/g") -> bool:
    found = explain_job(made.round, None, job, time_limit=5)
    return found.verdict is Verdict.COULD_START


@pytest.mark.nightly(after=3)
@pytest.mark.parametrize(
    ("one", "starts"),
    [
        (queue("volcano", cpu="8"), True),
        (queue("volcano", cpu="7"), False),
        (queue("volcano", memory="31Gi"), False),
        (queue("kai", cpu={"limit": 8000}), True),
        (queue("kai", cpu={"limit": 7999}), False),
        (queue("kai", memory={"limit": 34000}), False),  # megabytes: less than 32 Gi
        (queue("kai", cpu={"limit": -1, "quota": -1}), True),
    ],
)
def test_queues_limit_cores_and_memory(tmp_path, one, starts):
    sign = "kai" if "run.ai" in one["apiVersion"] else "volcano"
    pods = [member(f"p{i}", sign) for i in range(2)]
    made = convert(tmp_path, *NODES, *pods, group(sign, queue="team"), one)
    assert caveats_of(made.round.jobs[0].annotations) == ()
    assert (
        explain_job(made.round, None, "ns/g", time_limit=5).verdict is Verdict.COULD_START
    ) is starts


def test_pods_without_gpus_hold_cores_of_their_queue(tmp_path):
    labels = {"kai.scheduler/queue": "team"}
    pods = [member("p", "kai"), member("q", "kai"), pod("c", 0, host="n0", meta={"labels": labels})]
    above = queue("kai", "dept", cpu={"limit": 11000})
    own = queue("kai", cpu={"limit": 20000}, parent="dept")
    made = convert(tmp_path, *NODES, *pods, group("kai", queue="team"), own, above)
    assert {one.name: one.quota for one in made.round.tenants}["team"] == {"cpu": 16000}
    assert {name: cap.resources for name, cap in made.round.caps.items()} == {
        "queue/dept": {"cpu": 7000}
    }


@pytest.mark.parametrize(("quota", "starts"), [(16, True), (15, False), (-1, True)])
def test_what_kai_does_not_preempt_stays_within_the_quota(tmp_path, quota, starts):
    pods = [member(f"p{i}", "kai") for i in range(2)]
    firm = group("kai", queue="team", preemptibility="non-preemptible")
    for parent in ({}, {"parent": "dept"}):
        own = queue("kai", gpu={"quota": -1 if parent else quota, "limit": -1}, **parent)
        above = queue("kai", "dept", gpu={"quota": quota, "limit": -1})
        made = convert(tmp_path, *NODES, *pods, firm, own, above)
        assert (
            explain_job(made.round, None, "ns/g", time_limit=5).verdict is Verdict.COULD_START
        ) is starts
    free = convert(tmp_path, *NODES, *pods, group("kai", queue="team"), own, above)
    assert could_start(free)


def test_nobody_starts_in_a_queue_that_is_not_there(tmp_path):
    pods = [member(f"p{i}", "volcano") for i in range(2)]
    made = convert(tmp_path, *NODES, *pods, group("volcano", queue="gone"), queue("volcano"))
    (job,) = made.round.jobs
    assert (job.held, job.annotations["held"]) == (True, "there is no queue gone")


def test_a_queue_that_is_closed_is_told(tmp_path):
    pods = [member(f"p{i}", "volcano") for i in range(2)]
    closed = queue("volcano", status={"state": "Closed"})
    made = convert(tmp_path, *NODES, *pods, group("volcano", queue="team"), closed)
    assert [one.rule for one in caveats_of(made.round.jobs[0].annotations)] == ["queue-closed"]


@pytest.mark.parametrize(
    ("note", "spec", "told"),
    [
        ("leaderworkerset.sigs.k8s.io/exclusive-topology", {}, ["exclusive-topology"]),
        ("leaderworkerset.sigs.k8s.io/exclusive-topology", {"nodeSelector": {RACK: "r0"}}, []),
        ("nvidia.com/use-gputype", {}, ["gpu-type"]),
        ("some.example/note", {}, []),
    ],
)
def test_rules_that_annotations_stand_for_are_told(tmp_path, note, spec, told):
    made = convert(tmp_path, *NODES, pod("p", meta={"annotations": {note: "x"}}, **spec))
    assert [one.rule for one in caveats_of(made.round.jobs[0].annotations)] == told


def test_a_pod_that_is_resized_holds_the_most_of_what_it_has_and_wants(tmp_path):
    runs = pod("r", host="n0")
    runs["spec"]["containers"][0]["name"] = "main"
    runs["status"]["containerStatuses"] = [
        {"name": "main", "allocatedResources": {"cpu": "60"}, "resources": {"limits": {"x/y": 1}}}
    ]
    made = convert(tmp_path, NODES[0], runs)
    (running,) = (job for job in made.round.jobs if job.running)
    assert running.options[0].groups[0].cpu == 60_000


def test_a_deployment_names_its_pods(tmp_path):
    owner = {"kind": "ReplicaSet", "name": "web-6b7f", "uid": "u", "controller": True}
    meta = {"labels": {"pod-template-hash": "6b7f"}, "ownerReferences": [owner]}
    made = convert(tmp_path, *NODES, pod("web-6b7f-x", 9, meta=meta))
    assert [job.name for job in jobs_called(made.round, "ns/web")] == ["ns/web-6b7f-x"]


VENDORS = {"n": "nvidia.com/gpu", "a": "amd.com/gpu", "h": "habana.ai/gaudi"}


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize(
    ("of", "limits", "starts"),
    [
        ("volcano", {"nvidia.com/gpu": "2"}, {"n": False, "a": True, "h": True}),
        ("volcano", {"nvidia.com/gpu": "2"}, {"a": True}),
        ("volcano", {"amd.com/gpu": "4"}, {"n": True, "a": True, "h": True}),
        ("volcano", {"amd.com/gpu": "3", "nvidia.com/gpu": "4"}, {"n": True, "a": False}),
        ("kai", {"gpu": {"limit": 3}}, {"n": False, "a": False, "h": True}),
        ("kai", {"gpu": {"limit": 3}}, {"n": False, "a": False}),
        ("kai", {"gpu": {"limit": 3}}, {"h": True}),
        ("kai", {"gpu": {"limit": 4}}, {"n": True, "a": True, "h": True}),
    ],
)
@pytest.mark.parametrize("inner", [False, True])
def test_a_limit_on_gpus_of_one_vendor_limits_no_others(tmp_path, of, limits, starts, inner):
    queues = [queue(of, "dept" if inner else "team", **limits)]
    if inner:
        queues.append(queue(of) | {"spec": {"parentQueue" if of == "kai" else "parent": "dept"}})
    nodes = [node(name, gpus=0) for name in VENDORS]
    for one, vendor in zip(nodes, VENDORS.values(), strict=True):
        one["status"]["allocatable"][vendor] = "8"
    items = []
    for name in starts:
        pods = [member(f"{name}-{k}", of) for k in range(2)]
        for one in pods:
            one["metadata"]["annotations"] = dict.fromkeys(one["metadata"]["annotations"], name)
            one["spec"]["containers"][0]["resources"]["requests"] = {VENDORS[name]: 2}
        items += [*pods, group(of, queue="team") | {"metadata": {"name": name, "namespace": "ns"}}]
    made = convert(tmp_path, *nodes, *items, *queues)
    assert {name: could_start(made, f"ns/{name}") for name in starts} == starts


@pytest.mark.parametrize(
    ("limit", "starts"), [({"rdma/hca": "2"}, True), ({"rdma/hca": "1"}, False),
                          ({"hugepages-2Mi": "7Mi"}, False), ({"hugepages-2Mi": "8Mi"}, True),
                          ({"pods": "1", "rdma/hca": "2"}, True)]
)  # fmt: skip
def test_queues_of_volcano_limit_other_resources(tmp_path, limit, starts):
    pods, nodes = [member(f"p{i}", "volcano") for i in range(2)], [node("n0"), node("n1")]
    for one in pods:
        asked = one["spec"]["containers"][0]["resources"]["requests"]
        asked |= {"rdma/hca": 1, "hugepages-2Mi": "4Mi"}
    for one in nodes:
        one["status"]["allocatable"] |= {"rdma/hca": "8", "hugepages-2Mi": "1Gi"}
    made = convert(
        tmp_path, *nodes, *pods, group("volcano", queue="team"), queue("volcano", **limit)
    )
    assert could_start(made) is starts
    told = "a capability of pods or disk of a queue" in made.book.unsaid
    assert told is ("pods" in limit)
