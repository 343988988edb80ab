"""What a dump leaves open, or Kubernetes decides before pods are placed: obeyed, or told."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import solve_round
from placewright.instances.converters import LiveConversion, convert_kubernetes
from placewright.instances.derived.source_words import words_of
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.source_keys import HELD
from tests.instances.kubernetes.dumps import GPU, allowed_hosts, convert, left_out, node, pod
from tests.instances.kubernetes.test_kueue import of, queue, workload

ZONE = "topology.kubernetes.io/zone"
NODES = [node(name, labels={ZONE: f"z{name[0]}"}) for name in ("a0", "a1", "b0")]
LOCAL = of("LocalQueue", "lq", namespace="ns", spec={"clusterQueue": "cq"})
FLAVOR = of("ResourceFlavor", "f", spec={"topologyName": "t"})
TOPOLOGY = of("Topology", "t", spec={"levels": [{"nodeLabel": ZONE}]})
KUEUE = [queue("cq", "64"), LOCAL, FLAVOR, TOPOLOGY]


def told(made: LiveConversion, name: str = "ns/w") -> list[str]:
    """The rules told of a job, but that queues here have quota of GPUs alone."""
    (job,) = (one for one in made.round.jobs if one.name == name)
    found = [one.rule for one in caveats_of(job.annotations)]
    return [rule for rule in found if rule != "uncovered-resources"]


def held(made: LiveConversion) -> str:
    (job,) = made.round.jobs
    assert job.held is (HELD in job.annotations)
    return job.annotations.get(HELD, "")


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        *(
            ("1e3", 1_000_000),
            ("1E+1", 10_000),
            ("1e-3", 1),
            ("+5", 5000),
            (".5", 500),
            ("5.", 5000),
        ),
        *(("100e-02", 1000), ("0.0000000000001", 1), ("2k", 2_000_000), ("100u", 1)),
        ("9223372036854775807", 10**12),
    ],
)
def test_quantities_of_every_notation_are_read(tmp_path, text, milli):
    one = pod("w")
    one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = text
    (job,) = convert(tmp_path, *NODES, one).round.jobs
    assert job.options[0].groups[0].cpu == milli


@pytest.mark.parametrize(("text", "gpus"), [("0", None), ("500m", 1000), ("1", 1000)])
def test_a_part_of_a_gpu_is_one_and_none_is_none(tmp_path, text, gpus):
    made = convert(tmp_path, *NODES, pod("w", text))
    assert [job.options[0].groups[0].gpu for job in made.round.jobs] == ([gpus] if gpus else [])
    assert left_out(made) == ({} if gpus else {"asks for no GPU": ["ns/w"]})


def test_ports_of_init_containers_that_end_are_free(tmp_path):
    ports = {"ports": [{"hostPort": 80}]}
    pods = [
        pod("r", host="a0", initContainers=[ports]),
        pod("s", host="a1", initContainers=[{"restartPolicy": "Always", **ports}]),
    ]
    held_ports = [
        job.options[0].groups[0].resources for job in convert(tmp_path, *NODES, *pods).round.jobs
    ]
    assert held_ports == [{}, {"hostPort/80/TCP": 1}]


def test_huge_pages_of_a_pod_take_the_place_of_those_of_its_containers(tmp_path):
    made = convert(tmp_path, *NODES, pod("w", resources={"limits": {"hugepages-2Mi": "4Mi"}}))
    assert made.round.jobs[0].options[0].groups[0].resources == {"hugepages-2Mi": 4}


@pytest.mark.parametrize(
    ("spec", "rules"),
    [
        ({"schedulerName": "mine"}, ["scheduler"]),
        ({"schedulerName": "default-scheduler"}, []),
        ({"containers": [{"ports": [{"hostPort": 1, "hostIP": "10.0.0.1"}]}]}, ["host-ip"]),
        ({"containers": [{"ports": [{"hostPort": 1, "hostIP": "0.0.0.0"}]}]}, []),
    ],
)
def test_who_places_a_pod_and_where_its_ports_are_is_told(tmp_path, spec, rules):
    one = pod("w")
    main = {**one["spec"]["containers"][0], **spec.get("containers", [{}])[0]}
    one["spec"] |= {**spec, "containers": [main]}
    assert told(convert(tmp_path, *NODES, one)) == rules


@pytest.mark.parametrize("left", [[], [LOCAL], [queue("cq", "64"), FLAVOR]])
def test_a_workload_whose_queue_is_not_in_the_dump_is_told(tmp_path, left):
    made = convert(tmp_path, *NODES, workload(1), *left)
    assert (told(made), held(made)) == (["queue-missing"], "")


def test_a_workload_that_names_no_queue_is_held(tmp_path):
    made = convert(tmp_path, *NODES, workload(1, queueName=None), *KUEUE)
    assert (told(made), held(made)) == ([], "it names no LocalQueue")


@pytest.mark.parametrize(
    ("requeue", "why"),
    [
        (None, "Kueue has not queued it again (PodsReadyTimeout)"),
        ({"count": 1, "requeueAt": "2030-01-01T00:00:00Z"}, ""),
    ],
)
def test_a_workload_that_is_not_queued_again_is_held(tmp_path, requeue, why):
    said = {"type": "Requeued", "status": "False", "reason": "PodsReadyTimeout"}
    status = {"conditions": [said], "requeueState": requeue}
    made = convert(tmp_path, *NODES, workload(1, status=status), *KUEUE)
    assert held(made) == why
    assert (made.round.jobs[0].not_before is None) is (requeue is None)


@pytest.mark.parametrize(
    ("count", "near", "rules"),
    [
        (4, {"podSetSliceRequiredTopology": ZONE, "podSetSliceSize": 2}, []),
        (3, {"podSetSliceRequiredTopology": ZONE, "podSetSliceSize": 1}, []),
        (3, {"podSetSliceRequiredTopology": ZONE, "podSetSliceSize": 2}, ["subgroup-topology"]),
        (2, {"podSetSliceRequiredTopology": ZONE, "podSetSliceSize": 4}, ["subgroup-topology"]),
        (2, {"podSetSliceRequiredTopology": ZONE}, ["subgroup-topology"]),
    ],
)
def test_slices_that_a_pod_set_is_no_number_of_are_told(tmp_path, count, near, rules):
    assert told(convert(tmp_path, *NODES, workload(count, near=near), *KUEUE)) == rules


@pytest.mark.parametrize(
    ("groups", "rules"),
    [
        ("gg", []),
        ("g-", []),
        ("gh", []),
        ("gg-", ["subgroup-topology"]),
        ("gghh", ["subgroup-topology"]),
    ],
)
def test_groups_of_some_pod_sets_are_told(tmp_path, groups, rules):
    one = workload(1, 1)
    (pods,) = one["spec"]["podSets"]
    near = [{"required": ZONE, "podSetGroupName": group} for group in groups]
    one["spec"]["podSets"] = [
        {**pods, "name": f"p{i}", **({"topologyRequest": near[i]} if group != "-" else {})}
        for i, group in enumerate(groups)
    ]
    assert told(convert(tmp_path, *NODES, one, *KUEUE)) == rules


def test_a_flavor_needs_the_levels_that_are_asked(tmp_path):
    one = workload(1, near={"required": "rack"})
    made = convert(tmp_path, *NODES, one, *KUEUE)
    assert [*left_out(made)] == ["no flavor of its queue has its taints tolerated and its topology"]
    made = convert(tmp_path, *NODES, one, queue("cq", "64"), LOCAL, FLAVOR)
    assert told(made) == ["topology-level"]


def group(kind: str, **spec: Any) -> Any:
    return {
        "apiVersion": f"{kind}/v1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"minMember": 1, **spec},
    }


VOLCANO, KAI = "scheduling.volcano.sh", "scheduling.run.ai"
IN_VOLCANO = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
IN_KAI = {"annotations": {"pod-group-name": "g"}}


@pytest.mark.parametrize(
    ("meta", "groups", "rules"),
    [
        (IN_VOLCANO, [group(VOLCANO)], []),
        (IN_VOLCANO, [], ["group-missing"]),
        (IN_KAI, [], ["group-missing"]),
        (IN_VOLCANO, [group(VOLCANO, queue="q")], ["queue-missing"]),
        (IN_KAI, [group(KAI, queue="q")], ["queue-missing"]),
        (
            IN_VOLCANO,
            [group(VOLCANO, networkTopology={"highestTierAllowed": 1})],
            ["topology-level"],
        ),
        (
            IN_KAI,
            [group(KAI, topologyConstraint={"requiredTopologyLevel": "x"})],
            ["topology-level"],
        ),
        (IN_KAI, [group(KAI, topologyConstraint={"preferredTopologyLevel": "x"})], []),
    ],
)
def test_what_a_group_refers_to_and_the_dump_has_not_is_told(tmp_path, meta, groups, rules):
    made = convert(tmp_path, *NODES, pod("p", 8, meta=meta), *groups)
    assert told(made, "ns/g") == rules


def test_the_queue_of_a_volcano_group_is_the_usual_one_if_it_names_none(tmp_path):
    usual = {"apiVersion": f"{VOLCANO}/v1", "kind": "Queue", "metadata": {"name": "default"}}
    pods = [
        pod("p", meta=IN_VOLCANO),
        pod("q", meta={"annotations": {f"{VOLCANO}/queue-name": "gone"}}),
    ]
    made = convert(
        tmp_path, *NODES, *pods, group(VOLCANO), {**usual, "spec": {"capability": {GPU: 4}}}
    )
    assert [(job.tenant, job.held) for job in made.round.jobs] == [
        ("default", False),
        ("gone", True),
    ]


def test_a_node_without_the_label_of_a_level_is_in_no_domain_of_it(tmp_path):
    nodes = [*NODES, node("c")]
    made = convert(tmp_path, *nodes, workload(1), *KUEUE)
    assert allowed_hosts(made, "ns/w") == {"a0", "a1", "b0"}
    near = group(KAI, topologyConstraint={"requiredTopologyLevel": ZONE})
    made = convert(tmp_path, *nodes, pod("p", meta=IN_KAI), near)
    assert allowed_hosts(made, "ns/g") == {"a0", "a1", "b0"}


def test_a_class_that_the_dump_has_not_is_told_of_a_group(tmp_path):
    for name, rules in (("train", []), ("mine", ["class-missing"])):
        made = convert(tmp_path, *NODES, pod("p", meta=IN_KAI), group(KAI, priorityClassName=name))
        assert told(made, "ns/g") == rules


@pytest.mark.parametrize(("notes", "rules"), [({}, []), ([], []), (None, ["exclusive-topology"])])
def test_exclusive_topology_of_a_job_set_is_told_of_its_workload(tmp_path, notes, rules):
    key, kind = "alpha.jobset.sigs.k8s.io/exclusive-topology", "jobset.x-k8s.io/v1alpha2"
    meta = {"name": "js", "namespace": "ns", "annotations": {key: ZONE} if notes is None else notes}
    one = workload(1)
    owner = {"apiVersion": kind, "kind": "JobSet", "name": "js", "uid": "u", "controller": True}
    one["metadata"]["ownerReferences"] = [owner]
    sets = {"apiVersion": kind, "kind": "JobSet", "metadata": meta, "spec": {}}
    assert told(convert(tmp_path, *NODES, one, *KUEUE, sets)) == rules


@pytest.mark.parametrize(("replicas", "notes"), [("1", 0), ("4", 1)])
def test_gpus_that_are_there_several_times_are_told(tmp_path, replicas, notes):
    model = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": replicas}
    made = convert(tmp_path, node("a", labels=model), pod("w"))
    said = [line for line in made.book.lines() if "shared in time" in line]
    assert len(said) == notes
    assert (made.round.cluster.hosts[0].gpu_links is None) is bool(notes)


@pytest.mark.parametrize(
    ("gate", "count", "rules"),
    [("", 1, []), ("", 2, ["one-by-one"]), ("placewright.dev/plan", 2, [])],
)
def test_a_gang_that_nobody_starts_together_is_told(tmp_path, gate, count, rules):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    gates = {"schedulingGates": [{"name": gate}]} if gate else {}
    pods = [pod(f"j-{i}", meta={"ownerReferences": [owner]}, **gates) for i in range(count)]
    assert told(convert(tmp_path, *NODES, *pods), "ns/j") == rules


def test_one_of_several_is_called_so(tmp_path):
    wrong = {**RUNTIME, "scheduling": []}
    lines = convert_kubernetes([*NODES, wrong], "x").book.lines()
    assert any("1 runtime class: cannot be read" in line for line in lines)


@pytest.mark.parametrize("topology", [True, False])
def test_kueue_gives_no_cordoned_node_and_kubernetes_those_who_tolerate_it(tmp_path, topology):
    one = workload(1)
    one["spec"]["podSets"][0]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    flavor = FLAVOR if topology else of("ResourceFlavor", "f")
    cordoned = node("c", unschedulable=True)
    made = convert(tmp_path, node("a"), cordoned, one, queue("cq", "64"), LOCAL, flavor)
    assert made.round.reservations == ()
    (hosts,) = (job.options[0].groups[0].host_sets for job in made.round.jobs)
    assert hosts == (("flavor/f",) if topology else ())


RUNTIME = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {
        "nodeSelector": {ZONE: "zb"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
    },
}
PLAIN = [queue("cq", "64"), LOCAL, of("ResourceFlavor", "f")]


def runs_in(runtime: str, selector: dict[str, str]) -> Any:
    one = workload(1)
    spec = one["spec"]["podSets"][0]["template"]["spec"]
    spec |= {"runtimeClassName": runtime, "nodeSelector": selector}
    return one


@pytest.mark.parametrize(
    ("runtime", "selector", "hosts", "cpu", "rules"),
    [
        ("kata", {}, {"b0", "b1"}, 1250, []),
        ("runc", {}, {"a0", "a1", "b0"}, 1000, ["runtime-class"]),
        ("kata", {ZONE: "za"}, {"a0", "a1"}, 1000, ["runtime-class"]),
    ],
)
def test_a_workload_has_what_its_runtime_adds(tmp_path, runtime, selector, hosts, cpu, rules):
    taint = [{"key": "kata", "effect": "NoSchedule"}]
    tainted = node("b1", labels={ZONE: "zb"}, taints=taint)
    one = runs_in(runtime, selector)
    made = convert(tmp_path, *NODES, tainted, one, *PLAIN, RUNTIME)
    assert (allowed_hosts(made, "ns/w"), told(made)) == (hosts, rules)
    assert made.round.jobs[0].options[0].groups[0].cpu == cpu


@pytest.mark.parametrize(("host", "hosts"), [(None, {"b0"}), ("a0", None)])
def test_a_pod_that_waits_has_what_its_runtime_adds(tmp_path, host, hosts):
    made = convert(tmp_path, *NODES, pod("w", host=host, runtimeClassName="kata"), RUNTIME)
    assert (allowed_hosts(made, "ns/w"), told(made)) == (hosts, [])


def limit(used: dict[str, str] | None = None, /, **spec: Any) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "rq", "namespace": "ns"},
        "spec": spec,
        "status": {"used": used or {}},
    }


GPUS = {f"requests.{GPU}": "8"}


def starts(made: LiveConversion) -> list[str]:
    plan = solve_round(made.round, time_limit=10)
    return [one.job for one in plan.decisions if one.decision is DecisionKind.START]


@pytest.mark.parametrize(
    ("quota", "pods", "started"),
    [
        (limit(hard=GPUS), [], True),
        (limit(hard=GPUS), [pod("r", 1, host="a1")], False),
        (limit(hard=GPUS), [pod("p", 1, schedulingGates=[{"name": "x"}])], False),
        (limit({f"requests.{GPU}": "1"}, hard=GPUS), [], False),
        (limit({f"requests.{GPU}": "0"}, hard=GPUS), [], True),
        (limit(hard={"cpu": "500m"}), [], False),
        (limit(hard={"requests.cpu": "1", "count/pods": "1"}), [], True),
        (limit(hard={"pods": "0"}), [], False),
        (limit(hard={"services": "0", "requests.storage": "0"}), [], True),
    ],
)
def test_a_quota_of_a_namespace_limits_pods_that_are_to_be_made(tmp_path, quota, pods, started):
    made = convert(tmp_path, *NODES, *pods, workload(1), *PLAIN, quota)
    assert told(made) == []
    assert ("ns/w" in starts(made)) is started


@pytest.mark.parametrize(
    "quota",
    [
        limit(hard=GPUS, scopes=["NotTerminating"]),
        limit(hard=GPUS, scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass"}]}),
        limit(hard={"limits.cpu": "1"}),
        limit(hard={"requests.amd.com/gpu": "1"}),
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "lr", "namespace": "ns"},
            "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]},
        },
    ],
)
def test_what_a_round_cannot_say_of_a_namespace_is_told_of_pods_to_be_made(tmp_path, quota):
    made = convert(tmp_path, *NODES, pod("p"), workload(1), *PLAIN, quota)
    assert told(made, "ns/p") == []
    assert told(made) == ["limit-range" if quota["kind"] == "LimitRange" else "resource-quota"]


def test_pods_that_are_there_start_whatever_a_quota_says_now(tmp_path):
    made = convert(tmp_path, *NODES, pod("r", 8, host="a0"), pod("w", 8), limit(hard=GPUS))
    assert told(made) == told(made, "ns/r") == ["resource-quota"]
    assert starts(made) == ["ns/w"]


def test_a_quota_of_a_namespace_is_called_so(tmp_path):
    made = convert(tmp_path, *NODES, workload(1), *PLAIN, limit(hard=GPUS))
    ((name, cap),) = made.round.caps.items()
    ((measure, most),) = cap.limits.items()
    said = words_of(made.round).say(f"cap {name} allows {measure.text(most)} (0 in use)")
    assert said == "ResourceQuota ns/rq allows 8 GPUs (0 in use)"
