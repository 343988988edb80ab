"""KAI's snapshot, a zip: handmade in the form of its plugin, since there is none to take."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from placewright.instances.converters import read_kubernetes
from placewright.instances.errors import InvalidInputError
from tests.instances.kubernetes.dumps import node, pod


def bare(item: Any) -> Any:
    """An object as Go writes it: without its kind."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def packed(folder: Path, content: str, name: str = "snapshot.json") -> Path:
    file = folder / "snapshot.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file


def snapshot() -> dict[str, Any]:
    meta = {"annotations": {"pod-group-name": "g"}}
    objects = {
        "nodes": [bare(node("n0")), bare(node("n1"))],
        "pods": [bare(pod(f"p{i}", 8, meta=meta)) for i in range(2)],
        "queues": [{"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"limit": 4}}}}],
        "podGroups": [
            {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": 2, "queue": "q"}}
        ],
        "bindRequests": None,
        "configMaps": [{"metadata": {"name": "c"}}],
    }
    return {"config": {}, "schedulerParams": {}, "rawObjects": objects}


def test_a_snapshot_is_read_packed_and_unpacked(tmp_path):
    unpacked = tmp_path / "snapshot.json"
    unpacked.write_text(json.dumps(snapshot()))
    made = read_kubernetes([packed(tmp_path, json.dumps(snapshot()))])
    (job,) = made.round.jobs
    assert (job.name, job.tenant, job.options[0].groups[0].count) == ("ns/g", "q", 2)
    assert made.round.tenants[0].quota == {"gpu": 4000}
    assert made.book.left_out["other objects", "configMaps is not read"] == ["c"]
    assert read_kubernetes([unpacked]).round == made.round


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("other.json", "{}", "has no snapshot.json"),
        ("../snapshot.json", "{}", "has no snapshot.json"),
        ("snapshot.json", "0" * 10_000_000, "10,000,000 bytes out of"),
        ("snapshot.json", '{"rawObjects": 3}', "rawObjects: 3: expected an object"),
        ("snapshot.json", '{"rawObjects": {"pods": {}}}', "rawObjects.pods: {}: expected a list"),
        ("snapshot.json", '{"rawObjects": {"no', "expected valid JSON"),
    ],
)
def test_a_zip_that_is_no_snapshot_is_refused_in_one_line(tmp_path, name, content, line):
    file = packed(tmp_path, content, name)
    with pytest.raises(InvalidInputError) as caught:
        read_kubernetes([file])
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_no_zip_is_refused(tmp_path):
    file = tmp_path / "x.zip"
    file.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(InvalidInputError, match="cannot be unpacked"):
        read_kubernetes([file])
