"""Preemption by need of one of the jobs on a GPU: those that take turns on it, and shares of it."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

Raw = dict[str, Any]


def job(name: str, gpu: str, priority: int = 0, *, runs: bool = False, **more: Any) -> Raw:
    group = {"gpu": gpu, "cpu": more.pop("cpu", 0)}
    profile = {"stages": [10, 0, 10, 0], **more.pop("profile", {})}
    made = {"name": name, "priority": priority, "options": [{"groups": [group]}], **more}
    return made | {"profile": profile} | ({"running": at(0)} if runs else {})


def at(gpu: int) -> Raw:
    return {"tasks": [{"host": "h", "gpus": [gpu]}]}


def placed(kind: str, name: str, gpu: int) -> Raw:
    return {"job": name, "decision": kind, "option": 0, **at(gpu)}


def rules_of(
    jobs: list[Raw], mate_on: int, high_on: int, *groups: Raw, **sharing: Any
) -> list[str]:
    """The rules broken where `low` stops for `high` on a host of 2 GPUs, and `mate` stays."""
    host = {"name": "h", "gpus": 2, "gpu_model": "T4", "cpu": 10}
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [host]},
            "jobs": jobs,
            "sharing": sharing,
            "policy": {"formulation": "interleaving"},
        }
    )
    sections: list[Raw] = [{"kind": "groups", "groups": list(groups)}] if groups else []
    sections.append({"kind": "moves", "steps": ["low"], "needs_spare": []})
    decisions = [
        {"job": "low", "decision": "preempt", "displaced_by": ["high"]},
        placed("keep", "mate", mate_on),
        placed("start", "high", high_on),
    ]
    found = verify(round_, Plan.model_validate({"decisions": decisions, "sections": sections}))
    return list(dict.fromkeys(violation.rule for violation in found.violations))


TURN: Raw = {
    "members": [{"job": "mate", "offset": 0}, {"job": "high", "offset": 2}],
    "period": 20,
}
NEEDLESS = ["displaced_by", "preemption"]


@pytest.mark.parametrize(
    ("high_on", "groups", "rules"), [(0, [TURN], []), (1, [], NEEDLESS)], ids=["there", "beside"]
)
def test_who_takes_turns_stops_for_who_takes_its_turn(
    high_on: int, groups: list[Raw], rules: list[str]
) -> None:
    jobs = [job("low", "1", runs=True), job("mate", "1", runs=True), job("high", "1", 1)]
    assert rules_of(jobs, 0, high_on, *groups) == rules


@pytest.mark.parametrize(("high_on", "rules"), [(0, []), (1, NEEDLESS)], ids=["there", "beside"])
def test_shares_of_a_gpu_are_no_group_that_runs(high_on: int, rules: list[str]) -> None:
    """Beside each other they have a GPU of theirs each, and no memory at a percentile."""
    series = {"memory": ["2Gi", "8Gi"]}
    jobs = [
        job("low", "500m", runs=True, profile=series),
        job("mate", "500m", runs=True, profile=series),
        job("high", "500m", 1),
    ]
    assert rules_of(jobs, 0, high_on) == rules


def test_the_cpu_of_shares_is_the_sum_of_all() -> None:
    jobs = [
        job("low", "500m", cpu=4, runs=True),
        job("mate", "500m", cpu=4, runs=True),
        job("high", "500m", 1, cpu=4),
    ]
    assert rules_of(jobs, 0, 1) == []


def test_a_job_that_keeps_out_of_others_domains_is_in_no_group_that_runs() -> None:
    label = {"anti_affinity": {"label": "service", "level": "host"}}
    jobs = [
        job("low", "500m", runs=True, **label),
        job("mate", "500m", runs=True),
        job("high", "500m", 1),
    ]
    assert rules_of(jobs, 0, 0) == []
