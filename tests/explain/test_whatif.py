"""What if: an added rack that starts nobody, quotas that do, and the page that says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from placewright.explain.comparison import WaitingJobs, conclusions, quota_text
from placewright.explain.whatif import whatif
from placewright.instances.documents.plan import DecisionKind, Reason
from placewright.instances.documents.round import Round
from placewright.instances.edits.sentences import sentence_of
from placewright.instances.io.files import load_round, parse_edits, parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "what-if.md").read_text()
HEAD = {"apiVersion": "placewright/v1alpha2"}


def pending(name: str, tenant: str, gpu: int, count: int = 1, **fields: Any) -> dict[str, Any]:
    groups = [{"count": count, "gpu": gpu, **fields}]
    return {"name": name, "tenant": tenant, "options": [{"groups": groups}]}


@pytest.fixture(scope="module")
def full() -> Round:
    """Racks of eight hosts and tenants whose quotas, together, are less than the cluster."""
    racks = ("r1", "r2")
    running = [
        {
            **pending(f"{tenant}-runs", tenant, 8, hosts),
            "running": {
                "tasks": [
                    {"index": i, "host": f"{rack}n{i + 1}", "gpus": list(range(8))}
                    for i in range(hosts)
                ]
            },
        }
        for tenant, rack, hosts in (("research", "r1", 4), ("product", "r2", 2))
    ]
    return parse_round(
        {
            **HEAD,
            "kind": "Round",
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": rack, "level": "rack"} for rack in racks],
                "hosts": [
                    {"name": f"{rack}n[1-8]", "parent": rack, "gpus": 8, "gpu_model": "H100"}
                    for rack in racks
                ],
            },
            "tenants": [
                {"name": "research", "quota": {"gpu": 40}},
                {"name": "product", "quota": {"gpu": 16}},
            ],
            "jobs": [
                *running,
                pending("r01", "research", 8, 2, required="rack"),
                pending("r02", "research", 8),
                pending("r03", "research", 4),
                pending("p01", "product", 8),
                pending("wide", "research", 8, 12, required="rack"),
            ],
        }
    )


def asked(round_: Round, *edits: dict[str, Any]) -> Any:
    return whatif(round_, parse_edits({"edits": list(edits)}), isolation="none")


def test_a_rack_added_where_quotas_are_full_starts_nobody_and_the_answer_names_the_quotas(full):
    answer = asked(full, {"add": {"like": "r2"}})
    found = answer.comparison
    assert not found.jobs
    assert {one.verdict for one in found.terms} == {"same"}
    said = conclusions(found)
    assert said[:2] == (
        "Every job is decided as before.",
        "Nobody starts who did not start before.",
    )
    assert said[2] == (
        "3 of 4 waiting jobs wait for a quota: tenant research uses 40 of 40 GPUs, "
        "tenant product uses 16 of 16 GPUs."
    )
    raised = asked(full, {"quota": {"research": {"more": {"gpu": 16}}}}).comparison
    assert {one.job.name for one in raised.of("starts")} == {"r01"}
    assert next(one for one in raised.terms if one.term.name == "value").verdict == "proven"


def test_the_second_plan_is_a_verified_plan_of_the_edited_round(full):
    answer = asked(full, {"fail": ["r1n1"]}, {"submit": [pending("new", "product", 8)]})
    assert verify(answer.round_after, answer.after).ok
    assert verify(answer.round, answer.before).ok
    assert answer.round is full


def test_a_plan_that_is_given_is_not_searched_again_and_has_to_be_valid(full):
    plan = solve_round(full, isolation="none", time_limit=0.0)
    edits = parse_edits({"edits": [{"remove": ["wide"]}]})
    assert whatif(full, edits, plan=plan, isolation="none").before is plan
    broken = plan.model_copy(update={"decisions": plan.decisions[1:]})
    with pytest.raises(ValueError, match="one_decision"):
        whatif(full, edits, plan=broken, isolation="none")


def test_the_search_begins_with_the_plan_of_the_similar_round(full):
    """With no time beyond the greedy plan the better plan of before is kept."""
    plan = solve_round(full, isolation="none")
    raised = asked(full, {"quota": {"product": {"more": {"gpu": 1}}}}).round_after
    found = solve_round(raised, start=plan, time_limit=0.0, isolation="none")
    assert [d.tasks for d in found.decisions] == [d.tasks for d in plan.decisions]
    fewer = asked(full, {"quota": {"research": {"less": {"gpu": 8}}}}).round_after
    other = solve_round(fewer, start=plan, isolation="none")
    assert verify(fewer, other).ok
    assert not any("start" in what for what in other.certificate.degraded)


def test_an_interrupt_before_there_is_a_plan_of_the_round_ends_the_question(full, monkeypatch):
    plan = solve_round(full, isolation="none")
    cut = plan.certificate.model_copy(update={"degraded": ("interrupted",)})
    monkeypatch.setattr(
        "placewright.explain.whatif.solve_round",
        lambda *_, **__: plan.model_copy(update={"certificate": cut}),
    )
    with pytest.raises(KeyboardInterrupt):
        asked(full, {"fail": ["r1n1"]})


def test_the_example_of_the_page_is_answered_as_it_says(tmp_path):
    document = re.search(
        r"^```yaml\n(apiVersion: [^`]*kind: Round.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    file = tmp_path / "full-quota.yaml"
    file.write_text(document[1])
    text = re.search(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    edits = parse_edits({"edits": [{"add": {"like": "r1"}}]})
    answer = whatif(load_round(file), edits, isolation="none")
    assert text.splitlines() == [
        "What if, in round full-quota:",
        *(f"  {sentence_of(edit)}" for edit in edits.edits),
        "",
        *conclusions(answer.comparison),
    ]
    raised = asked(load_round(file), {"quota": {"research": {"more": {"gpu": 8}}}})
    (started,) = raised.comparison.of("starts")
    assert started.before.reason is Reason.QUOTA
    assert started.after.decision is DecisionKind.START


def test_the_edits_of_the_page_are_edits():
    text = re.search(
        r"^```yaml\n(apiVersion: [^`]*kind: Edits.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )[1]
    from placewright.instances.io.yaml_json import parse_yaml

    assert len(parse_edits(parse_yaml(text)).edits) == 6


def test_what_the_second_search_found_by_chance_is_no_difference(full):
    """Before stands a plan without a better one: that of the edited round is taken over."""
    round_ = parse_round(
        {
            **HEAD,
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 4, "gpu_model": "A"}]},
            "jobs": [
                {"name": "x", "options": [{"groups": [{"gpu": 2}]}]},
                {"name": "y", "options": [{"groups": [{"gpu": 2}]}]},
                {"name": "idle", "options": [{"groups": [{"gpu": 8}]}]},
            ],
        }
    )
    plans = [solve_round(round_, isolation="none", time_limit=limit) for limit in (0.0, None)]
    worse = plans[0].model_copy(
        update={"certificate": plans[0].certificate.model_copy(update={"status": "feasible"})}
    )
    asked_for: list[Any] = []

    def solve(one: Round, **how: Any) -> Any:
        asked_for.append((len(one.jobs), how.get("start") is not None, how.get("time_limit")))
        if len(asked_for) == 1:
            waits = tuple(
                d.model_copy(update={"decision": "wait", "option": None, "tasks": ()})
                for d in worse.decisions
            )
            terms = tuple(
                t.model_copy(update={"value": 0, "bound": None}) for t in worse.certificate.terms
            )
            certificate = worse.certificate.model_copy(update={"terms": terms})
            return worse.model_copy(update={"decisions": waits, "certificate": certificate})
        return solve_round(one, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("placewright.explain.whatif.solve_round", solve)
        answer = asked(round_, {"remove": ["idle"]})
    assert asked_for == [(3, False, None), (2, True, None), (3, True, 0.0), (3, True, None)]
    assert [one.change for one in answer.comparison.jobs] == ["gone"]
    assert answer.before.certificate.status == "optimal"


def test_a_quota_that_nobody_uses_is_told_by_what_it_allows() -> None:
    used = WaitingJobs(Reason.QUOTA, ("a",), 8000, "t", "gpu", 4000, 8000)
    assert quota_text(used) == "tenant t uses 4 of 8 GPUs"
    assert quota_text(used._replace(used=0)) == "tenant t may hold 8 GPUs"
    assert quota_text(used._replace(used=None, limit=None)) == ""
