"""Which resources are GPUs, that names never add up, and what else a node may run out of."""

from __future__ import annotations

import pytest

from placewright import explain_job, solve_round
from placewright.explain.explanation import Verdict
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.documents.plan import DecisionKind
from tests.instances.kubernetes.dumps import GPU, allowed_hosts, convert, left_out, node, pod


def machine(name, amounts, *, capacity=None, labels=None):
    made = node(name, gpus=0, labels=labels)
    made["status"]["allocatable"] |= amounts
    if capacity is not None:
        made["status"]["capacity"] = made["status"]["allocatable"] | capacity
    return made


def asks(name, amounts, *, host=None, **spec):
    made = pod(name, 0, host=host, **spec)
    made["spec"]["containers"][0]["resources"]["requests"] |= amounts
    return made


def started(made):
    plan = solve_round(made.round, isolation="none", time_limit=5)
    kinds = zip(made.round.jobs, plan.decisions, strict=True)
    return {job.name for job, one in kinds if one.decision is DecisionKind.START}


NAMES = (
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "google.com/tpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/gpu.shared",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_pod_goes_only_where_its_resource_is(tmp_path, name):
    nodes = [node("n"), machine("other", {name: "8"})]
    made = convert(tmp_path, *nodes, asks("a", {name: 8}), asks("b", {name: 1}), pod("c", 8))
    assert allowed_hosts(made, "ns/a") in ({"other"}, None)
    plan = solve_round(made.round, isolation="none", time_limit=5)
    hosts = {
        job.name: {task.host for task in one.tasks}
        for job, one in zip(made.round.jobs, plan.decisions, strict=True)
    }
    assert hosts["ns/a"] | hosts["ns/b"] <= {"other"}
    assert hosts["ns/c"] == {"n"}
    assert len(started(made)) == 2


def test_a_part_of_a_gpu_is_no_gpu_of_that_model(tmp_path):
    labels = {"nvidia.com/gpu.product": "A100"}
    slices = machine("s", {"nvidia.com/mig-3g.40gb": "2"}, labels=labels)
    made = convert(tmp_path, node("n", labels=labels), slices, pod("a"))
    assert [host.gpu_model for host in made.round.cluster.hosts] == ["A100", "A100:mig-3g.40gb"]


def test_a_resource_that_is_named_counts(tmp_path):
    nodes = [machine("n", {"example.com/npu": "4"}, labels={"npu-model": "X1"}), node("g")]
    waits = asks("a", {"example.com/npu": 4})
    why = "asks for no GPU that is known, but example.com/npu (see --accelerator)"
    assert left_out(convert(tmp_path, *nodes, waits)) == {why: ["ns/a"]}
    made = convert(tmp_path, *nodes, waits, accelerators={"example.com/npu": "npu-model"})
    assert {host.gpu_model for host in made.round.cluster.hosts} == {"X1", "nvidia"}
    assert started(made) == {"ns/a"}


def test_a_pod_that_holds_gpus_of_another_resource_closes_its_node(tmp_path):
    made = convert(tmp_path, node("n"), asks("a", {"amd.com/gpu": 1}, host="n"), pod("b"))
    assert left_out(made) == {"holds GPUs of another resource than those of its node": ["ns/a"]}
    assert started(made) == set()


def test_a_node_whose_places_for_pods_are_taken_takes_no_more(tmp_path):
    full = machine("n", {GPU: "8", "pods": "3"})
    made = convert(tmp_path, full, *(pod(f"p{i}", 0, host="n") for i in range(3)), pod("w"))
    assert started(made) == set()
    found = explain_job(made.round, None, "ns/w", time_limit=5)
    assert found.verdict is Verdict.NOT_NOW  # not for ever: pods end
    room = machine("n", {GPU: "8", "pods": "4"})
    made = convert(tmp_path, room, *(pod(f"p{i}", 0, host="n") for i in range(3)), pod("w"))
    assert started(made) == {"ns/w"}


def test_what_every_node_has_enough_of_is_not_in_the_round(tmp_path):
    made = convert(tmp_path, machine("n", {GPU: "8", "pods": "110"}), pod("a"))
    assert made.round.cluster.hosts[0].resources == {}


@pytest.mark.parametrize(
    ("key", "there", "asked", "fits"),
    [
        ("ephemeral-storage", "100Gi", "60Gi", 1),
        ("hugepages-2Mi", "4Gi", "2Gi", 2),
        ("example.com/nic", "3", "1", 3),
    ],
)
def test_other_resources_of_a_node_are_limits(tmp_path, key, there, asked, fits):
    n = machine("n", {GPU: "8", key: there})
    made = convert(tmp_path, n, *(asks(f"p{i}", {GPU: 1, key: asked}) for i in range(4)))
    assert len(started(made)) == fits


def test_a_port_of_the_host_is_taken_once(tmp_path):
    def serves(name, port, host=None, protocol="TCP"):
        made = pod(name, 1, host=host)
        made["spec"]["containers"][0]["ports"] = [{"hostPort": port, "protocol": protocol}]
        return made

    pods = [serves("a", 80, "n"), serves("b", 80), serves("c", 81), serves("d", 80, None, "UDP")]
    assert started(convert(tmp_path, node("n"), *pods)) == {"ns/c", "ns/d"}


def test_gpus_that_are_not_allocatable_are_away_and_not_gone(tmp_path):
    broken = machine("n", {GPU: "7"}, capacity={GPU: "8"})
    made = convert(tmp_path, broken, pod("a", 8))
    assert made.round.cluster.hosts[0].gpus == 8
    found = explain_job(made.round, None, "ns/a", time_limit=5)
    assert found.verdict is Verdict.NOT_NOW
    assert started(convert(tmp_path, broken, pod("a", 7))) == {"ns/a"}
    # A pod may go on with a GPU that is away.
    made = convert(tmp_path, broken, pod("r", 8, host="n"))
    assert [job.name for job in made.round.jobs] == ["ns/r"]


MIG = "nvidia.com/mig-"


def test_slices_of_several_kinds_on_a_node_are_resources_of_it(tmp_path):
    amounts = {GPU: "4", f"{MIG}3g.40gb": "2", f"{MIG}1g.10gb": "1"}
    nodes = [machine("a", amounts), machine("b", {f"{MIG}3g.40gb": "1"})]
    runs = asks("r", {f"{MIG}3g.40gb": 1}, host="a")
    waits = [
        asks("two", {f"{MIG}3g.40gb": 2}),
        asks("both", {f"{MIG}3g.40gb": 1, f"{MIG}1g.10gb": 1}),
        asks("beside", {GPU: 4, "cpu": "1"}),
        asks("other", {f"{MIG}3g.40gb": 1}),
    ]
    made = convert(tmp_path, *nodes, runs, *waits)
    assert [host.gpus for host in made.round.cluster.hosts] == [4, 0]
    assert made.round.reservations == ()
    assert left_out(made) == {}
    assert started(made) == {"ns/both", "ns/beside", "ns/other"}


def test_slices_of_one_kind_alone_count_as_gpus(tmp_path):
    made = convert(tmp_path, machine("a", {f"{MIG}3g.40gb": "2"}), asks("w", {f"{MIG}3g.40gb": 2}))
    assert made.round.cluster.hosts[0].gpus == 2
    assert started(made) == {"ns/w"}


def test_memory_of_a_shared_gpu_is_a_share_though_a_gpu_is_asked(tmp_path):
    shared = asks("w", {GPU: 1, "nvidia.com/gpumem": 3000})
    made = convert(tmp_path, node("a"), shared)
    assert left_out(made) == {"asks for slices or shares of GPUs": ["ns/w"]}


def test_that_neuron_cores_are_of_the_devices_beside_is_told(tmp_path):
    neuron = "aws.amazon.com/neuron"
    both = machine("a", {neuron: "2", f"{neuron}core": "4"})
    made = convert(tmp_path, both, asks("c", {f"{neuron}core": 4}), asks("d", {neuron: 2}))
    rules = {job.name: [one.rule for one in caveats_of(job.annotations)] for job in made.round.jobs}
    assert rules == {"ns/c": ["same-devices"], "ns/d": []}
