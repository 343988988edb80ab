"""The ledgers of fields: complete against official schemas and dialects; what each object says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from placewright.instances.converters.field_page import field_page
from placewright.instances.converters.kubernetes.ledger import LEDGERS as OF_KUBERNETES
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.ledger import Ledger, Reading, Rule
from placewright.instances.converters.slurm.ledger import LEDGERS as OF_SLURM
from placewright.instances.converters.slurm.records import JSON_PARTS
from placewright.instances.documents.caveats import (
    CAVEATS,
    UNKNOWN_FIELD,
    annotation_of,
    caveats_of,
    hard_caveats,
)

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data" / "live"
CRDS = sorted(SHARED.glob("kubernetes/*/*crd*.yaml"))
DUMPS = sorted((ROOT / "tests" / "data" / "slurm").glob("*/*.json"))
DUMPS += sorted(SHARED.glob("slurm/*/partitions*.json"))
CORE = {
    "io.k8s.api.core.v1.Node": Kind("", "Node"),
    "io.k8s.api.core.v1.Pod": Kind("", "Pod"),
    "io.k8s.api.scheduling.v1beta1.PodGroup": Kind("scheduling.k8s.io", "PodGroup"),
    "io.k8s.api.scheduling.v1alpha3.PodGroup": Kind("scheduling.k8s.io", "PodGroup"),
    "io.k8s.api.scheduling.v1.PriorityClass": Kind("scheduling.k8s.io", "PriorityClass"),
    "io.k8s.api.core.v1.ResourceQuota": Kind("", "ResourceQuota"),
    "io.k8s.api.core.v1.LimitRange": Kind("", "LimitRange"),
    "io.k8s.api.node.v1.RuntimeClass": Kind("node.k8s.io", "RuntimeClass"),
    "io.k8s.api.policy.v1.PodDisruptionBudget": Kind("policy", "PodDisruptionBudget"),
    **{
        f"io.k8s.api.resource.{version}.{name}": Kind("resource.k8s.io", name)
        for version in ("v1", "v1beta1", "v1beta2")
        for name in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
    },
}
CLOSED = Rule("closed", "doors are not read")
DOORS = Ledger("houses", "name", "colour", {"door.state": {"closed": CLOSED}, "roof": CLOSED})


@cache
def definitions() -> dict[str, Any]:
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    newest = max(folder.glob("v*-local"), key=lambda path: int(path.name.split(".")[1]))
    found: dict[str, Any] = json.loads((newest / "_definitions.json").read_text())["$defs"]
    return found


def fields_of(
    schema: dict[str, Any], path: str = "", seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield the paths of a JSON schema's leaves; lists have no index, maps are leaves."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            yield from fields_of(definitions()[name], path, seen | {name})
    elif "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from fields_of(inner, f"{path}.{name}".lstrip("."), seen)
    elif "items" in schema:
        yield from fields_of(schema["items"], path, seen)
    else:
        yield path


def missing(ledger: Ledger, schema: dict[str, Any]) -> list[str]:
    return [path for path in fields_of(schema) if path != "metadata" and not ledger.knows(path)]


NAMED = (
    "Node Pod Workload ClusterQueue Cohort LocalQueue ResourceFlavor Topology PodGroup "
    "PriorityClass PodDisruptionBudget JobSet LeaderWorkerSet "
    "ResourceClaim ResourceClaimTemplate ResourceSlice DeviceClass "
    "RuntimeClass ResourceQuota LimitRange"
)


def test_each_kind_that_matters_to_placing_has_a_ledger():
    assert set(NAMED.split()) <= {kind.name for kind in OF_KUBERNETES}


@pytest.mark.parametrize("name", CORE)
def test_the_ledger_has_every_field_of_core_objects(name):
    assert missing(OF_KUBERNETES[CORE[name]], definitions()[name]) == []


@pytest.mark.parametrize("file", CRDS, ids=lambda file: file.stem)
def test_the_ledger_has_every_field_of_custom_resources(file):
    crd = yaml.safe_load(file.read_text())
    kind = Kind(crd["spec"]["group"], crd["spec"]["names"]["kind"])
    if kind not in OF_KUBERNETES:
        pytest.skip("no object that a reader takes")
    for version in crd["spec"]["versions"]:
        assert missing(OF_KUBERNETES[kind], version["schema"]["openAPIV3Schema"]) == []


def paths_in(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all values in an object."""
    for name, inner in value.items():
        yield f"{path}{name}"
        for part in inner if isinstance(inner, list) else [inner]:
            if isinstance(part, dict):
                yield from paths_in(part, f"{path}{name}.")


@pytest.mark.parametrize("file", DUMPS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_ledger_has_every_field_of_each_dialect(file):
    values = json.loads(file.read_text())
    for part, entries in values.items():
        ledger = OF_SLURM.get(part.lower())
        if ledger is not None:
            found = {path for entry in entries for path in paths_in(entry)}
            assert sorted(path for path in found if not ledger.knows(path)) == []


@pytest.mark.parametrize(
    "ledger", [*OF_KUBERNETES.values(), *OF_SLURM.values()], ids=lambda x: x.kind
)
def test_a_field_removed_from_a_table_is_told_as_unknown(ledger):
    path, _ = next(iter(ledger.uses()))
    fewer = Ledger(ledger.kind, ledger.read.replace(path, "", 1), ledger.no_effect, ledger.told)
    assert ledger.knows(path)
    assert not fewer.knows(path)
    raw: Any = "something"
    for name in reversed(path.split(".")):
        raw = {name: raw}
    (caveat,) = Reading(fewer).take(raw)
    assert (caveat.rule, caveat.hard) == (UNKNOWN_FIELD, False)
    assert path in caveat.text


def test_each_part_of_a_dump_of_slurm_has_a_ledger():
    assert set(OF_SLURM) == {*JSON_PARTS, "gres"}


def test_one_path_stands_in_a_table_once():
    with pytest.raises(ValueError, match="name is in the table twice"):
        Ledger("houses", "name", "name")
    with pytest.raises(TypeError, match=r"name\.first is below another path"):
        Ledger("houses", "name", "name.first")


@pytest.mark.parametrize(
    ("raw", "rules"),
    [
        ({"door": {"state": "open"}}, []),
        ({"door": [{"state": "open"}, {"state": "closed"}]}, ["closed"]),
        ({"door": None, "roof": []}, []),
        ({"roof": {"set": False, "infinite": False, "number": 5}}, []),
        ({"roof": {"set": True, "infinite": True, "number": 0}}, []),
        ({"roof": {"set": True, "infinite": False, "number": 5}}, ["closed"]),
        ({"roof": {"left": {"tiles": 0}, "right": []}}, []),
        ({"door": "ajar"}, [UNKNOWN_FIELD]),
        ({"chimney": {}}, []),
        ({"chimney": 1}, [UNKNOWN_FIELD]),
        (["name"], []),
    ],
)
def test_what_says_something_is_told(raw, rules):
    assert [one.rule for one in Reading(DOORS).take(raw)] == rules


def test_a_line_has_the_sum_of_a_kind():
    reading = Reading(DOORS)
    for raw in ({"name": "a", "roof": 1}, {"name": "b", "colour": "red", "roof": 2, "moat": 3}):
        reading.take(raw)
    assert reading.line() == (
        "fields of houses: 1 read, 1 of no effect on placement; doors are not read (2); "
        "unknown fields (moat) are not read"
    )


def test_caveats_are_an_annotation():
    caveats = Reading(DOORS).take({"roof": 1, "moat": 2})
    notes = annotation_of((*caveats, *caveats))
    assert caveats_of(notes) == caveats
    assert hard_caveats(notes) == caveats[:1]
    assert annotation_of(()) == {}


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 10_000, '[{"rule": "x"}]', "null"])
def test_what_is_no_list_of_caveats_is_none(text):
    assert caveats_of({CAVEATS: text}) == ()


def test_the_page_is_made_from_the_tables():
    assert (ROOT / "docs" / "fields.md").read_text() == field_page()
