"""A plan for Workloads of Kueue: as affinity of a Job, or as the answer to an admission check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from placewright import Round
from placewright.instances.converters import read_kubernetes
from placewright.instances.converters.kubernetes.groups import TopologyAssignment
from placewright.instances.converters.kubernetes.kueue import assigned
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.exporters.kueue import kueue_script, topology_assignments
from tests.instances.exporters.test_kubernetes_script import calls, patched
from tests.instances.kubernetes.dumps import RACK, convert, node
from tests.instances.kubernetes.test_kueue import LOCAL, of, queue, workload

LIVE = Path(__file__).parents[4] / "shared" / "data" / "live" / "kubernetes"
HOST = "kubernetes.io/hostname"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "ns", "uid": "u-j"},
    "spec": {
        "suspend": True,
        "template": {
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
        },
    },
}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", "controller": True}


def dumped(folder: Path, *, topology: bool, checks: list[Any] | None = None) -> Round:
    one = workload(2)
    one["metadata"] |= {"uid": "u-w", "ownerReferences": [OWNER]}
    one["status"] = {"admissionChecks": checks or []}
    nodes = [node(f"n{i}", labels={RACK: f"rack-{i // 2}", HOST: f"n{i}"}) for i in range(4)]
    spec = {"topologyName": "gke"} if topology else {}
    flavor = of("ResourceFlavor", "f", spec=spec)
    return convert(folder, *nodes, queue("cq", "32"), LOCAL, flavor, one).round


def started(round_: Round, *hosts: str) -> Plan:
    (job,) = round_.jobs
    gpus = tuple(range(job.options[0].groups[0].gpu // 1000))
    tasks = tuple(Task(index=i, host=host, gpus=gpus) for i, host in enumerate(hosts))
    one = Decision(job=job.name, decision=DecisionKind.START, option=0, tasks=tasks)
    return Plan(decisions=(one,))


def test_with_a_topology_the_suspended_job_gets_the_nodes_and_its_workload_is_made_anew(tmp_path):
    round_ = dumped(tmp_path, topology=True)
    script = kueue_script(round_, started(round_, "n2", "n3"))
    (words, _), (delete, options) = calls(script.text)
    assert words[:6] == ["kubectl", "patch", "job", "j", "-n", "ns"]
    made = json.loads(patched(tmp_path, JOB, words).stdout)
    required = made["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": HOST, "operator": "In", "values": ["n2", "n3"]}]
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/w"
    assert delete == ["kubectl", "delete", "--raw", path, "-f", "-"]
    assert options["preconditions"] == {"uid": "u-w"}
    running = {**JOB, "spec": {**JOB["spec"], "suspend": False}}
    assert patched(tmp_path, running, words).returncode != 0


@pytest.mark.parametrize(
    ("hosts", "selector"),
    [(("n2", "n2"), {HOST: "n2"}), (("n2", "n3"), {RACK: "rack-1"}), (("n1", "n2"), None)],
)
def test_without_a_topology_the_check_is_answered_with_a_node_selector(tmp_path, hosts, selector):
    check = {"name": "placewright", "state": "Pending", "message": "", "lastTransitionTime": ""}
    round_ = dumped(tmp_path, topology=False, checks=[{"name": "other"}, check])
    script = kueue_script(round_, started(round_, *hosts))
    if selector is None:
        assert script.calls == 0
        assert script.unsaid == ("pod sets on nodes that no label has in common: 1 job",)
        return
    ((words, _),) = calls(script.text)
    assert words[3:7] == ["w", "-n", "ns", "--type=json"]
    assert "--subresource=status" in words
    operations = json.loads(words[-1])
    assert operations[1]["path"] == "/status/admissionChecks/1/name"
    assert {"name": "main", "nodeSelector": selector} in operations[3]["value"]


def test_a_workload_without_our_check_is_counted(tmp_path):
    round_ = dumped(tmp_path, topology=False)
    script = kueue_script(round_, started(round_, "n0", "n1"))
    assert (script.calls, script.unsaid) == (0, ("Workloads without the check placewright: 1 job",))


@pytest.mark.parametrize(
    ("hosts", "counts"),
    [(("n1", "n0"), {"n0": 1, "n1": 1}), (("n1",) * 2, {"n1": 2}), (("n0", "n1", "n1"), None)],
)
def test_the_assignment_is_what_kueue_would_write(tmp_path, hosts, counts):
    round_ = dumped(tmp_path, topology=True)
    made = topology_assignments(round_, started(round_, *hosts))["ns/w"]["main"]
    assert sorted(assigned(TopologyAssignment.model_validate(made)) or ()) == sorted(hosts)
    schema = (
        LIVE / "kueue" / "config__components__crd__bases__kueue.x-k8s.io_workloads.trimmed.yaml"
    )
    if not schema.is_file():
        pytest.skip("the schemas of Kueue are not here")
    crd = yaml.safe_load(schema.read_text())
    version = next(v for v in crd["spec"]["versions"] if v["name"] == "v1beta2")
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    sets = status["admission"]["properties"]["podSetAssignments"]["items"]["properties"]
    jsonschema.validate(made, sets["topologyAssignment"])


def test_a_captured_kueue_is_told_where_its_workloads_go(tmp_path):
    folder = LIVE / "captured" / "kueue-tas-seed5"
    if not folder.is_dir():
        pytest.skip("the captured dumps are not here")
    round_ = read_kubernetes(sorted(folder.glob("*.json"))).round
    (waiting,) = (job for job in round_.jobs if job.running is None)
    group = waiting.options[0].groups[0]
    tasks = tuple(
        Task(index=i, host=f"gpu-{i:02}", gpus=tuple(range(8))) for i in range(group.count)
    )
    one = Decision(job=waiting.name, decision=DecisionKind.START, option=0, tasks=tasks)
    script = kueue_script(round_, Plan(decisions=(one,)))
    assert script.calls == 2
    jobs = json.loads((folder / "jobs.json").read_text())["items"]
    (words, _), _ = calls(script.text)
    document = next(job for job in jobs if job["metadata"]["name"] == words[3])
    assert patched(tmp_path, document, words).returncode == 0
