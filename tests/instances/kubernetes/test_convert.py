"""The Kubernetes converter: what becomes a host and a job, and that nothing gets lost."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from placewright.instances.converters import read_kubernetes
from placewright.instances.converters.kubernetes.nodes import VENDORS
from placewright.instances.derived.source_words import left_out_called
from tests.instances.kubernetes.dumps import (
    CAPTURED,
    GPU,
    RACK,
    SAMPLES,
    allowed_hosts,
    convert,
    left_out,
    needs_captures,
    node,
    pod,
)

KINDS = {"Node": "nodes", "Pod": "pods", "Workload": "workloads", "PodGroup": "pod groups"}


def counted(files) -> Counter[str]:
    """How many objects of each kind some files have."""
    items = [one for file in files for one in json.loads(file.read_text())["items"]]
    return Counter(KINDS[one["kind"]] for one in items if one["kind"] in KINDS)


def test_the_sample_has_two_jobs_that_run_and_one_that_waits():
    made = read_kubernetes([SAMPLES / "nodes-pods.json", SAMPLES / "queues.json"])
    jobs = {job.name: job for job in made.round.jobs}
    assert jobs["research/notebook"].running.pinned
    assert jobs["research/serve-0"].running.tasks[0].host == "gpu-0"
    (group,) = jobs["research/job-pretrain"].options[0].groups
    assert (group.count, group.gpu, group.required) == (2, 8000, "gce-topology-subblock")
    quota = {"gpu": 24_000, "cpu": 400_000, "memory": 4 * 1024 * 1024}
    assert made.round.tenants[0].quota == quota
    assert made.round.cluster.hosts[0].cpu == 95_000  # less what the exporter holds


@pytest.mark.parametrize("folder", sorted(CAPTURED.glob("*/")) if CAPTURED.is_dir() else [])
@needs_captures
def test_every_object_of_a_captured_dump_is_in_the_round_or_counted(folder):
    files = sorted(folder.glob("*.json"))
    made = read_kubernetes(files)
    assert {kind: made.book.total(kind) for kind in counted(files)} == counted(files)
    assert {kind: made.book.taken[kind] for kind in counted(files)} == counted(files)
    pods = json.loads((folder / "nodes-pods.json").read_text())["items"]
    bound = sum(one["kind"] == "Pod" and "nodeName" in one["spec"] for one in pods)
    places = sum(len(job.running.tasks) for job in made.round.jobs if job.running)
    assert places >= bound


@pytest.mark.parametrize(
    "name", ["kube-scheduler-gang-seed3-native", "kube-scheduler-gang-seed3-ours"]
)
@needs_captures
def test_each_pod_of_a_captured_dump_is_one_task_and_is_where_it_was_bound(name):
    made = read_kubernetes(sorted((CAPTURED / name).glob("*.json")))
    tasks = sum(group.count for job in made.round.jobs for group in job.options[0].groups)
    assert tasks == made.book.taken["pods"] == made.book.total("pods")
    items = json.loads((CAPTURED / name / "nodes-pods.json").read_text())["items"]
    bound = Counter(one["spec"].get("nodeName") for one in items if one["kind"] == "Pod")
    bound.pop(None, None)
    running = [job.running for job in made.round.jobs if job.running is not None]
    assert Counter(task.host for one in running for task in one.tasks) == bound


@needs_captures
def test_a_captured_dump_has_its_topology_its_taints_and_its_nodes_that_are_away():
    made = read_kubernetes([CAPTURED / "kube-scheduler-nodes-pods.json"])
    hosts = {host.name: host for host in made.round.cluster.hosts}
    assert made.round.cluster.levels == ("gce-topology-block", "gce-topology-subblock")
    assert not hosts["gpu-62"].healthy
    assert [one.host for one in made.round.reservations] == ["gpu-63"]
    late = next(job for job in made.round.jobs if job.name == "research/late")
    assert allowed_hosts(made, "research/late") == {"gpu-20"}
    assert "label/kubernetes.io/hostname=gpu-20" in late.options[0].groups[0].host_sets
    assert not late.held  # its gate is ours
    assert made.book.total("pods") == 7


def test_two_readings_of_a_dump_give_one_round(tmp_path):
    items = [node("a"), node("b"), pod("x", 2, host="b"), pod("y", 1), pod("z", 4, host="a")]
    assert convert(tmp_path, *items).round == convert(tmp_path, *reversed(items)).round


def test_pods_without_gpus_and_those_that_ended_are_counted(tmp_path):
    ended = pod("ended", 2, host="a")
    ended["status"]["phase"] = "Failed"
    deleted = pod("deleted", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    made = convert(
        tmp_path, node("a"), ended, deleted, pod("cpu", 0, host="a"), pod("lost", host="q")
    )
    assert left_out(made) == {
        "asks for no GPU": ["ns/cpu"],
        "has ended": ["ns/ended"],
        "is deleted before it ran": ["ns/deleted"],
        "runs on a node that is not in the round": ["ns/lost"],
    }
    assert made.book.total("pods") == 4
    assert made.round.cluster.hosts[0].cpu == 60_000


def test_a_node_without_a_label_is_a_domain_of_its_own(tmp_path):
    labelled = {RACK: "r0"}
    made = convert(
        tmp_path, node("a", labels=labelled), node("b", labels=labelled), node("c"), node("d")
    )
    parents = {host.name: host.parent for host in made.round.cluster.hosts}
    assert parents["a"] == parents["b"] == "r0"
    assert len({parents["a"], parents["c"], parents["d"]}) == 3
    assert made.book.unsaid["where a node without a label of each level is"] == ["c", "d"]


def test_equal_labels_below_different_parents_are_different_domains(tmp_path):
    keys = ["topology.kubernetes.io/zone", "rack"]
    nodes = [node(f"n{z}", labels={keys[0]: f"z{z}", keys[1]: "r"}) for z in range(2)]
    made = convert(tmp_path, *nodes, levels=keys)
    assert [host.parent for host in made.round.cluster.hosts] == ["z0/r", "z1/r"]
    assert made.round.cluster.levels == ("zone", "rack")


@pytest.mark.parametrize("row", VENDORS, ids=lambda row: row[0])
def test_labels_of_a_vendor_are_levels_and_zones_only_where_there_are_no_others(tmp_path, row):
    labels = {key: f"v{i}" for i, key in enumerate(row)} | {"topology.kubernetes.io/zone": "z"}
    cluster = convert(tmp_path, node("a", labels=labels), node("b", labels=labels)).round.cluster
    assert len(cluster.levels) == len(row)
    assert all(key.endswith(level) for key, level in zip(row, cluster.levels, strict=True))
    assert cluster.hosts[0].parent == cluster.hosts[1].parent


@pytest.mark.parametrize(
    ("state", "may"),
    [
        ("disk-pressure", False),
        ("pid-pressure", False),
        ("network-unavailable", False),
        ("out-of-service", False),
        ("memory-pressure", True),  # what asks for memory tolerates it
        ("not-ready", False),
        ("unreachable", False),
        ("unschedulable", False),
    ],
)
def test_a_node_that_is_not_well_takes_nobody_who_does_not_tolerate_it(tmp_path, state, may):
    taint = [{"key": f"node.kubernetes.io/{state}", "effect": "NoSchedule"}]
    made = convert(tmp_path, node("a", taints=taint), pod("w"))
    assert [job.name for job in made.round.jobs] == (["ns/w"] if may else [])


@pytest.mark.parametrize("state", ["not-ready", "unschedulable"])
def test_what_a_host_says_of_itself_its_taint_does_not_say_again(tmp_path, state):
    taint = [{"key": f"node.kubernetes.io/{state}", "effect": "NoSchedule"}]
    one = node("a", taints=taint, unschedulable=state == "unschedulable")
    one["status"]["conditions"] = [{"type": "Ready", "status": str(state != "not-ready")}]
    made = convert(tmp_path, one, pod("w"))
    assert allowed_hosts(made, "ns/w") is None
    assert [one.host for one in made.round.reservations] == ["a"][: state == "unschedulable"]
    assert made.round.cluster.hosts[0].healthy is (state != "not-ready")


@pytest.mark.parametrize(("operator", "value", "may"), [("Gt", "90", True), ("Lt", "90", False)])
def test_a_toleration_may_compare_numbers(tmp_path, operator, value, may):
    taint = [{"key": "sla", "value": "95", "effect": "NoSchedule"}]
    one = {"key": "sla", "operator": operator, "value": value, "effect": "NoSchedule"}
    made = convert(tmp_path, node("a", taints=taint), pod("w", tolerations=[one]))
    assert bool(made.round.jobs) is may


def test_ports_of_a_pod_in_the_network_of_its_host_are_those_of_the_host(tmp_path):
    pods = [pod(name, host=host, hostNetwork=True) for name, host in (("r", "a"), ("w", None))]
    for one in pods:
        one["spec"]["containers"][0]["ports"] = [{"containerPort": 29500}]
    made = convert(tmp_path, node("a"), *pods)
    assert made.round.cluster.hosts[0].resources == {"hostPort/29500/TCP": 1}
    assert all(job.options[0].groups[0].resources for job in made.round.jobs)


def test_selectors_affinity_and_taints_say_where_a_pod_may_go(tmp_path):
    taint = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    nodes = [node("a"), node("b", labels={"disk": "ssd"}), node("c", taints=taint)]
    exists = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [exists]}}
    made = convert(
        tmp_path,
        *nodes,
        pod("plain"),
        pod("selects", nodeSelector={"disk": "ssd"}),
        pod("near", affinity={"nodeAffinity": affinity}),
        pod("tolerates", tolerations=[{"key": "team", "operator": "Equal", "value": "x"}]),
        pod("nowhere", nodeSelector={"disk": "tape"}),
    )
    allowed = {job.name: allowed_hosts(made, job.name) for job in made.round.jobs}
    assert allowed == {
        "ns/plain": {"a", "b"},
        "ns/selects": {"b"},
        "ns/near": {"b"},
        "ns/tolerates": None,
    }
    assert {job.name: job.options[0].groups[0].host_sets for job in made.round.jobs} == {
        "ns/plain": ("tolerated",),
        "ns/selects": ("label/disk=ssd", "tolerated"),
        "ns/near": ("affinity", "tolerated"),
        "ns/tolerates": (),
    }
    assert made.round.host_sets == {
        "affinity": ("b",),
        "label/disk=ssd": ("b",),
        "tolerated": ("a", "b"),
    }
    assert left_out(made) == {"may go to no node of the round": ["ns/nowhere"]}


def test_running_pods_hold_what_they_ask_and_are_pinned_unless_they_may_move(tmp_path):
    owner = [{"kind": "ReplicaSet", "name": "r", "uid": "1", "controller": True}]
    made_anew = pod("made-anew", 2, host="a", meta={"ownerReferences": owner})
    bare = pod("bare", 1, host="a")
    pinned = convert(tmp_path, node("a"), made_anew, bare).round
    assert [job.running.pinned for job in pinned.jobs] == [True, True]
    assert sorted(g for job in pinned.jobs for g in job.running.tasks[0].gpus) == [0, 1, 2]
    freed = convert(tmp_path, node("a"), made_anew, bare, movable=True).round
    assert {job.name: job.running.pinned for job in freed.jobs} == {
        "ns/made-anew": False,
        "ns/bare": True,
    }


def test_a_node_whose_pods_hold_more_gpus_than_it_has_takes_nobody(tmp_path):
    made = convert(tmp_path, node("a", gpus=2), pod("x", 2, host="a"), pod("y", 1, host="a"))
    assert left_out(made) == {"runs on a node with fewer GPUs than its pods hold": ["ns/y"]}
    assert [one.host for one in made.round.reservations] == ["a"]


def test_a_pod_asks_for_its_containers_its_sidecars_or_its_largest_init_container(tmp_path):
    def container(cpu, **more):
        return {"resources": {"requests": {"cpu": cpu, GPU: 1}}, **more}

    asking = pod("x", initContainers=[container(1, restartPolicy="Always"), container("10")])
    asking["spec"]["containers"] = [container("500m"), container("1500m")]
    asking["spec"]["overhead"] = {"cpu": "250m"}
    (job,) = convert(tmp_path, node("a"), asking).round.jobs
    assert job.options[0].groups[0].cpu == 11_250
    assert job.options[0].groups[0].gpu == 3_000


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"nodeName": "gone"}}, "runs on a node that is not in the round"),
        ({"status": {"phase": "Succeeded"}}, "has ended"),
        ({"metadata": {"deletionTimestamp": "2026-11-20T09:00:00Z"}}, "is deleted before it ran"),
    ],
)
def test_a_pod_that_is_left_out_is_found_by_its_uid_and_owner(tmp_path, change, why):
    owned = {"ownerReferences": [{"kind": "Job", "name": "train", "uid": "u-job"}], "uid": "u-pod"}
    left = pod("p", meta=owned)
    for part, values in change.items():
        left[part] = {**left.get(part, {}), **values}
    made = convert(tmp_path, node("a"), left)
    for name in ("p", "ns/p", "u-pod", "train", "ns/train", "u-job"):
        (found,) = left_out_called(made.round, name)
        assert found.name == "ns/p"
        assert why in found.why


@pytest.mark.parametrize(
    ("status", "healthy"), [("True", True), ("False", False), ("Unknown", False)]
)
def test_a_node_whose_kubelet_is_silent_is_not_ready(tmp_path, status, healthy):
    made = node("n0")
    made["status"]["conditions"] = [{"type": "Ready", "status": status}]
    assert convert(tmp_path, made).round.cluster.hosts[0].healthy is healthy


def test_requests_are_rounded_up_and_what_a_node_has_down(tmp_path):
    has, asked = node("n0"), {"cpu": "1500100u", "memory": "1048577", GPU: 1}
    has["status"]["allocatable"] |= {"cpu": "7500900u", "memory": "1073741823"}
    made = convert(tmp_path, has, pod("p", containers=[{"resources": {"requests": asked}}]))
    (wanted,) = made.round.jobs[0].options[0].groups
    assert (wanted.cpu, wanted.memory) == (1501, 2)
    assert (made.round.cluster.hosts[0].cpu, made.round.cluster.hosts[0].memory) == (7500, 1023)


def test_pods_that_tolerate_cordons_may_go_to_cordoned_nodes(tmp_path):
    key = "node.kubernetes.io/unschedulable"
    away = node("away", unschedulable=True, taints=[{"key": key, "effect": "NoSchedule"}])
    passing = pod("passing", tolerations=[{"key": key, "operator": "Exists"}])
    runs = pod("runs", host="away")
    made = convert(tmp_path, node("there"), away, passing, pod("plain"), runs)
    assert allowed_hosts(made, "ns/passing") is None
    assert allowed_hosts(made, "ns/plain") == {"there"}
    assert made.round.reservations == ()
    made = convert(tmp_path, node("there"), away, pod("plain"), runs)
    assert [one.host for one in made.round.reservations] == ["away"]
