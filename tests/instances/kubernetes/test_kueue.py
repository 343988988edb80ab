"""Kueue: workloads that wait, are admitted or assigned; queues, flavors and what they may hold."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.converters.kubernetes.groups import TopologyAssignment
from placewright.instances.converters.kubernetes.kueue import assigned
from placewright.instances.documents.caveats import caveats_of
from tests.instances.kubernetes.dumps import GPU, RACK, allowed_hosts, convert, left_out, node, pod

HOST = "kubernetes.io/hostname"
NODES = [node(f"n{i}", labels={RACK: f"r{i // 2}", "pool": f"p{i % 2}"}) for i in range(4)]


def of(kind: str, name: str, *, namespace: str | None = None, **more: Any) -> Any:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, **more}


def workload(count: int = 2, gpus: int = 8, *, status: Any = None, **more: Any) -> Any:
    near = more.pop("near", None)
    containers = [{"resources": {"requests": {GPU: str(gpus), "cpu": "1"}}}]
    pods = {"name": "main", "count": count, "template": {"spec": {"containers": containers}}}
    if near is not None:
        pods["topologyRequest"] = near
    pods |= more.pop("pods", {})
    spec = {"podSets": [pods], "queueName": "lq", **more}
    return of("Workload", "w", namespace="ns", spec=spec, status=status or {})


def queue(name: str, gpus: str, *, flavor: str = "f", **spec: Any) -> Any:
    limit = spec.pop("limit", None)
    resource = {"name": GPU, "nominalQuota": gpus}
    if limit is not None:
        resource["borrowingLimit"] = limit
    groups = [{"flavors": [{"name": flavor, "resources": [resource]}]}]
    return of(
        "ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": groups, **spec}
    )


LOCAL = of("LocalQueue", "lq", namespace="ns", spec={"clusterQueue": "cq"})


def admitted(*hosts: str, flavor: str = "f") -> Any:
    """The status of a workload whose pods are assigned to some hosts, as v1beta1 says it."""
    one = {"name": "main", "count": len(hosts), "flavors": {GPU: flavor}}
    if hosts:
        domains = [{"values": [host], "count": 1} for host in hosts]
        one["topologyAssignment"] = {"levels": [HOST], "domains": domains}
    else:
        del one["count"]
    return {"admission": {"clusterQueue": "cq", "podSetAssignments": [one]}}


def test_a_workload_that_waits_has_its_queue_its_size_and_its_topology(tmp_path):
    near = {"preferred": RACK, "podSetSliceRequiredTopology": RACK, "podSetSliceSize": 2}
    asked = workload(4, near=near, priority=7, maximumExecutionTimeSeconds=600)
    made = convert(tmp_path, *NODES, queue("cq", "32"), LOCAL, asked)
    (job,) = made.round.jobs
    (group,) = job.options[0].groups
    assert (job.name, job.tenant, job.priority, job.held) == ("ns/w", "cq", 7, False)
    assert (group.count, group.gpu, group.required) == (4, 8000, None)
    assert group.preferred == ("gce-topology-subblock",)
    assert (group.slices.size, group.slices.required) == (2, "gce-topology-subblock")
    assert job.expected_runtime_s == 600
    assert made.book.taken["workloads"] == 1


def test_pod_sets_of_one_group_share_one_domain(tmp_path):
    asked = workload(1, near={"required": RACK, "podSetGroupName": "both"})
    workers = {**asked["spec"]["podSets"][0], "name": "workers", "count": 3}
    asked["spec"]["podSets"].append(workers)
    (job,) = convert(tmp_path, *NODES, asked).round.jobs
    assert [group.count for group in job.options[0].groups] == [1, 3]
    assert job.options[0].required == "gce-topology-subblock"


def test_one_pod_set_of_several_may_have_fewer_pods(tmp_path):
    asked = workload(1, 2)
    workers = {**asked["spec"]["podSets"][0], "name": "workers", "count": 3, "minCount": 2}
    asked["spec"]["podSets"].append(workers)
    (job,) = convert(tmp_path, *NODES, asked).round.jobs
    assert [[g.count for g in o.groups] for o in job.options] == [[1, 3], [1, 2]]


def test_partial_admission_gives_an_option_for_each_size(tmp_path):
    (job,) = convert(tmp_path, *NODES, workload(3, pods={"minCount": 2})).round.jobs
    assert [option.groups[0].count for option in job.options] == [3, 2]


@pytest.mark.parametrize(
    "items",
    [
        [workload(active=False), queue("cq", "32"), LOCAL],
        [workload(), queue("cq", "32", stopPolicy="HoldAndDrain"), LOCAL],
        [workload(), queue("cq", "32"), {**LOCAL, "spec": {**LOCAL["spec"], "stopPolicy": "Hold"}}],
    ],
    ids=["inactive", "stopped queue", "stopped local queue"],
)
def test_what_is_suspended_is_held(tmp_path, items):
    (job,) = convert(tmp_path, *NODES, *items).round.jobs
    assert job.held


def test_an_assigned_workload_runs_where_it_is_assigned_before_it_has_pods(tmp_path):
    made = convert(tmp_path, *NODES, workload(status=admitted("n1", "n2")))
    (job,) = made.round.jobs
    assert [task.host for task in job.running.tasks] == ["n1", "n2"]
    assert job.running.pinned
    freed = convert(tmp_path, *NODES, workload(status=admitted("n1", "n2")), movable=True)
    assert not freed.round.jobs[0].running.pinned


def test_a_workload_with_pods_counts_them_and_is_one_job(tmp_path):
    meta = {"annotations": {"kueue.x-k8s.io/workload": "w"}}
    pods = [pod(f"p{i}", 8, host=f"n{i}", meta=meta) for i in range(2)]
    made = convert(tmp_path, *NODES, workload(status=admitted("n0", "n1")), *pods)
    (job,) = made.round.jobs
    assert [task.host for task in job.running.tasks] == ["n0", "n1"]
    assert (made.book.taken["pods"], made.book.taken["workloads"]) == (2, 1)
    half = convert(tmp_path, *NODES, workload(status=admitted("n0", "n1")), pods[0])
    assert [task.host for task in half.round.jobs[0].running.tasks] == ["n0", "n1"]


def test_a_workload_is_found_by_the_owner_of_its_pods(tmp_path):
    owner = [{"kind": "Job", "name": "j", "uid": "u-1", "controller": True}]
    waiting = workload()
    waiting["metadata"]["ownerReferences"] = owner
    made = convert(tmp_path, *NODES, waiting, pod("p", 8, meta={"ownerReferences": owner}))
    assert [job.name for job in made.round.jobs] == ["ns/w"]
    assert made.book.total("pods") == 1


def admitted_in(queue_name: str, name: str, count: int, owner: Any) -> Any:
    """An admitted workload of an owner, whose pods say where they are."""
    one = workload(count, 4, status=admitted())
    one["metadata"] |= {"name": name, "ownerReferences": [owner]}
    one["status"]["admission"]["clusterQueue"] = queue_name
    return one


def owner_of(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "name": name, "uid": f"u-{name}", "controller": True}


@pytest.mark.parametrize(
    ("owner", "labels", "of_pods", "between"),
    [
        ("RayJob", {"ray.io/cluster": "j-x7k2p"}, ("RayCluster", "j-x7k2p"), []),
        ("RayService", {"ray.io/cluster": "j-raycluster-x7k2p"}, ("RayCluster", "c"), []),
        ("TrainJob", {"jobset.sigs.k8s.io/jobset-name": "j"}, ("Job", "j-node-0"), []),
        ("AppWrapper", {}, ("Job", "k"), [("Job", "k", "JobSet", "s"), ("JobSet", "s", "AppWrapper",
         "j")]),
        ("JobSet", {"jobset.sigs.k8s.io/jobset-uid": "u-j"}, ("Job", "j-w-0"), []),
    ],
)  # fmt: skip
def test_pods_are_of_the_workload_of_what_made_their_owner(
    tmp_path, owner, labels, of_pods, between
):
    meta = {"labels": labels, "ownerReferences": [owner_of(*of_pods)]}
    objects = [
        {
            "apiVersion": "batch/v1",
            "kind": kind,
            "metadata": {"name": name, "uid": f"u-{name}", "ownerReferences": [owner_of(*above)]},
        }
        for kind, name, *above in between
    ]
    one = admitted_in("cq", "w", 2, owner_of(owner, "j"))
    pods = [pod(f"p{i}", 4, host=f"n{i}", meta=meta) for i in range(2)]
    made = convert(tmp_path, *NODES, queue("cq", "8"), LOCAL, one, *objects, *pods)
    (job,) = made.round.jobs
    assert (job.name, job.tenant, job.running is not None) == ("ns/w", "cq", True)


SLICE_OF = "kueue.x-k8s.io/workload-slice-name"


def grown(name: str, count: int, **more: Any) -> Any:
    one = admitted_in("cq", name, count, owner_of("Job", "j"))
    notes = {SLICE_OF: "w-1", **more}
    one["metadata"]["annotations"] = notes
    return one


def of_slice(k: int, workload_name: str, host: str | None) -> Any:
    notes = {SLICE_OF: "w-1", "kueue.x-k8s.io/workload": workload_name}
    meta = {"annotations": notes, "ownerReferences": [owner_of("Job", "j")]}
    return pod(f"p{k}", 4, host=host, meta=meta)


def test_a_job_that_grows_asks_only_for_what_is_added(tmp_path):
    old, new = grown("w-1", 3), grown("w-2", 5)
    new["status"] = {}
    new["metadata"]["annotations"]["kueue.x-k8s.io/workload-slice-replacement-for"] = "ns/w-1"
    pods = [of_slice(k, "w-1", f"n{k // 2}") for k in range(3)]
    pods += [of_slice(k, "w-2", None) for k in (3, 4)]
    made = convert(tmp_path, *NODES, queue("cq", "20"), LOCAL, old, new, *pods)
    jobs = {job.name: job for job in made.round.jobs}
    assert {name: job.options[0].groups[0].count for name, job in jobs.items()} == {
        "ns/w-1": 3,
        "ns/w-2": 2,
    }
    assert [jobs[f"ns/w-{k}"].running is not None for k in (1, 2)] == [True, False]


def test_a_job_that_has_grown_is_one(tmp_path):
    old, new = grown("w-1", 3), grown("w-2", 5)
    old["status"]["conditions"] = [{"type": "Finished", "status": "True"}]
    pods = [of_slice(k, "w-1" if k < 3 else "w-2", f"n{k // 2}") for k in range(5)]
    (job,) = convert(tmp_path, *NODES, queue("cq", "20"), LOCAL, old, new, *pods).round.jobs
    assert (job.name, len(job.running.tasks)) == ("ns/w-2", 5)


@pytest.mark.parametrize(
    ("near", "flavors"),
    [({"required": RACK}, ["tas"]), ({"unconstrained": True}, ["tas"]), (None, ["plain"]),
     ({"podSetGroupName": "x"}, ["plain"])],
)  # fmt: skip
def test_flavors_with_a_topology_are_for_those_who_want_one(tmp_path, near, flavors):
    objects = [
        of("ResourceFlavor", "tas", spec={"topologyName": "t", "nodeLabels": {"pool": "p0"}}),
        of("ResourceFlavor", "plain", spec={"nodeLabels": {"pool": "p1"}}),
        of("Topology", "t", spec={"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}),
    ]
    both = queue("cq", "8", flavor="tas")
    more = queue("cq", "8", flavor="plain")["spec"]["resourceGroups"][0]["flavors"]
    both["spec"]["resourceGroups"][0]["flavors"] += more
    made = convert(tmp_path, *NODES, *objects, both, LOCAL, workload(1, 4, near=near))
    (job,) = made.round.jobs
    used = {name for o in job.options for name in o.uses}
    assert used == {f"gpu@{flavor}" for flavor in flavors}


def test_an_admitted_workload_without_hosts_waits_for_those_of_its_flavor(tmp_path):
    flavor = of("ResourceFlavor", "f", spec={"nodeLabels": {"pool": "p1"}})
    made = convert(tmp_path, *NODES, flavor, queue("cq", "32"), workload(status=admitted()))
    (job,) = made.round.jobs
    assert job.running is None
    assert allowed_hosts(made, job.name) == {"n1", "n3"}
    assert job.options[0].groups[0].host_sets == ("flavor/f",)
    assert made.book.unsaid["that a workload is admitted whose pods have no nodes"] == ["ns/w"]


def test_tolerations_of_a_flavor_let_its_workloads_pass_taints(tmp_path):
    taint = [{"key": "pool", "value": "x", "effect": "NoSchedule"}]
    tolerations = [{"key": "pool", "operator": "Exists"}]
    tainted = [node("n0", taints=taint), node("n1", taints=taint)]
    flavor = of("ResourceFlavor", "f", spec={"tolerations": tolerations})
    (job,) = convert(tmp_path, *tainted, flavor, queue("cq", "32"), LOCAL, workload()).round.jobs
    assert job.options[0].groups[0].hosts is None and not job.options[0].groups[0].host_sets


def test_finished_workloads_and_those_without_gpus_are_counted(tmp_path):
    finished = workload(status={"conditions": [{"type": "Finished", "status": "True"}]})
    made = convert(tmp_path, *NODES, finished)
    assert left_out(made) == {"has finished": ["ns/w"]}
    made = convert(tmp_path, *NODES, workload(gpus=0))
    assert left_out(made) == {"asks for no GPU": ["ns/w"]}


def test_quotas_are_nominal_and_with_a_cohort_what_may_be_borrowed(tmp_path):
    made = convert(
        tmp_path,
        *NODES,
        queue("alone", "8"),
        queue("bold", "8", cohortName="c"),
        queue("careful", "16", cohort="c", limit="4"),
    )
    found = {one.name: (one.quota, one.guarantee) for one in made.round.tenants}
    assert found == {
        "alone": ({"gpu": 8000}, {}),
        "bold": ({"gpu": 24_000}, {"gpu": 8000}),
        "careful": ({"gpu": 20_000}, {"gpu": 16_000}),
    }
    assert "the cap of a cohort on its queues together" not in made.book.unsaid


def test_cohorts_in_a_cohort_lend_what_they_and_their_queues_have(tmp_path):
    groups = queue("x", "4")["spec"]["resourceGroups"]
    inner = of("Cohort", "inner", spec={"parentName": "outer"})
    outer = of("Cohort", "outer", spec={"parentName": "inner", "resourceGroups": groups})
    made = convert(
        tmp_path, *NODES, inner, outer, queue("a", "8", cohort="inner"), queue("b", "1", cohort="b")
    )
    assert {one.name: one.quota["gpu"] for one in made.round.tenants} == {"a": 12_000, "b": 1000}
    outer["spec"].pop("parentName")
    made = convert(tmp_path, *NODES, inner, outer, queue("a", "8", cohort="inner"))
    assert made.round.tenants[0].quota == {"gpu": 12_000}


def test_weights_of_fair_sharing_are_in_thousandths(tmp_path):
    half = queue("half", "8", fairSharing={"weight": "500m"})
    made = convert(tmp_path, *NODES, half, queue("one", "8"))
    assert {one.name: one.weight for one in made.round.tenants} == {"half": 500, "one": 1000}


def test_an_assignment_in_slices_has_names_with_prefix_and_suffix():
    one = TopologyAssignment.model_validate(
        {
            "levels": [HOST],
            "slices": [
                {
                    "domainCount": 2,
                    "podCounts": {"individual": [1, 2]},
                    "valuesPerLevel": [
                        {"individual": {"prefix": "gpu-", "roots": ["1", "2"], "suffix": "x"}}
                    ],
                },
                {
                    "domainCount": 1,
                    "podCounts": {"universal": 2},
                    "valuesPerLevel": [{"universal": "gpu-9x"}],
                },
            ],
        }
    )
    assert assigned(one) == ["gpu-1x", "gpu-2x", "gpu-2x", "gpu-9x", "gpu-9x"]


def test_an_assignment_of_racks_or_of_too_many_pods_is_none_of_hosts():
    assert assigned(TopologyAssignment.model_validate({"levels": [RACK]})) is None
    many = {"values": ["n"], "count": 100_000}
    huge = {"levels": [HOST], "domains": [many] * 1000}
    assert assigned(TopologyAssignment.model_validate(huge)) is None


def test_a_workload_that_is_being_deleted_is_told(tmp_path):
    one = workload(1)
    one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (job,) = convert(tmp_path, node("a"), one).round.jobs
    assert [each.rule for each in caveats_of(job.annotations)] == ["deleted", "queue-missing"]
