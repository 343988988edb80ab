"""DRA: slices give nodes GPUs, allocated claims hold them, claims that wait ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.converters.kubernetes.convert import convert_kubernetes
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.errors import InvalidInputError
from tests.instances.kubernetes.dumps import GPU, convert, left_out, node, pod

DRIVER = "gpu.nvidia.com"
API = {"apiVersion": "resource.k8s.io/v1"}
CEL = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"


def resource_slice(host: str, count: int = 2, generation: int = 1, **device: Any) -> Any:
    attributes = {"productName": {"string": "NVIDIA H100"}, "type": {"string": "gpu"}}
    devices = [{"name": f"gpu-{i}", "attributes": attributes, **device} for i in range(count)]
    pool = {"name": host, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": host, "pool": pool, "devices": devices}
    name = f"{host}-{generation}"
    return API | {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def device_class(expression: str = CEL) -> Any:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return API | {"kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": spec}


def claim(name: str, *held: str, host: str = "a", more: Any = None, **request: Any) -> Any:
    exactly = {"deviceClassName": DRIVER, "count": 1, "allocationMode": "ExactCount"} | request
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]} | (more or {})}
    results = [{"driver": DRIVER, "pool": host, "device": one, "request": "gpu"} for one in held]
    status = {"allocation": {"devices": {"results": results}}} if held else {}
    meta = {"name": name, "namespace": "ns"}
    return API | {"kind": "ResourceClaim", "metadata": meta, "spec": spec, "status": status}


def user(name: str, claimed: str, host: str | None = None) -> Any:
    claims = [{"name": "gpu", "resourceClaimName": claimed}]
    return pod(name, 0, host=host, resourceClaims=claims)


def jobs(made: Any) -> dict[str, tuple[int, bool, list[str]]]:
    return {
        job.name: (
            job.options[0].groups[0].gpu // 1000,
            job.running is not None,
            [one.rule for one in caveats_of(job.annotations)],
        )
        for job in made.round.jobs
    }


def test_claims_of_a_node_that_has_its_gpus_by_slices(tmp_path):
    pods = [user("r", "held", "a"), user("w", "wanted")]
    claims = [claim("held", "gpu-0"), claim("wanted", count=2)]
    made = convert(tmp_path, node("a", gpus=0), resource_slice("a"), device_class(), *pods, *claims)
    (host,) = made.round.cluster.hosts
    assert (host.gpus, host.gpu_model) == (2, "NVIDIA-H100")
    assert jobs(made) == {"ns/r": (1, True, []), "ns/w": (2, False, [])}


def test_a_claim_that_pods_share_is_counted_once(tmp_path):
    pods = [user("r", "held", "a"), user("s", "held", "a")]
    made = convert(tmp_path, node("a", gpus=0), resource_slice("a"), *pods, claim("held", "gpu-0"))
    assert jobs(made) == {"ns/r": (1, True, [])}
    assert made.round.reservations == ()


def test_a_claim_made_of_a_template_asks(tmp_path):
    template = API | {"kind": "ResourceClaimTemplate", "metadata": {"name": "t", "namespace": "ns"}}
    template["spec"] = {"spec": claim("x")["spec"]}
    waits = pod("w", 0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    made = convert(
        tmp_path, node("a", gpus=0), resource_slice("a"), device_class(), waits, template
    )
    assert jobs(made) == {"ns/w": (1, False, [])}


def test_a_claim_that_no_pod_of_the_dump_has_holds_its_gpus(tmp_path):
    made = convert(tmp_path, node("a", gpus=0), resource_slice("a"), claim("held", "gpu-0"))
    assert jobs(made) == {"gpu-away:a": (1, True, [])}


def test_a_gpu_of_which_a_part_is_held_is_away(tmp_path):
    made = convert(tmp_path, node("a", gpus=0), resource_slice("a"), claim("held", "gpu-0-mig-1"))
    assert jobs(made) == {"gpu-away:a": (1, True, [])}


def test_a_class_that_the_dump_lacks_is_a_guess_that_is_told(tmp_path):
    made = convert(
        tmp_path, node("a", gpus=0), resource_slice("a"), user("w", "wanted"), claim("wanted")
    )
    assert jobs(made) == {"ns/w": (1, False, ["resource-claims"])}


@pytest.mark.parametrize(
    "request_",
    [
        {"allocationMode": "All"},
        {"selectors": [{"cel": {"expression": "true"}}]},
        {"adminAccess": True},
        {"capacity": {"requests": {"memory": "10Gi"}}},
        {"deviceClassName": "rdma"},
        {"count": 0},
    ],
)
def test_what_is_more_than_a_number_of_gpus_is_left_out_and_said(tmp_path, request_):
    made = convert(
        tmp_path,
        *(node("a", gpus=0), resource_slice("a"), device_class()),
        *(user("w", "wanted"), claim("wanted", **request_)),
    )
    assert left_out(made) == {"asks by resource claims (DRA)": ["ns/w"]}


def test_a_class_of_some_gpus_alone_is_left_out_and_said(tmp_path):
    some = device_class(f"{CEL} && device.attributes['{DRIVER}'].memory > 40")
    waits = [user("w", "wanted"), claim("wanted")]
    made = convert(tmp_path, node("a", gpus=0), resource_slice("a"), some, *waits)
    assert left_out(made) == {"asks by resource claims (DRA)": ["ns/w"]}


def test_a_claim_that_is_bound_by_more_asks_and_is_told(tmp_path):
    waits = [user("w", "c"), claim("c", count=2, more={"constraints": [{"matchAttribute": "x/y"}]})]
    made = convert(tmp_path, node("a", gpus=0), resource_slice("a"), device_class(), *waits)
    assert jobs(made) == {"ns/w": (2, False, ["resource-claims"])}


@pytest.mark.parametrize(("gpus", "closed"), [(8, False), (6, True)])
def test_gpus_of_a_device_plugin_that_are_those_of_slices_are_held_by_claims(
    tmp_path, gpus, closed
):
    users = [user("r", "held", "a"), user("s", "held", "a")]
    pods = [*users, claim("held", "gpu-0", "gpu-1"), pod("p", 1)]
    made = convert(tmp_path, node("a", gpus=gpus), resource_slice("a", 8), device_class(), *pods)
    assert bool(made.round.reservations) is closed
    if not closed:
        assert jobs(made) == {"ns/r": (2, True, ["resource-claims"]), "ns/p": (1, False, [])}


def test_gpus_of_a_device_plugin_and_others_of_slices_are_both_of_the_node(tmp_path):
    both = node("a", gpus=4, labels={"nvidia.com/gpu.count": "8"})
    pods = [user("r", "held", "a"), claim("held", "gpu-0"), pod("p", 4)]
    waits = [user("w", "wanted"), claim("wanted", count=4)]
    made = convert(tmp_path, both, resource_slice("a", 4), device_class(), *pods, *waits)
    (host,) = made.round.cluster.hosts
    assert (host.gpus, host.resources[f"dra/{DRIVER}"]) == (4, 4)
    assert made.round.reservations == ()
    assert {job.name: job.options[0].value for job in made.round.jobs} == {
        "ns/r": 1000,
        "ns/w": 4000,
        "ns/p": None,
    }


def test_a_class_says_which_resource_its_gpus_are(tmp_path):
    named = device_class()
    named["spec"]["extendedResourceName"] = GPU
    runs = pod("r", 2, host="a")
    runs["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "made"}
    made_for = claim("made", "gpu-0", "gpu-1")
    waits = [pod("p", 6), user("w", "wanted"), claim("wanted", count=3)]
    made = convert(
        tmp_path, node("a", gpus=0), resource_slice("a", 8), named, runs, made_for, *waits
    )
    assert made.round.cluster.hosts[0].gpus == 8
    assert not any(found[2] for found in jobs(made).values())
    assert {name: found[:2] for name, found in jobs(made).items()} == {
        "ns/r": (2, True),
        "ns/p": (6, False),
        "ns/w": (3, False),
    }


def test_a_pod_that_claims_gpus_and_a_network_card_asks_for_its_gpus(tmp_path):
    cards = device_class('device.driver == "dra.net"')
    cards["metadata"]["name"] = "nic"
    nic = claim("nic", deviceClassName="nic")
    waits = user("w", "wanted")
    waits["spec"]["resourceClaims"].append({"name": "nic", "resourceClaimName": "nic"})
    objects = [device_class(), cards, nic, claim("wanted", count=2)]
    made = convert(tmp_path, node("a", gpus=0), resource_slice("a"), waits, *objects)
    assert jobs(made) == {"ns/w": (2, False, ["resource-claims"])}


def test_a_claim_of_a_network_card_closes_no_node(tmp_path):
    card = claim("card", "nic-0")
    card["status"]["allocation"]["devices"]["results"][0]["driver"] = "dra.net"
    with_gpu = pod("g", host="a", resourceClaims=[{"name": "n", "resourceClaimName": "card"}])
    made = convert(tmp_path, node("a"), resource_slice("b"), user("r", "card", "a"), card, with_gpu)
    assert made.round.reservations == ()
    assert jobs(made) == {"ns/g": (1, True, ["resource-claims"])}


def test_where_a_claim_that_the_dump_lacks_is_held_nothing_arrives(tmp_path):
    made = convert(tmp_path, node("a"), user("r", "gone", "a"))
    assert [one.host for one in made.round.reservations] == ["a"]


def test_devices_of_an_old_pool_do_not_count_and_tainted_ones_are_away(tmp_path):
    slices = [resource_slice("a", 8), resource_slice("a", 2, generation=2, taints=[{"key": "x"}])]
    made = convert(tmp_path, node("a", gpus=0), *slices)
    assert made.round.cluster.hosts[0].gpus == 2
    assert jobs(made) == {"gpu-away:a": (2, True, [])}


def test_gpus_of_claims_and_of_a_device_plugin_do_not_add_up(tmp_path):
    nodes = [node("a", gpus=0), node("b")]
    made = convert(
        tmp_path, *nodes, resource_slice("a"), device_class(), user("w", "wanted"), claim("wanted")
    )
    (job,) = made.round.jobs
    group = job.options[0].groups[0]
    assert group.gpu_models == ("NVIDIA-H100",) or group.host_sets or group.hosts


@pytest.mark.parametrize("junk", [None, 3, "x", [], [3], {"devices": 3}, {"devices": [{}]}])
def test_junk_is_no_device(tmp_path, junk):
    odd = [one | {"spec": junk} for one in (resource_slice("a"), device_class(), claim("wanted"))]
    items = [node("a"), *odd, user("w", "wanted")]
    assert convert_kubernetes(items, "here").round.jobs == ()
    if junk not in (None, [], {"devices": [{}]}):
        left = convert_kubernetes(items, "here").book.left_out
        assert any(kind == "resource slices" for kind, _ in left)
        with pytest.raises(InvalidInputError, match=r"spec.*: expected an? "):
            convert(tmp_path, *items)


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("spec", "driver"), {"x": 1}, "spec.driver: {'x': 1}: expected a text"),
        (("spec", "nodeName"), 7, "spec.nodeName: 7: expected a text"),
        (("spec", "pool", "generation"), "1", "spec.pool.generation: '1': expected a whole number"),
        (("spec", "pool"), "x", "spec.pool: 'x': expected an object"),
        (("spec", "devices", 0, "attributes"), 7, "devices[0].attributes: 7: expected an object"),
        (
            ("spec", "devices", 0, "attributes", "type", "string"),
            7,
            "devices[0].attributes.type.string: 7: expected a text",
        ),
    ],
)
def test_a_wrong_value_of_a_slice_is_no_device_less_in_silence(tmp_path, path, value, line):
    wrong = resource_slice("a")
    at = wrong
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(InvalidInputError) as caught:
        convert(tmp_path, node("a", gpus=0), wrong)
    assert line in str(caught.value)


@pytest.mark.parametrize("junk", [None, 3, "x", [3], {"labels": [3]}, {"allocatable": [3]}])
def test_junk_beside_devices_is_refused_or_read_and_no_error_of_ours(tmp_path, junk):
    for part, field in (("status", "allocatable"), ("status", ""), ("spec", "overhead")):
        odd = [node("a", gpus=0), user("w", "wanted")]
        for one in odd:
            one[part] = {**one[part], field: junk} if field else junk
        try:
            convert(tmp_path, *odd, resource_slice("a"), device_class(), claim("wanted"))
        except InvalidInputError as error:
            assert "expected" in str(error)
