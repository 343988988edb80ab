"""Annotations: carried through files, edits and presets; no digest and no decision has them."""

from __future__ import annotations

import json

import pytest

from placewright.instances.documents.annotations import MAX_ANNOTATIONS, MAX_TEXT
from placewright.instances.edits.apply import apply_edits
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import load_round, parse_edits, parse_round, write
from placewright.instances.presets.presets import drain
from placewright.rounds import solve_round

PLAIN = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "cluster": {"hosts": [{"name": "h[0-2]", "gpus": 8, "gpu_model": "H100"}]},
    "jobs": [{"name": "a", "options": [{"groups": [{"gpu": 8}]}]}],
}
NOTES = {"slurm/job": "17", "team": "grüße, 'x'"}


def annotated():
    raw = json.loads(json.dumps(PLAIN))
    for part in (raw, raw["cluster"]["hosts"][0], raw["jobs"][0]):
        part["annotations"] = NOTES
    return raw


def test_files_keep_them(tmp_path):
    made = parse_round(annotated())
    for name in ("round.yaml", "round.json"):
        write(made, tmp_path / name)
        again = load_round(tmp_path / name)
        assert again == made
        assert again.annotations == again.jobs[0].annotations == NOTES
        assert again.cluster.hosts[0].annotations == NOTES


def test_digest_and_decisions_do_not_depend_on_them():
    noted, plain = parse_round(annotated()), parse_round(PLAIN)
    assert round_digest(noted) == round_digest(plain)
    assert solve_round(noted).decisions == solve_round(plain).decisions


def test_edits_and_presets_keep_them():
    made = parse_round(annotated())
    head = {"apiVersion": "placewright/v1alpha2", "kind": "Edits"}
    edits = parse_edits({**head, "edits": [{"fail": ["h1"]}, {"job": {"a": {"priority": 3}}}]})
    for changed in (apply_edits(made, edits), drain(made, ["h1"])):
        assert changed.annotations == NOTES
        assert all(host.annotations == NOTES for host in changed.cluster.hosts)
        assert all(job.annotations == NOTES for job in changed.jobs if job.name == "a")


def test_copies_of_hosts_have_none():
    made = parse_round(annotated())
    head = {"apiVersion": "placewright/v1alpha2", "kind": "Edits"}
    copied = apply_edits(made, parse_edits({**head, "edits": [{"add": {"like": "h1"}}]}))
    assert [host.annotations for host in copied.cluster.hosts] == [NOTES, {}]


@pytest.mark.parametrize(
    ("notes", "at"),
    [
        ({"a": "two\nlines"}, "jobs[0].annotations.a"),
        ({"a": "\x1b[31m"}, "jobs[0].annotations.a"),
        ({"a": 17}, "jobs[0].annotations.a"),
        ({"a b": "x"}, "jobs[0].annotations"),
        ({"a": "x" * (MAX_TEXT + 1)}, "jobs[0].annotations.a"),
        ({f"k{i}": "" for i in range(MAX_ANNOTATIONS + 1)}, "jobs[0].annotations"),
        (["a"], "jobs[0].annotations"),
    ],
)
def test_other_texts_are_refused(notes, at):
    raw = json.loads(json.dumps(PLAIN))
    raw["jobs"][0]["annotations"] = notes
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    assert at in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000
