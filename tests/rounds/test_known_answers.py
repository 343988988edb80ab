"""Every bundled round is solved to the answer that its comment states, and proven optimal."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from placewright import load_round, solve_round, verify
from placewright.instances import verify as verification
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason

LIBRARY = Path(verification.__file__).parents[1] / "library"
NAMES = sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def stated_terms(name: str) -> dict[str, int]:
    text = (LIBRARY / f"{name}.yaml").read_text(encoding="utf-8")
    (answer,) = re.findall(r"^# Answer: (.*)$", text, flags=re.MULTILINE)
    return {term: int(value) for term, value in (part.split() for part in answer.split(", "))}


def solve(name: str) -> Plan:
    return solve_round(load_round(LIBRARY / f"{name}.yaml"), time_limit=20.0)


def decisions(plan: Plan) -> dict[str, Decision]:
    return {decision.job: decision for decision in plan.decisions}


def tasks_per_host(decision: Decision) -> dict[str, int]:
    return dict(Counter(task.host for task in decision.tasks))


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_round_is_solved_to_its_stated_answer(name: str) -> None:
    plan = solve(name)
    checked = verify(load_round(LIBRARY / f"{name}.yaml"), plan)
    assert checked.ok, checked.violations
    assert checked.terms == stated_terms(name)
    assert plan.certificate is not None
    assert plan.certificate.terms[0].gap == 0
    assert plan.certificate.degraded == ()


@pytest.mark.parametrize(
    ("name", "placed"),
    [
        ("knavigator-nwtopo", {"replicas": {"n5": 1, "n7": 1, "n8": 1}}),
        ("kueue-4474", {"workload-a": {"x2": 1, "x3": 1}, "workload-b": {"x1": 1}}),
        ("kueue-best-fit", {"pods": {"x1": 3, "x2": 3, "x4": 1}}),
        ("kueue-best-fit-slices", {"slices": {"x1": 3, "x3": 2, "x5": 1}}),
        ("fgd", {"pod": {"h2": 1}}),
    ],
)
def test_a_unique_optimum_is_the_one_that_is_found(
    name: str, placed: dict[str, dict[str, int]]
) -> None:
    found = decisions(solve(name))
    assert {job: tasks_per_host(found[job]) for job in placed} == placed


def test_a_consolidated_job_without_whole_hosts_waits_for_capacity() -> None:
    found = decisions(solve("helios-7-7-7"))["consolidated"]
    assert (found.decision, found.reason) == (DecisionKind.WAIT, Reason.CAPACITY)


def test_the_rest_of_a_consolidated_job_goes_to_the_host_in_use() -> None:
    found = decisions(solve("helios-8-8-4"))["consolidated"]
    (rest,) = (task for task in found.tasks if task.group == 1)
    assert rest.host == "h3"


def test_the_quickstart_shows_each_reason_that_it_is_made_for() -> None:
    found = decisions(solve("quickstart"))
    assert {name: d.reason for name, d in found.items() if d.decision is DecisionKind.WAIT} == {
        "pretrain-next": Reason.QUOTA,
        "colossus": Reason.NEVER_FITS,
        "render": Reason.NOT_CHOSEN,
        "homework": Reason.QUOTA,
    }
    assert found["finetune"].option == 0
    assert {name for name, d in found.items() if d.decision is DecisionKind.KEEP} == {
        "train",
        "serve",
    }


def test_each_reason_to_wait_has_its_facts() -> None:
    found = decisions(solve("why-jobs-wait"))
    waiting = {name: d for name, d in found.items() if d.decision is DecisionKind.WAIT}
    late = next(name for name in waiting if name.startswith("train"))
    assert {name: d.reason for name, d in waiting.items()} == {
        late: Reason.QUOTA,
        "index": Reason.CAPACITY,
        "wide": Reason.NEVER_FITS,
        "newest": Reason.HOSTS_AWAY,
        "casual": Reason.DISPLACED_BY_PRIORITY,
        "peer": Reason.NOT_CHOSEN,
    }
    facts = {name: d.detail.model_dump() for name, d in waiting.items() if d.detail is not None}
    used = {"asked": 8, "used": 16, "limit": 16, "excess": 8}
    assert facts[late] == {"tenant": "research", "resource": "gpu", **used}
    host = facts["index"].pop("host")
    assert host in {"a1", "a2", "b1", "b2"}
    lack = {"tasks": 1, "places": 0, "resource": "memory", "asked": "192Gi"}
    # A training beside the cache takes 64Gi of what is free, but the cache alone is in the way.
    assert facts["index"] == {**lack, "free": "128Gi"}
    assert facts["wide"] == {
        "level": "rack",
        "domain": "a",
        "tasks": 3,
        "places": 2,
        "resource": "gpu",
        "asked": 24,
        "free": 16,
    }
    none_left = {"tasks": 1, "places": 0, "resource": "gpu", "asked": 1, "free": 0}
    assert facts["casual"] == {"host": "edge", **none_left}
    assert "peer" not in facts


def test_a_reason_and_its_facts_make_one_sentence() -> None:
    found = decisions(solve("why-jobs-wait"))
    late = next(name for name in ("train-1", "train-2", "train-3") if found[name].reason)
    said = {
        name: reason_text(found[name].reason, found[name].detail)
        for name in (late, "wide", "newest")
    }
    assert said[late] == ("tenant research uses 16 of 16 GPUs; the job asks 8 GPUs, 8 too many")
    assert said["wide"] == (
        "at most 2 of 3 tasks fit one rack even when all is empty "
        "(rack a has 16 GPUs free, the 3 ask 24 GPUs)"
    )
    assert said["newest"] == (
        "until hosts are back: no open host may take a task even when all open hosts are empty"
    )
