"""What a plan says of itself is told apart from what it does, and who waits may be left out."""

import re
from pathlib import Path
from random import Random

import pytest

from placewright import Edits, compare, load_round, solve_round, verify, whatif
from placewright.explain.audit import audit
from placewright.explain.kinds import explain_all
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.verify import rule_ids
from placewright.instances.verify.result import STATEMENTS
from placewright.report.page import render_report
from placewright.rounds import prove_bounds

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "instances" / "library"


def test_rules_of_statements_are_rules_and_the_page_marks_them():
    assert set(rule_ids()) >= STATEMENTS
    text = (ROOT / "docs" / "reference" / "rules.md").read_text()
    marked = re.findall(r"^\| `([a-z_]+)` \*says\*", text, re.MULTILINE)
    assert marked == [one for one in rule_ids() if one in STATEMENTS]


@pytest.mark.parametrize("name", ["quickstart", "hived", "muri", "chronus", "backfill-easy", "afs"])
def test_who_waits_may_be_left_out_and_the_order_is_free(name):
    round_ = load_round(LIBRARY / f"{name}.yaml")
    plan = solve_round(round_, time_limit=2, isolation="none")
    decisions = [one for one in plan.decisions if one.decision is not DecisionKind.WAIT]
    Random(1).shuffle(decisions)
    foreign = plan.model_copy(
        update={"decisions": tuple(decisions), "certificate": None, "round": None}
    )
    found = verify(round_, foreign)
    statements = {"lease_reason"} if name == "chronus" else set()
    assert {one.rule for one in found.violations} <= statements
    assert found.placement_ok
    assert found.terms == verify(round_, plan).terms
    bounds = prove_bounds(round_, foreign, time_limit=1, isolation="none")
    assert {term.name: term.value for term in bounds} == found.terms
    changes = compare(round_, plan, round_, foreign).jobs
    assert all(one.before.tasks == one.after.tasks for one in changes if one.before and one.after)
    assert audit(round_, foreign, time_limit=1, isolation="none").ok
    assert "<html" in render_report(round_, foreign)
    if found.ok:
        explain_all(round_, foreign, time_limit=1, isolation="none")
        assert whatif(round_, Edits(edits=()), plan=foreign, isolation="none").comparison.is_empty
