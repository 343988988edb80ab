"""Host sets in an explanation: a fact for each set, and a change that takes it away."""

from __future__ import annotations

from typing import Any

from placewright.explain.corrections.own import own_changes
from placewright.explain.facts.asks import asks
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.io.files import parse_round


def round_of(*groups: dict[str, Any]) -> Round:
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h[0-3]", "gpus": 8, "gpu_model": "H100"}]},
            "host_sets": {"partition/a": ["h[0-1]"], "feature/b": ["h[1-2]"]},
            "jobs": [{"name": "j", "options": [{"groups": [{"gpu": 8, **g} for g in groups]}]}],
        }
    )


BOTH = {"host_sets": ["partition/a", "feature/b"]}


def sets_of(round_: Round) -> list[tuple[str, ...]]:
    return [group.host_sets for group in round_.jobs[0].options[0].groups]


def test_each_set_is_a_fact_and_its_edit_takes_it_from_all_groups():
    round_ = round_of(BOTH, {"host_sets": ["feature/b"]}, {})
    facts = {f.about["host_set"]: f for f in asks(round_, "j") if f.kind == "host_set"}
    assert list(facts) == ["partition/a", "feature/b"]
    assert facts["feature/b"].text == "on hosts of host set feature/b only"
    assert sets_of(facts["feature/b"].edit(round_)) == [("partition/a",), (), ()]
    assert sets_of(facts["partition/a"].edit(round_)) == [("feature/b",), ("feature/b",), ()]


def test_the_owner_may_do_without_each_set():
    round_ = round_of(BOTH)
    steps = [s for s in own_changes(round_, round_.jobs[0]) if getattr(s, "kind", "") == "any_host"]
    texts = [step.strongest.text for step in steps]
    assert texts == [
        "allow hosts outside of host set partition/a, too",
        "allow hosts outside of host set feature/b, too",
    ]
    left = [sets_of(apply_edits(round_, Edits(edits=step.strongest.edits))) for step in steps]
    assert left == [[("feature/b",)], [("partition/a",)]]
