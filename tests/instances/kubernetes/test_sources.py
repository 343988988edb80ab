"""Files as kubectl writes and reads them: several documents, lists, folders, standard input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from placewright.instances.converters import is_dump, read_kubernetes, read_live
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_documents
from tests.instances.kubernetes.dumps import node, pod

LIVE = Path(__file__).parents[4] / "shared" / "data" / "live" / "kubernetes"
OBJECTS = [node("a"), pod("running", host="a"), pod("waiting")]
COMPACT = [json.dumps(one) for one in OBJECTS]
PRETTY = [json.dumps(one, indent=4) for one in OBJECTS]
YAML = [yaml.safe_dump(one) for one in OBJECTS]


def typed(kind: str, *items: object) -> dict[str, object]:
    bare = [{k: v for k, v in one.items() if k not in ("kind", "apiVersion")} for one in items]
    return {"apiVersion": "v1", "kind": f"{kind}List", "items": bare}


WRITTEN = {
    "documents.yaml": "---\n".join(YAML),
    "start-and-comments.yaml": "# made by hand\n---\n" + "\n---  # next\n".join(YAML) + "---\n",
    "windows.yaml": "---\n".join(YAML).replace("\n", "\r\n"),
    "list.yaml": yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": OBJECTS}),
    "typed.yaml": "---\n".join(
        map(yaml.safe_dump, (typed("Node", OBJECTS[0]), typed("Pod", *OBJECTS[1:])))
    ),
    "json-in-yaml.yaml": "\n---\n".join(PRETTY),
    "no-suffix": "---\n".join(YAML),
    "lines.json": "\n".join(COMPACT) + "\n",
    "one-after-the-other.json": "\n".join(PRETTY),
    "array.json": json.dumps(OBJECTS),
    "array-of-lists.json": json.dumps([typed("Node", OBJECTS[0]), typed("Pod", *OBJECTS[1:])]),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_is_read_as_kubectl_writes_it(tmp_path, name):
    file = tmp_path / name
    file.write_text(WRITTEN[name])
    made = read_kubernetes([file])
    assert [host.name for host in made.round.cluster.hosts] == ["a"]
    assert {job.name for job in made.round.jobs} == {"ns/running", "ns/waiting"}


@pytest.mark.parametrize("name", WRITTEN)
def test_so_is_standard_input(monkeypatch, name):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WRITTEN[name].encode())))
    assert len(read_kubernetes(["-"]).round.jobs) == 2


def test_a_folder_is_its_files_and_none_of_folders_below(tmp_path):
    (tmp_path / "nodes.yaml").write_text(YAML[0])
    (tmp_path / "pods.JSON").write_text("\n".join(COMPACT[1:]))
    (tmp_path / "notes.txt").write_text("none")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "x.yaml").write_text("[")
    assert len(read_kubernetes([tmp_path]).round.jobs) == 2
    with pytest.raises(InvalidInputError, match="has no JSON or YAML"):
        read_kubernetes([tmp_path / "nodes.yaml", _empty(tmp_path)])


def _empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def test_documents_are_a_dump_that_audit_takes(tmp_path):
    file = tmp_path / "dump.yaml"
    file.write_text(WRITTEN["documents.yaml"])
    assert is_dump(file)
    assert len(read_live(file).round.jobs) == 2


def test_what_has_no_name_yet_is_called_by_what_its_name_begins_with(tmp_path):
    new = pod("x")
    new["metadata"] = {"generateName": "train-", "namespace": "ns"}
    file = tmp_path / "dump.yaml"
    file.write_text(YAML[0] + "---\n" + yaml.safe_dump(new))
    assert [job.name for job in read_kubernetes([file]).round.jobs] == ["ns/train-"]


def test_an_error_names_the_document_and_its_lines(tmp_path):
    file = tmp_path / "dump.yaml"
    file.write_text("a: 1\n---\nb: [\n")
    with pytest.raises(InvalidInputError, match=r"line 4, column 1"):
        load_documents(file)
    file.write_text(YAML[0] + "---\nkind: 5\n")
    with pytest.raises(InvalidInputError, match=r"dump.yaml: \[1\]\.kind: 5: wrong"):
        read_kubernetes([file])


def test_lines_of_a_text_do_not_cut_a_document(tmp_path):
    file = tmp_path / "text.yaml"
    file.write_text("a: |\n  ---\n  {}\n  {}\nb: '---x'\n")
    assert load_documents(file) == [{"a": "---\n{}\n{}\n", "b": "---x"}]
    file = tmp_path / "text.json"
    file.write_text('{"a": "}\\n{", "b": [{}\n, {}]}')
    assert load_documents(file) == [{"a": "}\n{", "b": [{}, {}]}]


@pytest.mark.parametrize(
    "file",
    [one for one in sorted(LIVE.glob("*/*.yaml")) if one.parent.name != "captured"],
    ids=lambda file: f"{file.parent.name}-{file.stem}",
)
def test_a_public_manifest_has_no_nodes_which_one_line_says(file):
    with pytest.raises(InvalidInputError) as raised:
        read_kubernetes([file])
    text = str(raised.value)
    assert "\n" not in text
    assert "has no nodes, only " in text or "expected what `kubectl get" in text


@pytest.mark.parametrize(
    "file",
    sorted(one for one in LIVE.glob("*/*.yaml") if "\nkind: JobSet" in one.read_text()),
    ids=lambda file: file.stem,
)
def test_a_manifest_beside_nodes_is_read(tmp_path, file):
    (tmp_path / "nodes.yaml").write_text(YAML[0])
    made = read_kubernetes([tmp_path / "nodes.yaml", file])
    assert len(made.round.cluster.hosts) == 1
