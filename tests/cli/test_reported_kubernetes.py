"""Reports of people who run GPUs on Kubernetes: each on its dump, with the answer that is right.

The dumps of a few were kept apart, and are made here of others.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from placewright import solve_round
from placewright.instances.converters import LiveConversion, read_kubernetes
from placewright.instances.exporters.kubernetes import kubernetes_script
from placewright.live.serve.extender import Extender, args_of
from placewright.live.serve.service import snapshot_of
from placewright.report.page import render_report
from tests.instances.kubernetes.dumps import GPU, convert, node, pod
from tests.support.reported import (
    REPORTED,
    Case,
    check,
    items,
    needs_reports,
    objects,
    parametrised,
)

pytestmark = needs_reports
PLANNED = "placewright.dev/plan"


def of_kind(found: list[Any], kind: str) -> list[Any]:
    return [one for one in found if one["kind"] == kind]


def half_started(found: list[Any]) -> list[Any]:
    """Two gangs of ten pods on ten nodes, of each of which five run."""
    kept = [one for one in of_kind(found, "Node") if one["metadata"]["name"] < "n010"]
    for gang in of_kind(found, "PodGroup"):
        gang["spec"]["minMember"] = 10
        kept.append(gang)
    for one in of_kind(found, "Pod"):
        gang, _, number = one["metadata"]["name"].partition("-")
        if int(number) < 5:
            one["spec"]["nodeName"] = f"n{int(number) + 5 * (gang == 'gb'):03}"
            one["status"] = {"phase": "Running"}
        if int(number) < 10:
            kept.append(one)
    return kept


def one_model(found: list[Any]) -> list[Any]:
    """Both flavors are of one model, and have nodes of their own."""
    for one in of_kind(found, "Node"):
        one["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
    return found


def unset(found: list[Any]) -> list[Any]:
    for one in of_kind(found, "ClusterQueue"):
        del one["spec"]["preemption"]
    return found


def gated(found: list[Any]) -> list[Any]:
    """Our gate keeps the pod, and no label names the model of the other vendor."""
    for one in found:
        one["metadata"].get("labels", {}).pop("amd.com/gpu.product-name", None)
    found[-1]["spec"]["schedulingGates"] = [{"name": PLANNED}]
    return found


def away(found: list[Any]) -> list[Any]:
    """A GPU is not allocatable."""
    one = next(one for one in found if one["metadata"]["name"] == "h")
    one["status"]["allocatable"][GPU] = "7"
    return [one, found[-1]]


def third(found: list[Any]) -> list[Any]:
    """A node of another model beside one without GPUs."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    return [node("a", labels=labels), *found]


def apart(found: list[Any]) -> list[Any]:
    """Pods that keep out of each other's hosts in place of a spread."""
    term = {
        "labelSelector": {"matchLabels": {"app": "sp"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    for one in of_kind(found, "Pod")[1:]:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        del one["spec"]["topologySpreadConstraints"]
        one["spec"]["affinity"] = {"podAntiAffinity": required}
    return found


def ports(found: list[Any]) -> list[Any]:
    """The only node where the pod could go has one that has its port."""
    taken = [{"resources": {}, "ports": [{"hostPort": 8080}]}]
    made = [one for one in found if one["metadata"]["name"] in ("h100-0", "hostport")]
    return [*made, pod("proxy", 0, host="h100-0", containers=taken)]


NEVER = "can never run"
NOW = "could start now"
NO = "cannot start now"
SO_FAR = "as far as the round knows"
UNCOVERED = "whether Kueue is configured to admit without quota of cpu, memory is not read"

FAULTS = [
    Case("crash", "ml/w?", (NO, "job ml/busy runs (8 GPUs, pinned)")),
    Case(("crash", third), "ml/w?", (NO, "allow NVIDIA-A100-SXM4-80GB, too")),
    Case("amd", "ml/nv-wait", (NO, "on NVIDIA-H100-80GB-HBM3 only", "job ml/nv-busy runs")),
    Case(("amd", gated), "export", ("kubectl",), ("amd-0",)),
    Case("i19", "ml/job-cpuhungry", (NEVER, "ClusterQueue a may hold 16 cores")),
    Case("i19b", "ml/job-manypods", (NEVER, "ClusterQueue a allows 2 pods of flavor gpu")),
    Case("i20", "ml/job-orphan", (NO, "there is no LocalQueue ml/nosuch"), (NOW,)),
    Case("i20", "ml/job-prov", (NO, "admission check dws has not let it pass"), ("is admitted",)),
    Case("i20", "ml/job-inactive", (NO, "it is not active")),
    Case("i20", "ml/job-onhold", (NO, "ClusterQueue h is stopped (Hold)")),
    Case("i20", "ml/job-evicted", (NO, "no earlier than at 2026-11-28 12:00:00 UTC")),
    Case("i20", "finished", ("ml/job-finished", "not in the round: has finished")),
    Case("i20", "plan", ("ml/job-orphan wait", "ml/job-prov wait"), (" start",)),
    Case(("i16", one_model), "ml/job-j3", (NEVER, "4 GPUs of flavor h100", "of flavor a100")),
    Case("i15-lower", "plan", ("ml/job-hi start a", "ml/job-low preempt"), movable=True),
    Case(("i15-lower", unset), "plan", ("ml/job-hi wait", "ml/job-low keep"), movable=True),
    Case(("i15-lower", unset), "ml/job-hi", (NO,), ("would preempt",)),
    Case("i14", "plan", ("ml/hi start a", "ml/low preempt"), movable=True),
    Case("i14", "ml/hi", (NO, "kube-scheduler would preempt ml/low to start it")),
    Case("i14b", "plan", ("ml/hi wait", "ml/low keep"), movable=True),
    Case("i14b", "ml/hi", (NO,), ("would preempt",)),
    Case("i14c", "plan", ("ml/hi start a", "ml/low preempt"), movable=True),
    Case("i14d", "plan", ("ml/hi start a", "ml/hi2 wait", "ml/low preempt"), movable=True),
    Case("i14e", "plan", ("ml/hi wait", "ml/low keep"), movable=True),
    Case("i14e", "ml/hi", (NO,), ("would preempt",)),
    Case("mixed", "ml/ephemeral", (NEVER, "of ephemeral-storage per task")),
    Case(("mixed", ports), "ml/hostport", (NO, "hostPort/8080/TCP", "job pods-beside:h100-0 runs")),
    Case("mixed", "ml/aff-gt", ("may go to no node of the round: affinity", "What helps: kubectl")),
    Case("mixed", "aff-gt", ("may go to no node",)),
    Case("mixed", "ml/gaudi-wait", (NOW, "1 node of 8 x habana  1 now"), ("asks for no GPU",)),
    Case("mixed", "ml/kai-frac", ("asks for slices or shares of GPUs",)),
    Case("mixed", "ml/dra-wait", ("asks by resource claims (DRA)",)),
    Case("mixed", "ml/pvc", (f"{SO_FAR}, {NOW}", "volumes and their zones are not read")),
    Case("mixed", "plan", ("amd-wait start mi300-0", "tpu-wait start tpu-0", "gaudi-wait start gau",
                           "neuron-wait start trn-0", "ml/nominated start h100-2"),
         ("start h100-3",)),
    Case("mixed", "convert", ("MIG slices of strategy single: each counts as a GPU: a100-migsingle",
                              "GPUs shared in time: each share counts as a GPU: t4-shared",
                              "the node that its scheduler has nominated is not read (1)",
                              "runs on a node that is not in the round: ml/ghost"),
         ("asks for no GPU: ml/gaudi-wait",)),
    Case("i22b", "js", ("job ml/js (4 x 8 GPUs",)),
    Case("i22b", "ml/js-w-0", ("job ml/js (4 x 8 GPUs",)),
    Case("i22b", "vllm-0-1", ("job ml/vllm-0 (2 x 8 GPUs",)),
    Case("i22b", "ml/vllm-0", (SO_FAR, "that nobody else may be in its domain is not read")),
    Case("i22", "ml/js-w-0", (SO_FAR, "that nobody else may be in its domain is not read")),
    Case("i23", "co", ("its gang has fewer pods than it needs: 3 of 4", "What helps: create")),
    Case("i23", "ml/co-0", ("its gang has fewer pods than it needs: 3 of 4",)),
    Case(("i12", apart), "ml/sp-1", (NO, "pod-anti-affinity/kubernetes.io/hostname only"), (NOW,)),
    Case("dra-b", "ml/w", (NO, "job ml/a runs (1 GPU, pinned)")),
    Case("dra-c", "plan", ("ml/w start n0",)),
    Case("dra-d", "ml/a", (f"{SO_FAR}, {NOW}", "resource claims (DRA)")),
    Case("dra-e", "ml/g", (f"{SO_FAR}, {NOW}", "resource claims (DRA)")),
    Case(("crash", away), "ml/w", (NO, "job gpu-away:h runs (1 GPU, pinned)"), ("when all is",)),
]  # fmt: skip

THREADS = [
    Case("i1", "ml/w", (NO, "asks   1 of pods per task", "job pods-beside:n0 runs")),
    Case("i2", "ml/one", (NO, "kube-scheduler would preempt ml/lo-0-0 to start it")),
    Case("i2", "ml/big", (NO,), ("would preempt",)),
    Case("i3", "ml/job-w", (NEVER, "on nodes that meet tolerated only", "r0  1 now, 1 if empty")),
    Case("i4", "ml/job-high", (NO, "Kueue would preempt ml/job-low to admit it")),
    Case("i4", "plan", ("ml/job-high start n0", "ml/job-low preempt", "toobig wait"), movable=True),
    Case("i5", "ml/job-new", (NO, "cohort co allows 20 GPUs (19 GPUs in use)"), ("would preempt",)),
    Case("i16", "plan", ("ml/job-j1 start", "ml/job-j2 start", "ml/job-j3 wait")),
    Case("i16", "ml/job-j1", (f"{SO_FAR}, {NOW}", UNCOVERED)),
    Case("i17", "ml/job-hi", (NO, "would preempt ml/job-low", "node a0 is closed"),
         ("another GPU model",)),
    Case("i18", "ml/job-eleven", (NEVER, "ClusterQueue a may hold 10 GPUs")),
    Case("i18", "plan", ("ml/job-ten start", "ml/job-eleven wait")),
    Case("i18b", "ml/job-nine", (NEVER, "ClusterQueue a may hold 8 GPUs")),
    Case("i24", "ml/job-pt", (NEVER, "ClusterQueue a may hold 8 GPUs")),
    Case("i21", "ml/pg-rc", (NEVER, "queue team may hold 4 GPUs")),
    Case("i7", "ml/s-0", ("asks for slices or shares of GPUs",)),
    Case("i8", "ml/w", (NO, "job kai-resource-reservation/gpu-reservation-g0-x runs")),
    Case("dra-a", "ml/w", (f"{SO_FAR}, {NOW}", "1 node of 2 x NVIDIA-H100-80GB-HBM3  1 now")),
    Case("dra-a", "plan", ("ml/a keep n0", "ml/w start n0")),
    Case("i9", "plan", ("ml/ga start n000", "ml/gb wait")),
    Case(("i9", half_started), "ml/ga:waiting", (NO, "Deadlock: ml/ga and ml/gb", "stop ml/ga")),
    Case("i10", "ml/g:waiting", (NO, "job ml/g runs (16 GPUs", "job ml/thief runs (8 GPUs")),
    Case("i10", "ml/g:waiting?", ("wait until job ml/thief has ended",), ("until job ml/g has",)),
    Case("i11", "plan", ("ml/wait start n0",)),
    Case("i12", "ml/sp-1", (NO, "topology spread is not read in full"), (NOW,)),
]  # fmt: skip


@pytest.mark.nightly(after=8)
@parametrised(FAULTS)
def test_faults_that_were_reported(case, tmp_path):
    check(case, read(case, tmp_path), kubernetes_script)


@pytest.mark.nightly(after=4)
@parametrised(THREADS)
def test_public_threads(case, tmp_path):
    check(case, read(case, tmp_path), kubernetes_script)


def read(case: Case, folder: Any) -> LiveConversion:
    if isinstance(case.dump, str):
        file = REPORTED / "kubernetes" / f"{case.dump}.json"
        return read_kubernetes([file], movable=case.movable)
    name, edit = case.dump
    return convert(folder, *edit(items(f"kubernetes/{name}.json")), movable=case.movable)


def test_a_page_is_written_of_clusters_with_nodes_without_gpus(tmp_path):
    """A waiting job of one of two GPU models made its corrections end in an internal error."""
    made = convert(tmp_path, *third(items("kubernetes/crash.json")))
    plan = solve_round(made.round, isolation="none")
    assert "allow NVIDIA-A100-SXM4-80GB, too" in render_report(made.round, plan, time_limit=20.0)


@pytest.mark.parametrize(
    ("file", "nodes", "reason"),
    [
        ("args", ["h100-2"], "planned for h100-2"),
        ("args-lower", ["h100-2"], "planned for h100-2"),
        ("args-wait", [], "waits, not_chosen"),
        ("args-leftout", [], "waits, not in the round: may go to no node of the round"),
        ("args-new", [], "waits, in no plan"),
    ],
)
def test_the_extender_says_why_a_pod_waits(file, nodes, reason):
    round_ = read_kubernetes([REPORTED / "kubernetes" / "mixed.json"]).round
    shown = snapshot_of(round_, solve_round(round_, isolation="none"))
    made = Extender()
    made.show(shown.jobs, shown.left_out)
    found = made.filtered(args_of(json.loads(objects(f"kubernetes/{file}.json"))))
    assert found["NodeNames"] == nodes
    assert {reason in one for one in found["FailedAndUnresolvableNodes"].values()} == {True}
