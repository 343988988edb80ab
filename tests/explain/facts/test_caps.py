"""Caps in explanations: the fact, whose jobs hold what, and the least by which one is raised."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Explanation, Verdict
from placewright.instances.documents.base import API_VERSION
from placewright.instances.io.files import parse_round

Raw = dict[str, Any]


def explained(cap: Raw, *others: Raw, asks: int = 4) -> Explanation:
    """Why a job that counts in a cap waits, on hosts that have room for it."""
    group = {"gpu": asks, "gpu_models": ["H100"]}
    jobs = [
        {"name": f"r{i}", "options": [{"groups": [{"gpu": 2, "gpu_models": ["H100"]}]}], **other}
        for i, other in enumerate(others)
    ]
    for i, job in enumerate(jobs):
        job["running"] = {"pinned": True, "tasks": [{"host": f"h{i}", "gpus": [0, 1]}]}
    round_ = parse_round(
        {
            "apiVersion": API_VERSION,
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h[0-3]", "gpus": 8, "gpu_model": "H100"}]},
            "caps": {"lab": cap},
            "jobs": [{"name": "j", "caps": ["lab"], "options": [{"groups": [group]}]}, *jobs],
        }
    )
    return explain_job(round_, None, "j", corrections=5, isolation="none")


@pytest.mark.parametrize(
    ("cap", "rule", "raised"),
    [
        ({"gpus": 5}, "cap lab allows 5 GPUs (2 GPUs in use)", "raise cap lab from 5 to 6 GPUs"),
        ({"jobs": 1}, "cap lab allows 1 job (1 job in use)", "raise cap lab from 1 to 2 jobs"),
        (
            {"gpus_by_model": {"H100": 5}},
            "cap lab allows 5 GPUs of model H100 (2 GPUs of model H100 in use)",
            "raise cap lab from 5 to 6 GPUs of model H100",
        ),
    ],
)
def test_a_cap_is_a_rule_and_the_least_that_helps_is_told(cap: Raw, rule: str, raised: str) -> None:
    found = explained(cap, {"caps": ["lab"]}, {})
    assert found.verdict is Verdict.NOT_NOW
    (fact,) = [one for one in found.conflict if one.kind == "cap"]
    assert fact.text == rule
    assert "job r0 runs (2 GPUs, pinned)" in [one.text for one in found.conflict]
    assert found.corrections is not None
    texts = {one.text: [str(who) for who in one.who] for one in found.corrections.now}
    assert texts[raised] == ["admin"]


def test_a_cap_that_is_too_low_alone_is_never_enough() -> None:
    found = explained({"gpus": 3})
    assert found.verdict is Verdict.NEVER_WITHIN_RULES
    assert [one.text for one in found.conflict][-1] == "cap lab allows 3 GPUs"


def test_many_jobs_in_a_cap_are_told_apart_from_others() -> None:
    mine = {"caps": ["lab"]}
    found = explained({"gpus": 4}, mine, mine, {}, asks=2)
    held = [one for one in found.conflict if one.kind == "jobs"]
    assert all("outside of cap" not in one.text for one in held)
    assert {name for one in held for name in one.names} <= {"r0", "r1"}
