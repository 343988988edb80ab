"""Host sets: what they mean, what is refused, what edits make of them, and their digest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placewright.instances.derived.names import AllowedHosts
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.edits.sentences import sentence_of
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.digest import Digester, round_digest
from placewright.instances.io.files import load_round, parse_edits, parse_round, write

HEAD = {"apiVersion": "placewright/v1alpha2"}


def raw_round(*groups: dict[str, Any], **sets: list[str]) -> dict[str, Any]:
    return {
        **HEAD,
        "kind": "Round",
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": "r", "level": "rack"}, {"name": "q", "level": "rack"}],
            "hosts": [
                {"name": "h[0-3]", "parent": "r", "gpus": 8, "gpu_model": "H100"},
                {"name": "g[0-1]", "parent": "q", "gpus": 8, "gpu_model": "H100"},
            ],
        },
        "host_sets": sets,
        "jobs": [{"name": "a", "options": [{"groups": [{"gpu": 1, **one} for one in groups]}]}],
    }


def allowed(*groups: dict[str, Any], **sets: list[str]) -> list[set[str] | None]:
    round_ = parse_round(raw_round(*groups, **sets))
    known = AllowedHosts(round_.host_sets)
    found = [known.of(group) for group in round_.jobs[0].options[0].groups]
    return [None if one is None else set(one) for one in found]


def refusal(raw: dict[str, Any]) -> str:
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    return str(caught.value)


def test_a_group_may_have_the_hosts_that_are_in_all_of_its_sets_and_its_list():
    groups = ({}, {"host_sets": ["x"]}, {"host_sets": ["x", "y"]})
    both = ({"host_sets": ["x", "y"], "hosts": ["h[2-3]"]}, {"hosts": ["g0"]})
    found = allowed(
        *groups, *both, {"host_sets": ["none"]}, x=["h[0-2]", "g0"], y=["h[1-3]"], none=[]
    )
    assert found == [None, {"h0", "h1", "h2", "g0"}, {"h1", "h2"}, {"h2"}, {"g0"}, set()]


def test_files_keep_them(tmp_path):
    made = parse_round(raw_round({"host_sets": ["x"]}, x=["h[0-2]", "g0"]))
    for name in ("round.yaml", "round.json"):
        write(made, tmp_path / name)
        assert load_round(tmp_path / name) == made


def test_a_file_may_have_ten_thousand_of_them(tmp_path):
    many = {f"s{i}": ["h0"] for i in range(10_000)}
    (tmp_path / "r.json").write_text(json.dumps(raw_round({"host_sets": ["s9999"]}, **many)))
    assert len(load_round(tmp_path / "r.json").host_sets) == 10_000
    assert "host_sets: " in refusal(raw_round({}, **many, more=["h0"]))


@pytest.mark.parametrize(
    ("group", "sets", "said"),
    [
        (
            {"host_sets": ["z"]},
            {"x": ["h0"], "y": ["h1"]},
            "jobs[0].options[0].groups[0].host_sets[0]: 'z': unknown host set; expected x or y",
        ),
        (
            {"host_sets": ["x"]},
            {},
            "host_sets[0]: 'x': unknown host set; expected none: there are none",
        ),
        ({}, {"x": ["h0", "h9"]}, "host_sets.x[1]: 'h9': unknown host h9; expected hosts of"),
        ({}, {"x": ["h[2-5]"]}, "host_sets.x[0]: 'h[2-5]': unknown host h4; expected hosts of"),
        ({}, {"x": ["h[2-1]"]}, "host_sets.x[0]: 'h[2-1]': range runs backwards"),
        ({}, {"x": ["h 1"]}, "host_sets.x[0]: 'h 1': expected only letters"),
        ({}, {"x": "h1"}, "host_sets.x: 'h1': expected a list"),
        ({}, {"x y": ["h1"]}, "host_sets['x y']: 'x y': expected only letters"),
        ({"host_sets": "x"}, {"x": ["h0"]}, "groups[0].host_sets: 'x': expected a list"),
        ({"host_sets": ["x"] * 65}, {"x": ["h0"]}, "host_sets: "),
    ],
)
def test_what_is_refused(group, sets, said):
    assert said in refusal(raw_round(group, **sets))


def test_the_line_of_an_unknown_set_is_told(tmp_path):
    lines = [
        "apiVersion: placewright/v1alpha2",
        "kind: Round",
        "cluster: {hosts: [{name: h0, gpus: 8, gpu_model: H100}]}",
        "host_sets: {gpu: [h0]}",
        "jobs:",
        "  - name: a",
        "    options:",
        "      - groups: [{gpu: 1, host_sets: [gpus]}]",
    ]
    file = tmp_path / "r.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(InvalidInputError) as caught:
        load_round(file)
    place = 'jobs[0] "a".options[0].groups[0].host_sets[0]'
    assert str(caught.value).startswith(
        f"{file}:8: {place}: 'gpus': unknown host set; expected gpu"
    )


def test_too_many_members_are_refused_before_they_are_counted_out():
    raw = raw_round({}, **{f"s{i}": ["h[0-999999998]"] for i in range(10)})
    assert "host_sets: stand for 9,999,999,990 hosts; expected at most 20,000,000" in refusal(raw)


def test_a_pending_job_of_an_unknown_set_waits_in_a_round_that_is_read_leniently():
    raw = raw_round({"host_sets": ["z"]}, x=["h0"])
    round_ = parse_round(raw, lenient=True)
    assert "unknown host set" in round_.invalid["a"]


def test_digests_have_them_and_are_made_again_from_what_is_known():
    made = parse_round(raw_round({"host_sets": ["x"]}, x=["h[0-2]"]))
    other = parse_round(raw_round({"host_sets": ["x"]}, x=["h[0-1]"]))
    digester = Digester()
    assert digester(made) == digester(made) == round_digest(made)
    assert digester(other) == round_digest(other) != round_digest(made)
    none = parse_round(raw_round({}))
    assert round_digest(none) == round_digest(Round.model_validate(dict(none)))


def edited(round_: Round, edit: dict[str, Any]) -> Round:
    return apply_edits(round_, parse_edits({**HEAD, "kind": "Edits", "edits": [edit]}))


SETS = {"all": ["h[0-3]", "g[0-1]"], "some": ["h[1-2]"], "one": ["g1"]}


def test_copies_of_hosts_are_in_the_sets_of_these():
    base = parse_round(raw_round({"host_sets": ["all"]}, **SETS))
    rack = edited(base, {"add": {"like": "r", "count": 2}})
    assert rack.host_sets == {
        "all": ("h[0-3]", "g[0-1]", "new1-h[0-3]", "new2-h[0-3]"),
        "some": ("h[1-2]", "new1-h[1-2]", "new2-h[1-2]"),
        "one": ("g1",),
    }
    host = edited(base, {"add": {"like": "h1"}})
    assert host.host_sets == {
        "all": ("h[0-3]", "g[0-1]", "new1-h1"),
        "some": ("h[1-2]", "new1-h1"),
        "one": ("g1",),
    }


def test_hosts_that_are_given_are_in_the_sets_that_are_named():
    base = parse_round(raw_round({"host_sets": ["all"]}, **SETS))
    new = {"name": "n[0-1]", "parent": "r", "gpus": 8, "gpu_model": "H100"}
    assert edited(base, {"add": {"hosts": [new]}}).host_sets == base.host_sets
    found = edited(base, {"add": {"hosts": [new], "host_sets": ["one"]}})
    assert found.host_sets == base.host_sets | {"one": ("g1", "n[0-1]")}
    for edit, said in (
        ({"hosts": [new], "host_sets": ["two"]}, "'two': unknown host set; expected all or one"),
        ({"like": "r", "host_sets": ["one"]}, "host_sets: given without hosts"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            edited(base, {"add": edit})


@pytest.mark.parametrize(
    ("change", "left", "sentence"),
    [
        ({"host_sets": ["one"]}, ("one",), "runs in host set one"),
        ({"drop_host_sets": ["all"]}, ("some",), "also runs outside host set all"),
        ({"drop_host_sets": ["some", "all"]}, (), "also runs outside host sets some and all"),
        ({"without": ["host_sets"]}, (), "asks no particular host set"),
    ],
)
def test_jobs_get_other_sets(change, left, sentence):
    base = parse_round(raw_round({"host_sets": ["all", "some"]}, **SETS))
    changed = edited(base, {"job": {"a": change}})
    assert changed.jobs[0].options[0].groups[0].host_sets == left
    made = parse_edits({**HEAD, "kind": "Edits", "edits": [{"job": {"a": change}}]})
    assert sentence in sentence_of(made.edits[0])


def test_a_set_and_its_absence_in_one_edit_are_refused():
    change = {"host_sets": ["one"], "drop_host_sets": ["all"]}
    with pytest.raises(InvalidInputError, match="given beside host_sets"):
        parse_edits({**HEAD, "kind": "Edits", "edits": [{"job": {"a": change}}]})
