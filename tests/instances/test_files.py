"""Reading and writing: formats, streams, references to clusters, round trips, digests."""

import hashlib
import io
import json
import math
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.derived import ranges
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io import yaml_json
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import (
    load,
    load_cluster,
    load_plan,
    load_round,
    parse_round,
    write,
)

CLUSTER = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Cluster",
    "levels": ["rack"],
    "domains": [{"name": "r0", "level": "rack"}],
    "hosts": [
        {"name": "h[0-3]", "parent": "r0", "gpus": 8, "gpu_model": "A100", "cpu": 96},
        {"name": "spare", "parent": "r0", "model": "dgx-h100", "healthy": False},
    ],
}
ROUND = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "cluster": CLUSTER,
    "jobs": [
        {"name": "small", "options": [{"groups": [{"gpu": 0.5, "memory": "4Gi"}]}]},
        {
            "name": "held",
            "options": [{"groups": [{"gpu": 2, "cpu": 8}]}],
            "running": {"tasks": [{"host": "h1", "gpus": [0, 1]}]},
        },
    ],
}
YAML_ROUND = """\
# yaml-language-server: $schema=round.json
apiVersion: placewright/v1alpha2
kind: Round
cluster:
  levels: [rack]
  domains: [{name: r0, level: rack}]
  hosts:
    - {name: "h[0-3]", parent: r0, gpus: 8, gpu_model: A100, cpu: 96}
    - {name: spare, parent: r0, model: dgx-h100, healthy: false}
jobs:
  - name: small
    options:
      - groups: [{gpu: 0.5, memory: 4096Mi}]
  - name: held
    options:
      - groups: [{gpu: 2, cpu: 8, count: 1}]
    running: {option: 0, tasks: [{host: h1, gpus: [0, 1]}]}
limits: {time_s: 6e1, gap: 1e-4}
"""
PLAN = Plan(
    decisions=(
        Decision(
            job="a", decision=DecisionKind.START, option=0, tasks=(Task(host="h", gpus=(0,)),)
        ),
    )
)


def saved(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


class Standard:
    """Stands for sys.stdin and sys.stdout, with bytes beneath."""

    def __init__(self, content: bytes = b"") -> None:
        self.buffer = io.BytesIO(content)

    def flush(self) -> None:
        self.buffer.flush()


def test_json_and_yaml_spellings_are_the_same_round(tmp_path):
    from_json = load_round(saved(tmp_path, "r.json", ROUND))
    from_yaml = load_round(saved(tmp_path, "r.yaml", YAML_ROUND))
    assert from_json == from_yaml
    assert round_digest(from_json) == round_digest(from_yaml)
    assert from_json.cluster.hosts[0].cpu == 96_000
    assert from_json.jobs[0].options[0].groups[0].memory == 4096


def test_a_referred_cluster_is_the_same_round_as_an_inline_one(tmp_path):
    (tmp_path / "clusters").mkdir()
    saved(tmp_path / "clusters", "c.yaml", json.dumps(CLUSTER))
    path = saved(tmp_path, "r.json", {**ROUND, "cluster": {"ref": "clusters/c.yaml"}})
    assert load_round(path) == parse_round(ROUND)
    assert round_digest(load_round(path)) == round_digest(parse_round(ROUND))


def test_the_digest_is_the_sha256_of_sorted_json_without_defaults():
    policy = {"terms": ("value", "disruption", "spread", "opened"), "priority": "preemption"}
    hosts = ({"name": "h", "gpus": 0, "memory": None},)
    round_ = Round(cluster=ClusterDocument(hosts=hosts), policy=policy)
    cluster, jobs = '"cluster":{"hosts":[{"gpus":0,"name":"h"}]}', '"jobs":[]'
    text = f'{{{cluster},{jobs},"policy":{{"priority":"preemption"}}}}'
    assert round_digest(round_) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"now": 1},
        {"name": "other"},
        {"jobs": list(reversed(ROUND["jobs"]))},
        {"limits": {"seed": 1}},
        {"cluster": {**CLUSTER, "hosts": CLUSTER["hosts"][:1]}},
    ],
)
def test_the_digest_tells_different_rounds_apart(change):
    assert round_digest(parse_round({**ROUND, **change})) != round_digest(parse_round(ROUND))


def test_load_goes_by_the_kind(tmp_path):
    write(PLAN, tmp_path / "p.json")
    assert load(tmp_path / "p.json") == load_plan(tmp_path / "p.json") == PLAN
    path = saved(tmp_path, "c.json", CLUSTER)
    assert load(path) == load_cluster(path)
    assert isinstance(load(path), ClusterDocument)
    assert isinstance(load(saved(tmp_path, "r.json", ROUND)), Round)


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".yml", ".YAML", ""])
def test_what_is_written_is_read_back(tmp_path, suffix):
    round_ = parse_round(ROUND)
    for document in (round_, round_.cluster, PLAN):
        path = tmp_path / f"file{suffix}"
        write(document, path)
        assert load(path) == document
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_plan_is_written_in_full_and_a_round_without_defaults(tmp_path):
    write(PLAN, tmp_path / "p.json")
    task = json.loads((tmp_path / "p.json").read_text())["decisions"][0]["tasks"][0]
    assert task == {"group": 0, "index": 0, "host": "h", "gpus": [0]}
    write(parse_round(ROUND), tmp_path / "r.json")
    raw = json.loads((tmp_path / "r.json").read_text())
    assert list(raw) == ["apiVersion", "kind", "cluster", "jobs"]


def test_a_byte_order_mark_and_line_ends_of_windows_do_not_matter(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + YAML_ROUND.replace("\n", "\r\n").encode())
    assert load_round(path) == parse_round(ROUND)


@pytest.mark.parametrize("text", [json.dumps(ROUND), "\n " + json.dumps(ROUND), YAML_ROUND])
def test_standard_input_is_json_if_it_starts_with_a_brace_and_else_yaml(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", Standard(text.encode()))
    assert load("-") == parse_round(ROUND)


def test_standard_output_is_written_as_json(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Standard())
    write(PLAN, "-")
    assert json.loads(sys.stdout.buffer.getvalue())["kind"] == "Plan"


def test_a_written_file_keeps_its_mode_and_a_link_to_it(tmp_path):
    target, link = saved(tmp_path, "p.json", "old"), tmp_path / "link.json"
    target.chmod(0o640)
    link.symlink_to(target)
    write(PLAN, link)
    assert link.is_symlink()
    assert load_plan(target) == PLAN
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    write(PLAN, os.devnull)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: done.append("sync") or sync(number))
    monkeypatch.setattr(
        Path, "replace", lambda one, other: done.append("name") or replace(one, other)
    )
    write(parse_round(ROUND), tmp_path / "r.json")
    assert done == ["sync", "name"]
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_an_old_file_stays_when_writing_fails(tmp_path, monkeypatch):
    path = saved(tmp_path, "p.json", "old")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InvalidInputError, match="No space left on device"):
        write(PLAN, path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.json"]


@pytest.mark.parametrize("name", ["missing/p.json", ".", "nul\0.json"])
def test_a_path_that_cannot_be_written_is_one_clear_error(tmp_path, name):
    with pytest.raises(InvalidInputError, match=r"cannot be written .*; expected a file"):
        write(PLAN, f"{tmp_path}/{name}")


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, placewright.instances as i; dir(i)\n"
        "heavy = {'numpy', 'networkx', 'pydantic', 'yaml', 'ortools'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert all(getattr(i, name) for name in i.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_an_unknown_public_name_is_an_attribute_error():
    import placewright.instances

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        placewright.instances.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("~", None),
        ("", None),
        ("'1'", "1"),
        ("012", 12),
        ("-3", -3),
        ("1:30", "1:30"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("1e-4", 1e-4),
        ("-.5", -0.5),
        ("+1.", 1.0),
        ("-.inf", -math.inf),
        (".Inf", math.inf),
        ("2024-01-01", "2024-01-01"),
        ("<<", "<<"),
        ("- 1\n- [a, {b: }]", [1, ["a", {"b": None}]]),
        ("1: a\ntrue: b", {"1": "a", "true": "b"}),
        ("|\n a\n b\n", "a\nb\n"),
    ],
)
def test_yaml_is_read_by_its_core_rules(text, value):
    read = yaml_json.parse_yaml(text)
    assert read == value
    assert type(read) is type(value)


def test_yaml_knows_not_a_number():
    assert math.isnan(yaml_json.parse_yaml(".nan"))


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"))
    | st.from_regex(r"[-+]?[0-9._:xobe+-]{1,6}|[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True)
    | st.sampled_from(["no", "Yes", "null", "~", "<<", "=", "1e5", "08", "0o17", ".inf", ".NaN"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(day=37, nightly=150))
@given(plain_values)
def test_yaml_and_json_give_back_what_was_written(value):
    assert yaml_json.parse_json(json.dumps(value)) == value
    assert yaml_json.parse_yaml(yaml_json.dump_yaml(value)) == value


@settings(max_examples=examples(day=15, nightly=2000))
@given(
    plain_values,
    st.booleans(),
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.sampled_from(
                (
                    *('"', "\\", '\\"', '"a":1,', '"a" : "b",', "{", "]", "-", "e5", "NaN", "\n"),
                    *("\ud800", "\\ud800", "\ufeff", "9" * 4300, "-" + "9" * 4300, "9" * 4301),
                )
            ),
        ),
        max_size=2,
    ),
)
def test_json_is_read_at_once_as_it_is_pair_by_pair(value, ascii_, put_in):
    text = json.dumps(value, ensure_ascii=ascii_, indent=None if ascii_ else 1)
    for where, what in put_in:
        at = round(where * len(text))
        text = text[:at] + what + text[at:]
    assert _read(yaml_json.parse_json, text) == _read(yaml_json._parse_pairs, text)


def _read(parse, text):
    try:
        return repr(parse(text))
    except InvalidInputError as error:
        return str(error)


@pytest.mark.parametrize(
    "text", ['{"a\\"b\\\\": ":8 : {", "c": {"a": ["a"]}}', "[[], 1.5, null, true]", '"x"']
)
def test_usual_json_is_read_at_once(monkeypatch, text):
    monkeypatch.setattr(yaml_json, "_parse_pairs", lambda _text: pytest.fail("read twice"))
    assert yaml_json.parse_json(text) == json.loads(text)


@settings(max_examples=examples(day=25, nightly=100))
@given(st.lists(st.sampled_from(["no", "1e5", "08", "0o17", "1:30", "1_0", "=", "h-1"])))
def test_other_readers_of_yaml_see_written_text_as_text(values):
    assert yaml.safe_load(yaml_json.dump_yaml(values)) == values


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("h", ["h"]),
        ("h[0-2]", ["h0", "h1", "h2"]),
        ("h[008-011]", ["h008", "h009", "h010", "h011"]),
        ("h[9-10]", ["h9", "h10"]),
        ("h[5-5]", ["h5"]),
        ("h[3-2]", []),
    ],
)
def test_a_host_range_keeps_its_zeros(name, hosts):
    assert ranges.expand(name) == hosts
    assert ranges.size(name) == len(hosts)
