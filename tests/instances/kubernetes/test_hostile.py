"""Dumps that are not what kubectl writes: a line with file, field, value and what is expected."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from examples import examples
from placewright.instances.converters import read_kubernetes
from placewright.instances.converters.kubernetes.convert import convert_kubernetes
from placewright.instances.documents.caveats import hard_caveats
from placewright.instances.errors import InvalidInputError
from tests.instances.kubernetes.dumps import convert, node, pod
from tests.instances.kubernetes.test_kueue import LOCAL, of, queue, workload


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("metadata", "name", "x\x1b[31m"), "items[1].metadata.name: 'x\\x1b[31m': expected only"),
        (("metadata", "name", 7), "items[1].metadata.name: 7: expected a name"),
        (("spec", "containers", {}), "items[1].spec.containers: {}: expected a list"),
        (("spec", "priority", "high"), "items[1].spec.priority: 'high': expected a whole number"),
        (("metadata", "creationTimestamp", "soon"), "creationTimestamp: 'soon': expected a time"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path, change, line):
    section, field, value = change
    wrong = pod("p")
    wrong[section][field] = value
    with pytest.raises(InvalidInputError) as caught:
        convert(tmp_path, node("a"), wrong)
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"apiVersion": "v1", "kind": "List", "items": [{"apiV', "expected valid JSON"),
        ("[]", "has no nodes"),
        ("[3]", "an object"),
        ("{}", "kind: missing"),
        ('{"kind": "List", "apiVersion": "v1", "items": 3}', "items: 3: expected a list"),
        ('{"kind": "List", "apiVersion": "v1", "items": []}', "has no nodes"),
    ],
)
def test_a_file_that_is_no_dump_is_refused_in_one_line(tmp_path, text, line):
    file = tmp_path / "dump.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_kubernetes([file])
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_label_that_no_node_has_is_refused_with_the_most_similar(tmp_path):
    nodes = [node("a", labels={"example.com/rack": "r0"})]
    with pytest.raises(InvalidInputError, match=r"example.com/rak.*did you mean example.com/rack"):
        convert(tmp_path, *nodes, levels=["example.com/rak"])


ODD = (None, -1, 10**30, "x y", "\ud800", [], [[]], ["a b", 7], {"a": []}, True, "*")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, child in value.items() if isinstance(value, dict) else enumerate_list(value):
        yield from leaves(child, (*path, key))


def enumerate_list(value: Any) -> Iterator[tuple[int, Any]]:
    return iter(enumerate(value) if isinstance(value, list) else ())


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = with_value(value[path[0]], path[1:], new)
    return made


def objects() -> list[Any]:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    odd_node = node("n2", labels={"kubernetes.io/hostname": "n2"}, taints=[{"key": "a"}])
    odd_node["status"]["conditions"] = conditions
    meta = {"uid": "u", "labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    meta["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    odd_pod = pod("p", 8, host="n2", meta=meta, priority=4, nodeSelector={"a": "b"})
    odd_pod["spec"]["containers"][0]["ports"] = [{"hostPort": 81, "protocol": "TCP"}]
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    group |= {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": 1}}
    flavor = of("ResourceFlavor", "f", spec={"topologyName": "gke", "nodeLabels": {"a": "b"}})
    topology = of("Topology", "gke", spec={"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
    return [odd_node, odd_pod, group, workload(2), queue("cq", "32"), LOCAL, flavor, topology]


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("kind", [one["kind"] for one in objects()])
def test_where_a_cluster_is_followed_one_odd_object_takes_no_other_with_it(kind):
    """Each value of an object is each odd one, but for those by which the API server knows it."""
    good = [node("n0"), node("n1"), pod("runs", 8, host="n0"), pod("waits", 8)]
    others = [one for one in objects() if one["kind"] != kind]
    (chosen,) = (one for one in objects() if one["kind"] == kind)
    known = ((), ("kind",), ("apiVersion",), ("metadata",), ("metadata", "name"))
    every = list(itertools.product(leaves(chosen), ODD))
    for path, value in every[:: examples(day=4, nightly=1)]:
        if path not in known:
            odd = with_value(chosen, path, value)
            made = convert_kubernetes([*good, *others, odd], "api", movable=True)
            assert {one.name for one in made.round.jobs} >= {"ns/runs", "ns/waits"}, (path, value)


def test_the_gang_and_the_node_of_a_pod_that_cannot_be_read_are_left_alone():
    labels = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    odd, mate = pod("a", 8, host="n0", meta=labels), pod("b", 8, meta=labels)
    odd["spec"]["containers"] = 7
    made = convert_kubernetes([node("n0"), node("n1"), odd, mate, pod("free", 8)], "api")
    assert [one.name for one in made.round.jobs] == ["ns/free"]
    assert [one.host for one in made.round.reservations] == ["n0"]
    (names,) = (n for (_, why), n in made.book.left_out.items() if "spec.containers" in why)
    assert names == ["ns/a", "ns/b"]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("kind", ["PodList", "List"])
def test_a_list_is_refused_at_its_first_wrong_object(tmp_path, kind):
    file = tmp_path / "dump.json"
    head = f'{{"apiVersion": "v1", "kind": "{kind}", "items": ['
    file.write_text(head + "{}," * 100_000 + "{}]}")
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError, match=r"items\[0\]"):
            read_kubernetes([file])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40e6


def test_words_that_nobody_knows_are_told_and_what_is_too_much_is_capped(tmp_path):
    """A taint and a toleration of some later Kubernetes; pods beside the jobs of a full node."""
    odd = node("a", taints=[{"key": "x", "effect": "Never"}])
    later = [{"key": "x", "operator": "Gt", "value": "3", "effect": "NoSchedule"}]
    made = convert(tmp_path, odd, pod("p", tolerations=later))
    for one in (*made.round.jobs, *made.round.cluster.hosts):
        assert "unknown-word" in [caveat.rule for caveat in hard_caveats(one.annotations)]
    much = {"cpu": "900000000", "memory": "900000000Gi"}
    pods = [pod(name, gpus=n, host="a") for name, n in (("job", 1), ("beside", 0))]
    for one in pods:
        one["spec"]["containers"][0]["resources"]["requests"] |= much
    full = node("a")
    full["status"]["allocatable"] |= much
    made = convert(tmp_path, full, *pods, pod("waits"))
    assert any("hold more than the node has: a" in line for line in made.book.lines())


def test_a_wrong_priority_class_is_named_itself(tmp_path):
    meta = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "c"},
    }
    with pytest.raises(InvalidInputError, match=r"items\[2\]\.value: 'x': expected a whole number"):
        convert(tmp_path, node("a"), pod("p"), meta | {"value": "x", "globalDefault": True})
