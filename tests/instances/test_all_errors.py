"""All errors of a file are told at once: lines, names of jobs, and the names that were meant."""

import copyreg
import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.cli.app import main
from placewright.cli.interrupts import ExitCode
from placewright.instances import load_round
from placewright.instances.errors import (
    FEW,
    MAX_ERRORS,
    InvalidInputError,
    merged,
    most_similar,
)
from placewright.instances.io.files import parse_round
from placewright.instances.io.validation_messages import lines_of

HOSTS = {"hosts": [{"name": "h", "gpus": 8, "gpu_model": "A100"}]}
FAULTY = """\
apiVersion: placewright/v1alpha2
kind: Round
cluster:
  hosts:
    - {name: "h[0-1]", gpus: 8, gpu_model: A100}
tenants:
  - name: research
jobs:
  - name: train
    tenant: reserch
    options:
      - groups: [{gpu: 8, required: rack, gpu_models: [a100]}]
  - name: serve
    options:
      - groups:
          - gpu: 1
            hosts: [h0, h7]
  - name: old
    options: [{groups: [{gpu: 1}]}]
    running: {tasks: [{host: h9, gpus: [0]}]}
policy:
  vacate: [h1]
"""


def errors_of(path: Path, text: str) -> list[str]:
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        load_round(path)
    return str(caught.value).replace(f"{path}:", "").split("\n")


def test_references_of_all_jobs_and_of_the_policy_are_told_with_their_lines(tmp_path, capsys):
    told = errors_of(tmp_path / "r.yaml", FAULTY)
    assert [line.partition(" (")[0] for line in told] == [
        (
            "10: jobs[0] \"train\".tenant: 'reserch': unknown tenant; expected research; "
            "did you mean research?"
        ),
        (
            "12: jobs[0] \"train\".options[0].groups[0].gpu_models[0]: 'a100': unknown GPU model; "
            "expected A100; did you mean A100?"
        ),
        "12: jobs[0] \"train\".options[0].groups[0].required: 'rack': unknown level; expected host",
        (
            "17: jobs[1] \"serve\".options[0].groups[0].hosts[1]: 'h7': unknown host h7; "
            "expected hosts of the cluster"
        ),
        (
            "20: jobs[2] \"old\".running.tasks[0].host: 'h9': unknown host; "
            "expected a host of the cluster"
        ),
        "22: policy.vacate: given without the term remaining; expected remaining in policy.terms",
    ]
    assert main(["validate", str(tmp_path / "r.yaml")]) == ExitCode.INVALID
    assert capsys.readouterr().err.splitlines() == [
        f"placewright: {tmp_path / 'r.yaml'}:{line}" for line in told
    ]


def test_forms_of_all_jobs_are_told_and_a_field_that_was_meant(tmp_path):
    text = FAULTY.replace("tenant: reserch", "tennant: research\n    weight: -1")
    text = text.replace("hosts: [h0, h7]", "cuont: 2\n          - {gpu: -2}")
    told = errors_of(tmp_path / "r.yaml", text)
    assert told[0].startswith('11: jobs[0] "train".weight: -1: expected at least 0')
    assert told[1].startswith("10: jobs[0] \"train\".tennant: 'research': unknown field; expected")
    assert told[1].endswith("; did you mean tenant?")
    assert told[2].startswith('18: jobs[1] "serve".options[0].groups[0].cuont: 2: unknown field')
    assert told[2].endswith("; did you mean count?")
    assert told[3].startswith('19: jobs[1] "serve".options[0].groups[1].gpu: -2: expected')
    # References of the rest are told, too.
    assert told[4].startswith("22: jobs[2] \"old\".running.tasks[0].host: 'h9': unknown host")
    assert told[5].startswith("24: policy.vacate: given without the term remaining")
    assert len(told) == 6


PICKY: dict[str, Any] = {
    "cluster": HOSTS,
    "policy": {"formulation": "interleaving", "terms": ["throughput"], "vacate": ["x"]},
    "tenants": [{"name": "red", "quota": {"gpu": 1, "nic": 1, "disk": 1}}],
    "sharing": {"conflicts": [["a", "b"], ["c", "ghost"]]},
    "reservations": [{"host": "h[0-9]"}],
    "jobs": [
        {"name": "a", "options": [{"groups": [{"gpu": 1, "resources": {"nic": 1}}]}]},
        {"name": "b", "tenant": "blue", "options": [{"groups": [{"gpu": 1, "required": "k"}]}]},
        {
            "name": "c",
            "options": [{"groups": [{"gpu": 1, "hosts": ["i"]}]}],
            "running": {"tasks": [{"host": "h", "gpus": [9]}]},
        },
        {
            "name": "d",
            "options": [{"groups": [{"gpu": 1}]}],
            "running": {"tasks": [{"host": "j", "gpus": [0]}]},
        },
    ],
}


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("wrong", [set(some) for n in range(5) for some in combinations("abcd", n)])
def test_beside_wrong_forms_no_reference_is_told_that_is_right(wrong, lenient):
    def told(jobs: list[Any]) -> set[tuple[Any, ...]]:
        with pytest.raises(InvalidInputError) as caught:
            parse_round({**PICKY, "jobs": jobs}, lenient=lenient)
        return {(error.path, error.expected) for error in caught.value.errors}

    jobs = PICKY["jobs"]
    broken = [{**job, "wieght": 1} if job["name"] in wrong else job for job in jobs]
    found, forms = told(broken), {("jobs", "abcd".index(name), "wieght") for name in wrong}
    assert forms == {path for path, _ in found if path[-1] == "wieght"}
    references = {one for one in found if one[0] not in forms}
    assert references <= told(jobs)
    assert ("reservations", 0, "host") in {path for path, _ in references}
    if not lenient and "b" not in wrong:
        assert ("jobs", 1, "tenant") in {path for path, _ in references}
    runs = {("jobs", 3, "running", "tasks", 0, "host")} & {path for path, _ in references}
    assert bool(runs) == (not {"c", "d"} & wrong)


@pytest.mark.parametrize("field", ["tenant", "weight"])
def test_at_most_20_errors_are_told_and_the_others_counted(tmp_path, field):
    for more in (0, 1, 30):
        jobs = [
            {"name": f"j{i}", "options": [{"groups": [{"gpu": 1}]}], field: f"x{i}"}
            for i in range(MAX_ERRORS + more)
        ]
        raw = {"apiVersion": "placewright/v1alpha2", "kind": "Round", "cluster": HOSTS}
        told = errors_of(tmp_path / "r.json", json.dumps({**raw, "jobs": jobs}, indent=1))
        assert [f'jobs[{i}] "j{i}".{field}: ' in told[i] for i in range(20)] == [True] * 20
        counts = [] if not more else [f"{more} more error{'s' if more > 1 else ''}; expected none"]
        assert [line.strip() for line in told[20:]] == counts


def test_equal_errors_of_many_jobs_or_hosts_are_one_line_with_their_number(tmp_path):
    def told(count: int) -> list[str]:
        hosts = [{"name": f"h{i}", "gpus": 8} for i in range(count)]
        raw = {"apiVersion": "placewright/v1alpha2", "kind": "Round", "cluster": {"hosts": hosts}}
        lines = errors_of(tmp_path / "r.json", json.dumps(raw, indent=1))
        raw |= {"cluster": HOSTS, "jobs": []}
        for i in range(count):
            options = [{"groups": [{"gpu": 1, "required": "rack"}]}]
            raw["jobs"].append({"name": f"j{i}", "tenant": "who", "options": options})
        return [*lines, *errors_of(tmp_path / "r.json", json.dumps(raw, indent=1))]

    assert len(told(FEW)) == 3 * FEW
    hosts, tenants, levels = told(1000)
    assert "cluster.hosts[0].gpu_model: missing" in hosts
    assert "jobs[0] \"j0\".tenant: 'who': unknown tenant" in tenants
    assert "jobs[0] \"j0\".options[0].groups[0].required: 'rack': unknown level" in levels
    for line in (hosts, tenants, levels):
        assert line.endswith(" (999 more like this)")
        assert line[0].isdigit()


@pytest.mark.parametrize("name", ["\x1b[31m", 'a"b', "a\nb", "x" * 10_000, "\u202e", "\\", ""])
def test_a_hostile_name_is_escaped_and_cut(tmp_path, name):
    raw = {"apiVersion": "placewright/v1alpha2", "kind": "Round", "cluster": HOSTS}
    job = {"name": name, "options": [{"groups": [{"gpu": 1, "cout": 1}]}]}
    told = errors_of(tmp_path / "r.json", json.dumps({**raw, "jobs": [job]}))
    assert told[-1].startswith("1: jobs[0] ")
    assert all(line.isprintable() and len(line) < 500 for line in told)


VALUES: Any = st.recursive(
    st.integers(0, 9) | st.sampled_from(["a", "b c", ": ,", '"]', "{", "\u00e4\n", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "c d", "\u00e4", "{"]), inner, max_size=4)
    ),
    max_leaves=20,
)


def paths_of(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for part, inner in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield (*here, part)
        yield from paths_of(inner, (*here, part))


@settings(max_examples=examples(day=15, nightly=60), deadline=None)
@given(st.lists(VALUES, min_size=1), st.data())
def test_each_path_has_the_line_on_which_its_key_or_entry_stands(values, data):
    text = json.dumps({"top": values}, indent=0, ensure_ascii=False)
    paths = list(paths_of({"top": values}))
    some = data.draw(st.sets(st.sampled_from(paths), min_size=1, max_size=5))
    found = lines_of(text, {*some, ("top", 0, "missing", 7)})
    # With no indent, each key or entry has a line of its own, in the order of the paths.
    opening = [line for line in text.split("\n") if line not in {"]", "],", "}", "},"}]
    at = [i + 1 for i, line in enumerate(text.split("\n")) if line not in {"]", "],", "}", "},"}]
    assert len(opening) == len(paths) + 1
    assert {path: found[path] for path in some} == {p: at[paths.index(p) + 1] for p in some}
    assert found["top", 0, "missing", 7] >= at[paths.index(("top", 0)) + 1]
    in_yaml = lines_of(f"# JSON is YAML\n{text}", some)
    assert in_yaml == {path: found[path] + 1 for path in some}


def test_text_that_cannot_be_read_has_no_lines():
    for text in ("{", "[1, ", '{"a" "b"', "a: [", "? [a]\n: 1", "[" * 10**5, '{"a": {"b"', ""):
        assert lines_of(text, {("a", "b")}).keys() <= {("a", "b")}


def test_the_most_similar_name_is_found_whatever_its_case():
    assert most_similar("TRAIN", ["train", "serve"]) == "train"
    assert most_similar("xyz", ["train", "serve"]) is None
    assert most_similar("x", [f"h{i}" for i in range(20_000)]) is None


def test_errors_are_kept_whatever_hooks_copying_has(monkeypatch):
    """Hooks as tblib registers them for exceptions once `distributed` is loaded."""

    def with_attributes(kind, attributes):
        made = kind.__new__(kind)
        made.__dict__ = attributes
        return made

    def shares_its_dict(error):
        return with_attributes, (type(error), error.__dict__)

    monkeypatch.setitem(copyreg.dispatch_table, InvalidInputError, shares_its_dict)
    both = merged([InvalidInputError("one", path=("a",)), InvalidInputError("two", path=("b",))])
    assert [error.expected for error in both.inside("f").errors] == ["one", "two"]
    assert len(both.errors) == 2
