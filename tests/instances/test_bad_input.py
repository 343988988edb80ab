"""Bad input gets one clear error that names file, path, value and what was expected."""

import copy
import io
import json
import os
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances import load, load_cluster, load_plan, load_round, round_digest
from placewright.instances.errors import InvalidInputError, printable
from placewright.instances.io.files import parse_plan, parse_round

HEAD = {"apiVersion": "placewright/v1alpha2", "kind": "Round"}
ROUND: dict[str, Any] = {
    **HEAD,
    "cluster": {
        "levels": ["rack"],
        "domains": [{"name": "r0", "level": "rack"}],
        "hosts": [
            {"name": "h[0-1]", "parent": "r0", "gpus": 8, "gpu_model": "A100", "cpu": 96},
            {"name": "h2", "parent": "r0", "model": "dgx-a100", "memory": "4Gi"},
        ],
        "links": {"rack": {"bandwidth_mbps": 400_000, "latency_us": 1.5}},
    },
    "tenants": [{"name": "t", "quota": {"gpu": 8}}],
    "reservations": [{"host": "h0", "gpus": [7]}],
    "policy": {
        "terms": ["value", "spread", "remaining", "freed"],
        "spread_weights": {"rack": 1},
        "vacate": ["h1"],
        "freeing": {"level": "rack", "gpu_worth_s": 60},
        "backfill": {"depth": "all"},
    },
    "limits": {"time_s": 1.0, "gap": 0.1, "seed": 7},
    "now": 5,
    "jobs": [
        {
            "name": "a",
            "tenant": "t",
            "weight": 2,
            "options": [
                {"groups": [{"gpu": 8, "count": 2, "required": "rack", "cpu": 0.001}], "value": 3}
            ],
        },
        {
            "name": "b",
            "options": [{"groups": [{"gpu": 0.5, "gpu_models": ["A100"]}]}],
            "running": {
                "tasks": [{"host": "h1", "gpus": [0]}],
                "pinned": False,
                "checkpoint": 3,
                "restart_s": 60,
                "preempt_cost": 10**6,
            },
        },
    ],
}
_TOGETHER = {"tasks": [{"host": "h0", "gpus": [0]}]}
TURNS: dict[str, Any] = {  # a round of jobs that take turns on GPUs
    **HEAD,
    "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 8, "gpu_model": "A100", "gpu_memory": "9Mi"}]},
    "sharing": {
        "resources": ["io", "gpu", "t"],
        "spanning": True,
        "contention": [1_100_000, 1_200_000, 1_300_000],
        "conflicts": [["a", "b"]],
        "correlation": 500,
        "percentile": 90,
    },
    "policy": {"formulation": "interleaving"},
    "jobs": [
        {
            "name": "a",
            "options": [{"groups": [{"gpu": 1, "gpu_memory": "2Mi"}]}],
            "profile": {
                "stages": [5, 0, 2],
                "load": [1, 9, 3],
                "memory": ["1Mi", "2Mi"],
                "slowdown": 1500,
            },
            "running": _TOGETHER,
        },
        {
            "name": "b",
            "options": [{"groups": [{"gpu": 1, "cpu": 0, "memory": 0}]}],
            "profile": {
                "stages": [1, 7, 2],
                "iteration": 9,
                "sensitivity": {"cores": [0, 0.005], "memory": [0], "speeds": [[10**6], [10**7]]},
            },
            "running": _TOGETHER,
        },
    ],
}
PLAN: dict[str, Any] = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Plan",
    "round": "0" * 64,
    "decisions": [
        {"job": "a", "decision": "start", "option": 0, "tasks": [{"host": "h0", "gpus": [0]}]},
        {"job": "b", "decision": "wait", "reason": "capacity"},
    ],
    "sections": [{"kind": "groups", "x": [1.5]}],
    "certificate": {
        "status": "feasible",
        "gap": None,
        "terms": [{"name": "value", "sense": "max", "value": 3, "bound": 4.5}],
        "backend": "highs",
        "versions": {"highs": "1"},
        "seed": 0,
    },
}
GROUP = "jobs.0.options.0.groups.0"
INF, NAN = float("inf"), float("nan")


def changed(raw: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    raw = copy.deepcopy(raw)
    *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = raw
    for part in parts:
        place = place[part]
    place[last] = value
    return raw


def refusal(path: Path | str, read=load) -> str:
    """Return the first error, without its file, line and the name of its entry.

    Each must be one line that starts with the file.
    """
    with pytest.raises(InvalidInputError) as caught:
        read(path)
    start = re.compile(re.escape(printable(str(path))) + r"(:[0-9]+)?: ")
    messages = str(caught.value).split("\n")
    for message in messages:
        assert start.match(message)
        assert "expected" in message
        assert message.isprintable()
        assert len(message) < 700
    entry = re.compile(r'^([a-z]+\[[0-9]+\]) "([^"\\]|\\.)*"')
    return entry.sub(r"\1", start.sub("", messages[0], count=1))


def refused_file(folder: Path, content: bytes | str, name: str = "r.yaml", read=load) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return refusal(path, read)


def test_the_documents_that_these_tests_change_are_valid():
    parse_round(ROUND)
    parse_plan(PLAN)


VALUES = [
    (f"{GROUP}.count", -1, "-1: expected at least 1"),
    (f"{GROUP}.count", 0, "0: expected at least 1"),
    (f"{GROUP}.count", 1.5, "1.5: expected an integer"),
    (f"{GROUP}.count", 2.0, "2.0: expected an integer"),
    (f"{GROUP}.count", True, "True: expected an integer"),
    (f"{GROUP}.count", "2", "'2': expected an integer"),
    (f"{GROUP}.count", 10**9, "1000000000: expected at most 100000"),
    (f"{GROUP}.count", 10**400, "100000000000000000000000000000000000000000000000000000000...:"),
    (f"{GROUP}.count", NAN, "nan: expected an integer"),
    (f"{GROUP}.count", INF, "inf: expected an integer"),
    (f"{GROUP}.count", None, "None: expected an integer"),
    (f"{GROUP}.gpu", 1.5, "1.5: expected a share of one GPU, up to 1, or a whole number of"),
    (f"{GROUP}.gpu", -1, "-1: expected 0 to 1000000"),
    (f"{GROUP}.gpu", 2 * 10**6, "2000000: expected 0 to 1000000"),
    (f"{GROUP}.gpu", True, "True: expected GPUs as a number of at most three decimals"),
    (f"{GROUP}.gpu", NAN, "nan: expected GPUs as a number of at most three decimals"),
    (f"{GROUP}.cpu", "8k", "'8k': expected cores as a number of at most three decimals"),
    (f"{GROUP}.cpu", "1.5m", "'1.5m': expected cores as a number"),
    (f"{GROUP}.cpu", 0.0005, "0.0005: expected cores as a number"),
    (f"{GROUP}.cpu", "1e3", "'1e3': expected cores as a number"),
    (f"{GROUP}.cpu", "٣m", "'٣m': expected cores as a number"),
    (f"{GROUP}.memory", "4", "'4': expected a whole number of MiB with a suffix"),
    (f"{GROUP}.memory", 4096, "4096: expected a whole number of MiB with a suffix"),
    (f"{GROUP}.memory", True, "True: expected a whole number of MiB with a suffix"),
    (f"{GROUP}.memory", "4GB", "'4GB': expected a whole number of MiB"),
    (f"{GROUP}.memory", "1Ki", "'1Ki': expected a whole number of MiB"),
    (f"{GROUP}.memory", "4Gi\n", "'4Gi\\n': expected a whole number of MiB"),
    (f"{GROUP}.memory", "999999999Pi", "'999999999Pi': expected at most 976562500Gi"),
    (f"{GROUP}.gpu_models", [], "[]: expected at least 1 in the list"),
    (f"{GROUP}.gpu_models", "A100", "'A100': expected a list"),
    (
        f"{GROUP}.resources",
        {"cpu": 1},
        "{'cpu': 1}: 'cpu' has a field of its own; expected other",
    ),
    (f"{GROUP}.resources", [], "[]: expected a mapping"),
    (
        f"{GROUP}.gpus",
        1,
        "1: unknown field; expected one of apart, communication, count, cpu, gpu,",
    ),
    ("jobs.0.name", "", "'': expected at least 1 character"),
    ("jobs.0.name", "a b", "'a b': expected only letters, digits and any of . _ : / @ | + = -"),
    ("jobs.0.name", "a\n", "'a\\n': expected only letters, digits"),
    ("jobs.0.name", "a" * 300, f"'{'a' * 56}...: expected at most 253 characters"),
    ("jobs.0.name", 5, "5: expected text"),
    ("jobs.0.name", "\ud800", "'\\ud800': expected valid Unicode text"),
    ("jobs.0.options", [], "[]: expected at least 1 in the list"),
    ("jobs.0.options.0.groups", [], "[]: expected at least 1 in the list"),
    ("jobs.0.options.0.value", -1, "-1: expected at least 0"),
    ("jobs.0.weight", 10**7, "10000000: expected at most 1000000"),
    ("jobs.0.priority", 1e3, "1000.0: expected an integer"),
    ("jobs", {"a": 1}, "{'a': 1}: expected a list"),
    ("jobs.1", 7, "7: expected a mapping"),
    ("jobs.1.running.tasks", [], "[]: expected at least 1 in the list"),
    ("jobs.1.running.pinned", 1, "1: expected true or false"),
    ("jobs.1.running.checkpoint", -1, "-1: expected at least 0"),
    ("jobs.1.running.checkpoint", 1.5, "1.5: expected an integer"),
    ("jobs.1.running.restart_s", -1, "-1: expected at least 0"),
    ("jobs.1.running.migrate_cost", "1h", "'1h': expected an integer"),
    ("jobs.1.running.preempt_cost", 10**13, "10000000000000: expected at most 1000000000000"),
    ("reservations.0.gpus", [], "[]: expected at least 1 in the list"),
    ("reservations.0.gpus.0", -1, "-1: expected at least 0"),
    ("reservations.0.host", "h 0", "'h 0': expected only letters, digits and any of . _ : / @"),
    ("reservations.0.gpu", 7, "7: unknown field; expected one of gpus, host"),
    ("policy.vacate", "h0", "'h0': expected a list"),
    ("policy.vacate.0", "h[0-1", "'h[0-1': expected only letters, digits and any of . _ : / @"),
    ("policy.freeing.gpu_worth_s", 0, "0: expected at least 1"),
    ("policy.freeing.gpu_worth_s", 1.5, "1.5: expected an integer"),
    ("policy.freeing.level", 1, "1: expected text"),
    ("policy.backfill.depth", 0, '0: expected a whole number from 1 to 100000, or "all"'),
    ("policy.backfill.depth", "some", "'some': expected a whole number from 1 to 100000, or"),
    ("policy.backfill.depth", True, "True: expected a whole number from 1 to 100000, or"),
    ("cluster.hosts", [], "[]: expected at least 1 in the list"),
    ("cluster.hosts.0.name", "h[0-1]x", "'h[0-1]x': expected only letters, digits and any of . _"),
    ("cluster.hosts.0.name", "h[٠-٣]", "'h[٠-٣]': expected only letters"),
    ("cluster.hosts.0.gpus", 10**6, "1000000: expected at most 1024"),
    ("cluster.hosts.0.healthy", "no", "'no': expected true or false"),
    ("cluster.hosts.0.healthy", 0, "0: expected true or false"),
    ("cluster.links.rack.latency_us", NAN, "nan: expected a finite number"),
    ("cluster.links.rack.latency_us", "1", "'1': expected a number"),
    ("cluster.links.rack.bandwidth_mbps", INF, "inf: expected an integer"),
    ("limits.time_s", NAN, "nan: expected a finite number"),
    ("limits.time_s", INF, "inf: expected a finite number"),
    ("limits.time_s", -1, "-1: expected at least 0"),
    ("limits.time_s", "60", "'60': expected a number"),
    ("limits.time_s", True, "True: expected a number"),
    ("limits.time_s", 10**400, None),
    ("limits.gap", 2, "2: expected at most 1"),
    ("limits.seed", -1, "-1: expected at least 0"),
    ("policy.terms", ["value", "value"], "['value', 'value']: expected each objective term once"),
    (
        "policy.terms.0",
        "speed",
        "'speed': expected 'value', 'progress', 'disruption', 'remaining', 'freed',",
    ),
    (
        "policy.formulation",
        "wan",
        "'wan': expected 'gang', 'interleaving', 'deadline', 'geo', 'replicas' or 'stages'",
    ),
    ("now", 2**70, "1180591620717411303424: expected at most 253402300799"),
    ("sharing", {}, "{}: section not used by policy 'gang'; expected the round without it"),
    ("leases", [1], "[1]: section not used by policy 'gang'; expected the round without it"),
    ("geo", None, "None: section not used by policy 'gang'; expected the round without it"),
    (
        "other",
        1,
        "1: unknown field; expected one of annotations, apiVersion, bindings, caps, cluster",
    ),
    ("apiVersion", "placewright/v2", "'placewright/v2': expected placewright/v1alpha2"),
    ("apiVersion", None, "None: expected placewright/v1alpha2"),
    ("kind", "Plan", "'Plan': expected Round"),
    ("kind", ["Round"], "['Round']: expected Round"),
]


def text_path(path: str) -> str:
    return "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in path.split(".")).removeprefix(".")


@pytest.mark.parametrize(
    ("path", "value", "meant"),
    [
        ("policy.formulation", "gangs", "did you mean gang?"),
        ("policy.terms.0", "Contention", "did you mean contention?"),
        ("policy.terms.0", "xyz", "'makespan' or 'completion'"),
    ],
)
def test_a_word_that_is_none_of_a_few_is_told_the_most_similar(tmp_path, path, value, meant):
    raw = changed(ROUND, path, value)
    assert refused_file(tmp_path, json.dumps(raw), "r.json", load_round).endswith(meant)


@pytest.mark.parametrize(("path", "value", "message"), VALUES)
def test_a_bad_value_is_refused_by_its_path(tmp_path, path, value, message):
    raw = changed(ROUND, path, value)
    reported = refused_file(tmp_path, json.dumps(raw), "r.json", load_round)
    assert reported.startswith(f"{text_path(path)}: {message or ''}")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("round", "abc", "'abc': expected a sha256"),
        (
            "decisions.0.decision",
            "run",
            "'run': expected 'start', 'keep', 'migrate', 'resize', 'preempt' or 'wait'",
        ),
        ("decisions.1.reason", "tired", "'tired': expected 'never_fits', 'quota', 'hosts_away',"),
        ("decisions.0.tasks.0.gpus", [-1], None),
        ("decisions.0.tasks.0.host", "h[0-1]", "'h[0-1]': expected only letters"),
        ("certificate.terms.0.bound", NAN, "nan: expected a finite number"),
        ("certificate.terms.0.value", 3.5, "3.5: expected an integer"),
        ("certificate.status", "best", "'best': expected 'optimal', 'within_gap' or 'feasible'"),
        ("sections.0", 1, "1: expected a mapping"),
        ("sections.0", {"kind": "groups", "x": [NAN]}, "{'kind': 'groups', 'x': [nan]}: expected"),
        ("sections.0", {"a": {"b": -INF}}, "{'a': {'b': -inf}}: expected finite numbers"),
    ],
)
def test_a_bad_value_in_a_plan_is_refused_by_its_path(tmp_path, path, value, message):
    raw = changed(PLAN, path, value)
    reported = refused_file(tmp_path, json.dumps(raw), "p.json", load_plan)
    expected = "decisions[0].tasks[0].gpus[0]: -1" if message is None else text_path(path)
    assert reported.startswith(f"{expected}: {message or ''}")


@pytest.mark.parametrize("path", ["cluster", "jobs.0.options", "jobs.1.name", f"{GROUP}.gpu"])
def test_a_missing_value_is_named_by_its_path(path):
    raw = copy.deepcopy(ROUND)
    *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = raw
    for part in parts:
        place = place[part]
    del place[last]
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw, "r.json")
    assert str(caught.value) == f"r.json: {text_path(path)}: missing; expected a value"


def test_further_faults_of_one_entry_are_told():
    raw = changed(ROUND, "jobs.0", {"name": "a b", "weight": -1, "color": "red"})
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    first, *others = str(caught.value).split("\n")
    assert first.startswith("jobs[0].name: 'a b': expected only letters")
    assert [other.partition(":")[0] for other in others] == [
        "jobs[0].weight",
        "jobs[0].options",
        "jobs[0].color",
    ]
    with pytest.raises(InvalidInputError, match=r"at least 1$"):
        parse_round(changed(ROUND, f"{GROUP}.count", 0))


def test_an_odd_key_is_quoted_and_shortened_in_the_path(tmp_path):
    for key, shown in (("a b", "['a b']"), ("x\n\x1b", r"['x\n\x1b']"), ("", "['']")):
        reported = refused_file(tmp_path, json.dumps({**ROUND, key: 1}), "r.json")
        assert reported.startswith(f"{shown}: 1: unknown field; expected one of annotations")
    reported = refused_file(tmp_path, json.dumps({**ROUND, "\ud800": 1}), "r.json")
    assert reported == r"'\ud800': expected valid Unicode text"
    assert len(refused_file(tmp_path, json.dumps({**ROUND, "x" * 10**6: 1}), "r.json")) < 300


def test_a_wrong_resource_name_is_refused_by_its_path():
    with pytest.raises(InvalidInputError) as caught:
        parse_round(changed(ROUND, f"{GROUP}.resources", {"a b": 1}))
    start = "jobs[0].options[0].groups[0].resources['a b']: 'a b': expected only letters"
    assert str(caught.value).startswith(start)


def test_a_plan_for_another_round_can_be_recognised_by_its_digest():
    assert parse_plan(PLAN).round != round_digest(parse_round(ROUND))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"kind": "Round"}, "apiVersion: missing; expected placewright/v1alpha2"),
        ({**HEAD, "apiVersion": "v1"}, "apiVersion: 'v1': expected placewright/v1alpha2"),
        (
            {"apiVersion": "placewright/v1alpha2"},
            "kind: missing; expected Round or Cluster or Plan or Edits",
        ),
        ({**HEAD, "kind": "Pod"}, "kind: 'Pod': expected Round or Cluster or Plan or Edits"),
        (
            {**HEAD, "kind": {"x": []}},
            "kind: {'x': []}: expected Round or Cluster or Plan or Edits",
        ),
    ],
)
def test_an_unknown_version_or_kind_is_refused(tmp_path, head, message):
    assert refused_file(tmp_path, json.dumps(head), "r.json") == message


# Files that cannot be read.


def test_a_missing_file_a_directory_and_a_device_are_refused(tmp_path):
    assert refusal(tmp_path / "no.json").startswith("cannot be read (No such file or directory)")
    assert refusal(tmp_path).startswith("is a directory; expected a regular file")
    assert refusal("/dev/null").startswith("is a device, pipe or socket; expected a regular file")
    assert refusal("/dev/zero").startswith("is a device, pipe or socket")
    os.mkfifo(tmp_path / "pipe.json")
    assert refusal(tmp_path / "pipe.json").startswith("is a device, pipe or socket")
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path / "loop").startswith("cannot be read (Too many levels of symbolic")
    assert refusal("x" * 300).startswith("cannot be read (File name too long)")
    assert refusal(f"{tmp_path}/a\0b").startswith("cannot be read (embedded null byte)")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path):
    (tmp_path / "r.json").write_text("{}")
    (tmp_path / "r.json").chmod(0)
    assert refusal(tmp_path / "r.json").startswith("cannot be read (Permission denied)")


@pytest.mark.parametrize("content", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["r.json", "r.yaml", "r"])
def test_an_empty_file_is_refused(tmp_path, content, name):
    reported = refused_file(tmp_path, content, name)
    assert reported == "empty; expected a JSON or YAML document"


@pytest.mark.parametrize(
    "content",
    ["\u00fc: 1".encode("latin-1"), "{}".encode("utf-16"), bytes(range(256)), b"\x80" * 10],
)
def test_other_encodings_are_refused(tmp_path, content):
    assert "expected text in UTF-8" in refused_file(tmp_path, content)


@pytest.mark.parametrize("name", ["r.json", "r.yaml"])
@pytest.mark.parametrize("content", ["[]", "[1, 2]", '"text"', "3", "null", "true"])
def test_anything_but_a_mapping_is_refused(tmp_path, name, content):
    reported = refused_file(tmp_path, content, name)
    assert reported.endswith("expected a mapping with apiVersion and kind")


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_text_that_is_too_long_is_refused(tmp_path, monkeypatch, kind):
    from placewright.instances.io import files

    monkeypatch.setattr(files, f"MAX_{kind.upper()}_MIB", 0)
    reported = refused_file(tmp_path, "{}", f"r.{kind}")
    assert reported.startswith("too long; expected at most 0 MiB")


# Text that is not a document.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "{",
            "line 1, column 2: Expecting property name enclosed in double quotes; expected valid",
        ),
        ('{"a": 1,\n "b" 2}', "line 2, column 6: Expecting ':' delimiter; expected valid JSON"),
        ("{} {}", "line 1, column 4: Extra data; expected valid JSON"),
        ('{"a": "\n"}', "line 1, column 8: Invalid control character at; expected valid JSON"),
        ("{'a': 1}", "line 1, column 2: Expecting property name enclosed in double quotes"),
        ("{\0}", "line 1, column 2: Expecting property name enclosed in double quotes"),
        ('{"kind": "Round", "kind": "Plan"}', "'kind': key given twice; expected each key once"),
        (
            '{"jobs": [1, {"x": [{}, {"a": 1, "b": 2, "a": 1}]}]}',
            "jobs[1].x[1]: 'a': key given twice; expected each key once",
        ),
        ('{"a":' * 65 + "1" + "}" * 65, "nested too deeply; expected at most 64 levels"),
        ('{"a":' + "[" * 64 + "]" * 64 + "}", "nested too deeply; expected at most 64 levels"),
        ('{"a":' + "[" * 10**6, "nested too deeply; expected at most 64 levels"),
        ('{"a":' * 10**6, "nested too deeply; expected at most 64 levels"),
        (
            json.dumps({"a": [{str(i): i for i in range(10_001)}]}),
            "a[0]: too many keys; expected at most 10,000",
        ),
    ],
)
def test_bad_json_is_refused(tmp_path, content, message):
    assert refused_file(tmp_path, content, "r.json").startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1", "line 2, column 1: did not find expected ',' or ']'; expected valid YAML"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed in this context; expected"),
        ("a:\n\t- b", "line 2, column 1: found character that cannot start any token; expected"),
        ("a: \x01", "control characters are not allowed"),
        ("%", "line 1, column"),
        ("--- {}\n--- {}\n", "a second document; expected one"),
        ("a: 1\nb: 2\na: 3", "'a': key given twice; expected each key once"),
        ("j:\n- 1\n- x: {a: 1, b: 2, a: 3}", "j[1].x: 'a': key given twice; expected each key"),
        ("a: &x 1\nb: *x", "a: '&x': expected no anchors or aliases"),
        ("a: *x", "a: '*x': expected no anchors or aliases"),
        ("j:\n- &x [1]", "j[0]: '&x': expected no anchors or aliases"),
        ("a: !!python/object/apply:os.system [ls]", "a: 'tag:yaml.org,2002:python/object/apply"),
        ("a: !x 1", "a: '!x': expected no tags"),
        ("a: !!set {b}", "a: 'tag:yaml.org,2002:set': expected no tags"),
        ("? [a, b]\n: 1", "a mapping or list as key; expected text"),
        ("{a: {{b: 1}: 2}}", "a: a mapping or list as key; expected text"),
        ("a: " + "[" * 64, "nested too deeply; expected at most 64 levels"),
        ("a: " + "[" * 10**5, "nested too deeply; expected at most 64 levels"),
        ("{a: " * 10**5, "nested too deeply; expected at most 64 levels"),
        ("- " * 10**5, "nested too deeply; expected at most 64 levels"),
        ("\n".join(f"k{i}: 1" for i in range(10_001)), "too many keys; expected at most 10,000"),
    ],
)
def test_bad_yaml_is_refused(tmp_path, content, message):
    reported = refused_file(tmp_path, content, "r.yaml")
    assert reported.startswith(message) or message in reported


def test_yaml_that_would_explode_is_refused_at_its_first_anchor(tmp_path):
    lines = ['a0: &a0 ["lol"]']
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    reported = refused_file(tmp_path, "\n".join(lines))
    assert reported == "a0: '&a0': expected no anchors or aliases"


@pytest.mark.parametrize("name", ["r.json", "r.yaml"])
def test_a_number_of_thousands_of_digits_is_refused_by_its_path(tmp_path, name):
    raw = json.dumps(changed(ROUND, f"{GROUP}.count", "?")).replace('"?"', "9" * 5000)
    reported = refused_file(tmp_path, raw, name)
    assert reported.startswith("jobs[0].options[0].groups[0].count: '9999")
    assert reported.endswith("...: expected an integer")


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    "content",
    [
        lambda: json.dumps(
            {**HEAD, "cluster": {"hosts": [1] * examples(day=10**5, nightly=10**6)}}
        ),
        lambda: json.dumps(
            {**HEAD, "cluster": {"hosts": [{"name": "h", "gpus": 0}]}, "jobs": [{}] * 10**6}
        ),
        lambda: json.dumps({**HEAD, "kind": "Plan", "decisions": [[]] * 10**6}),
        lambda: json.dumps({**HEAD, "x": "y" * 10**7}),
        lambda: "x" * 10**7,
        lambda: "- a\n" * 10**6,
        lambda: "{" * 10**7,
        lambda: random.Random(1).randbytes(10**6),
        lambda: "".join(random.Random(2).choices("{}[]:,-&*!|>'\"%@` \nabc0", k=10**6)),
    ],
    ids=range(9),
)
def test_megabytes_of_junk_are_one_short_error(tmp_path, content):
    refused_file(tmp_path, content(), "r")


# Standard input and clusters that are referred to.


class Input:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_errors_of_standard_input_name_it_by_its_dash(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Input(b"{"))
    assert refusal("-").startswith("line 1, column 2:")
    monkeypatch.setattr(sys, "stdin", Input(b""))
    assert refusal("-").startswith("empty")


def test_a_reference_on_standard_input_has_no_folder(monkeypatch):
    raw = {**ROUND, "cluster": {"ref": "c.yaml"}}
    monkeypatch.setattr(sys, "stdin", Input(json.dumps(raw).encode()))
    assert refusal("-").startswith("cluster.ref: 'c.yaml': has no folder to look in; expected")
    with pytest.raises(InvalidInputError, match=r"^cluster\.ref: 'c.yaml': has no folder"):
        parse_round(raw)


@pytest.mark.parametrize("cluster", [{"ref": 5}, {"ref": ""}, {"ref": "c.yaml", "name": "x"}])
def test_a_wrong_reference_is_refused(tmp_path, cluster):
    reported = refused_file(tmp_path, json.dumps({**ROUND, "cluster": cluster}), "r.json")
    assert reported.startswith(f'cluster: {cluster}: expected {{"ref": "path of a Cluster file"}}')


def test_faults_of_a_referred_cluster_name_its_file(tmp_path):
    path = tmp_path / "r.json"
    for reference, message in (
        ("no.yaml", f"{tmp_path}/no.yaml: cannot be read (No such file or directory)"),
        (".", f"{tmp_path}: is a directory"),
        ("r.json", f"{tmp_path}/r.json:1: kind: expected Cluster"),
    ):
        path.write_text(json.dumps({**ROUND, "cluster": {"ref": reference}}))
        with pytest.raises(InvalidInputError) as caught:
            load_round(path)
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "reference",
    [
        "../c.json",
        "in/../../c.json",
        "/etc/passwd",
        "out",
        "links/c.json",
        "-",
        "./-",
        "a\0b",
        "loop",
    ],
)
def test_a_reference_does_not_leave_the_folder_of_its_round(tmp_path, monkeypatch, reference):
    folder = tmp_path / "rounds"
    (folder / "in").mkdir(parents=True)
    cluster = {**ROUND["cluster"], **HEAD, "kind": "Cluster"}
    (tmp_path / "c.json").write_text(json.dumps(cluster))
    (folder / "out").symlink_to(tmp_path / "c.json")
    (folder / "links").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    monkeypatch.setattr(sys, "stdin", Input(json.dumps(cluster).encode()))
    monkeypatch.chdir(folder)
    raw = {**ROUND, "cluster": {"ref": reference}}
    for name in ("r.json", folder / "r.json"):
        Path(name).write_text(json.dumps(raw))
        refused = refusal(name, load_round)
        assert refused.startswith("cluster.ref: ")
        assert refused.endswith("expected a file in the round's folder or below it")


@pytest.mark.parametrize("reference", ["in/c.json", "in/../in/c.json", "near", "linked/c.json"])
def test_a_reference_may_take_any_way_that_stays_in_the_folder(tmp_path, reference):
    (tmp_path / "in").mkdir()
    cluster = {**ROUND["cluster"], **HEAD, "kind": "Cluster"}
    (tmp_path / "in" / "c.json").write_text(json.dumps(cluster))
    (tmp_path / "near").symlink_to("in/c.json")
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**ROUND, "cluster": {"ref": reference}}))
    assert round_digest(load_round(path)) == round_digest(parse_round(ROUND))


@pytest.mark.parametrize(
    "content",
    [
        "root:x:0:0:root:/root:/bin/bash\n",
        "password: root\n",
        "- root\n",
        '{"root": 1, "root": 2}',
        "a: {root: 1, root: 2}",
        "a: !root {}",
        "a: &root {}",
        "root: [",
        "kind: root\napiVersion: root",
        f"apiVersion: {HEAD['apiVersion']}\nkind: root",
        f"apiVersion: {HEAD['apiVersion']}\nkind: Cluster\nhosts: root",
        f"apiVersion: {HEAD['apiVersion']}\nkind: Cluster\nhosts: [{{name: '#root'}}]",
        '"root',
        "root\udcff",
    ],
)
def test_an_error_in_a_referred_file_quotes_nothing_of_it(tmp_path, content):
    (tmp_path / "secret").write_bytes(content.encode(errors="surrogateescape"))
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**ROUND, "cluster": {"ref": "secret"}}))
    with pytest.raises(InvalidInputError) as caught:
        load_round(path)
    reported = str(caught.value)
    assert reported.startswith(f"{tmp_path}/secret: ")
    assert "expected" in reported
    assert "root" not in reported.removeprefix(f"{tmp_path}")


def test_short_values_are_counted_before_they_take_memory(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    path.write_text("[" + "[]," * 20 + "{}]")
    assert refusal(path).startswith("[[], [], ")
    monkeypatch.setattr("placewright.instances.io.files.MAX_VALUES", 40)
    assert refusal(path) == "too many values; expected at most 40"


# Whatever comes, nothing but one clear error.


CONTROLS = st.text(st.sampled_from("a\x00\x07\x1b\x7f\x85\x9b\u2028\u202e\udc9b\n\r\t[]{}!&*:'\""))


@settings(max_examples=examples(day=20, nightly=200))
@given(CONTROLS, CONTROLS)
def test_no_text_of_a_document_reaches_a_message_unescaped(tmp_path_factory, odd, other):
    folder = tmp_path_factory.getbasetemp()
    for raw in (
        {**ROUND, "cluster": {"ref": f"x{odd}"}, "jobs": None},
        {**ROUND, f"x{odd}": other},
        {**ROUND, "tenants": [{"name": odd, "quota": {f"-{odd}": other}}]},
        {**HEAD, "kind": odd},
    ):
        path = folder / "odd.json"
        path.write_text(json.dumps(raw))
        either_reads_or_refuses(load, path)
    for text in (
        f"a: !<{odd}> 1",
        f"a: !{odd} 1",
        f"a: &{odd} 1",
        f"? {odd}",
        f'"{odd}": "{other}"',
    ):
        path = folder / "odd.yaml"
        path.write_bytes(text.encode(errors="surrogatepass"))
        either_reads_or_refuses(load, path)


def either_reads_or_refuses(read, path) -> None:
    try:
        document = read(path)
    except InvalidInputError as error:
        for message in str(error).split("\n"):
            assert message.isprintable()
            assert "expected" in message
            message.encode()
    else:
        assert document.model_dump_json()


@settings(max_examples=examples(day=37, nightly=150))
@given(st.binary(max_size=200), st.sampled_from(["r.json", "r.yaml", "r"]))
def test_random_bytes_never_cause_anything_else(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    either_reads_or_refuses(load, path)


@settings(max_examples=examples(day=37, nightly=150))
@given(st.data(), st.sampled_from(["r.json", "r.yaml"]))
def test_a_valid_file_with_some_bytes_changed_never_causes_anything_else(
    tmp_path_factory, data, name
):
    content = bytearray(json.dumps(data.draw(st.sampled_from([ROUND, TURNS, PLAN]))).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    either_reads_or_refuses(load, path)


ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 12),
    st.sampled_from([10**5, 10**9, 10**12, 2**63, -(2**64), 10**400]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["a", "b", "h0", "h2", "h[0-3]", "r0", "rack", "host", "A100", "t", "gpu"]),
    st.lists(st.integers(-1, 9), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from([{}, [[]], [{}], {"ref": "r.json"}, {"ref": None}]),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container in a document with one of its keys or indices."""
    found = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in pairs:
        found.append((value, key))
        if isinstance(child, dict | list):
            found += places(child)
    return found


@settings(max_examples=examples(day=20, nightly=400))
@given(st.data())
def test_a_valid_document_with_values_changed_never_causes_anything_else(data):
    read, valid = data.draw(
        st.sampled_from([(parse_plan, PLAN), (parse_round, ROUND), (parse_round, TURNS)])
    )
    raw = copy.deepcopy(valid)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(raw)))
        match data.draw(st.sampled_from(["set", "set", "remove", "add", "repeat"])):
            case "set":
                container[key] = copy.deepcopy(data.draw(ODD_VALUES))
            case "remove":
                del container[key]
            case "add" if isinstance(container, dict):
                container[data.draw(st.text(max_size=3))] = copy.deepcopy(data.draw(ODD_VALUES))
            case _ if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
        if not places(raw):
            break
    either_reads_or_refuses(read, raw)


def test_each_reader_refuses_the_other_kinds(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(ROUND))
    assert refusal(path, load_cluster) == "kind: 'Round': expected Cluster"
    assert refusal(path, load_plan) == "kind: 'Round': expected Plan"
