"""Crowded rounds of three priorities: some hundred are played, and planted faults are found."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import fuzz.book.facts
import fuzz.book.gangs
import fuzz.policies
import fuzz.run
from examples import examples

ROOT = Path(__file__).parents[2]
ROUNDS = examples(day=10, nightly=200)
FEATURES = {
    "a job is to migrate",
    "a job is to preempt",
    "2 priority classes",
    "3 priority classes",
    "quotas",
    "guarantees",
    "shares of GPUs",
    "CPU and memory",
    "running jobs",
    "invalid jobs",
    "aging",
    "held or not before",
    "budget that binds",
    "waits: quota",
    "waits: capacity",
    "waits: displaced_by_priority",
    "waits: not_chosen",
}
Raw = dict[str, Any]


def test_nothing_fails_in_crowded_rounds_and_each_feature_is_met():
    state = fuzz.run.run(fuzz.policies.POLICIES["priorities"], ROUNDS, 0, None, lambda *_: None)
    assert not state.failures
    assert all(state.features.get(name, 0) >= examples(day=0, nightly=5) for name in FEATURES)


def job(name: str, priority: int, gpu: int, tenant: str = "t", **more: Any) -> Raw:
    options = [{"groups": [{"gpu": 1000 * gpu}]}]
    return {"name": name, "priority": priority, "tenant": tenant, "options": options, **more}


def runs(host: str, *gpus: int) -> Raw:
    return {"running": {"tasks": [{"host": host, "gpus": list(gpus)}]}}


def round_of(hosts: int, jobs: list[Raw], quota: int | None = None, **policy: Any) -> Raw:
    names = sorted({job_["tenant"] for job_ in jobs})
    quotas = {} if quota is None else {"quota": {"gpu": 1000 * quota}}
    return {
        "cluster": {
            "levels": [],
            "domains": [],
            "hosts": [{"name": f"h{i}", "gpus": 8, "gpu_model": "A"} for i in range(hosts)],
        },
        "tenants": [{"name": name, **quotas} for name in names],
        "jobs": jobs,
        "policy": {"terms": ["value"], **policy},
    }


def start(name: str, host: str, *gpus: int, kind: str = "start") -> Raw:
    tasks = [{"host": host, "gpus": list(gpus)}]
    return {"job": name, "decision": kind, "option": 0, "tasks": tasks}


def stop(name: str, *by: str) -> Raw:
    return {"job": name, "decision": "preempt", "displaced_by": list(by)}


V1, V2 = job("v1", 1, 2, **runs("h0", 4, 5)), job("v2", 1, 2, **runs("h0", 6, 7))
OLD = job("old", 1, 4, **runs("h0", 0, 1, 2, 3))
KEPT = start("old", "h0", 0, 1, 2, 3, kind="keep")


# The counterexamples of the issue, and a set of displacers that is too small or too large.
@pytest.mark.parametrize(
    ("round_", "decisions", "wrong"),
    [
        (
            round_of(
                4,
                [
                    job("old", 1, 2, "a", **runs("h0", 0, 1)),
                    job("new", 1, 8, "a"),
                    job("tiny", 2, 1, "b"),
                ],
                quota=8,
            ),
            [stop("old", "tiny"), start("new", "h1", *range(8)), start("tiny", "h0", 0)],
            "it breaks preemption",
        ),
        (
            round_of(1, [OLD, V1, V2, job("n", 2, 2), job("x", 1, 2)]),
            [
                KEPT,
                stop("v1", "n"),
                stop("v2", "n"),
                start("n", "h0", 4, 5),
                start("x", "h0", 6, 7),
            ],
            "it breaks preemption",
        ),
        (
            round_of(1, [OLD, V1, V2, job("n", 2, 2)]),
            [KEPT, stop("v1", "n"), stop("v2", "n"), start("n", "h0", 4, 5)],
            "it breaks preemption",
        ),
        (
            round_of(
                2,
                [
                    job("v", 1, 8, **runs("h0", *range(8))),
                    job("h", 2, 8, **runs("h1", *range(8))),
                    job("x", 1, 8),
                ],
            ),
            [
                stop("v", "h"),
                start("h", "h0", *range(8), kind="migrate"),
                start("x", "h1", *range(8)),
            ],
            "it breaks preemption",
        ),
        (
            round_of(1, [OLD, V1, V2, job("n", 2, 2), job("m", 2, 2)]),
            [
                KEPT,
                stop("v1", "n", "m"),
                stop("v2", "m"),
                start("n", "h0", 4, 5),
                start("m", "h0", 6, 7),
            ],
            "['n', 'm'] are no minimal set that displaces v1",
        ),
        (
            round_of(1, [OLD, V1, V2, job("n", 2, 2), job("m", 2, 2)]),
            [
                KEPT,
                stop("v1", "n"),
                stop("v2"),
                start("n", "h0", 4, 5),
                start("m", "h0", 6, 7),
            ],
            "[] are no minimal set that displaces v2",
        ),
        (
            round_of(1, [OLD, V1, V2, job("n", 2, 2), job("m", 2, 2)]),
            [
                KEPT,
                stop("v1", "n"),
                stop("v2", "m"),
                start("n", "h0", 4, 5),
                start("m", "h0", 6, 7),
            ],
            "",
        ),
    ],
)
def test_the_rule_book_judges_preemption_by_need(round_, decisions, wrong):
    assert fuzz.book.gangs.fault(round_, {"decisions": decisions}) == wrong


def test_the_rule_book_compares_values_and_classes_with_the_certificate():
    round_ = round_of(1, [job("low", 0, 8), job("high", 1, 4)])
    plan = {"decisions": [{"job": "low", "decision": "wait"}, start("high", "h0", 0, 1, 2, 3)]}
    levels = [{"cells": False, "entitled": True, "priority": p} for p in (1, 0)]
    told = [
        {"name": "value_1", "value": 4000, "precedences": levels[:1]},
        {"name": "value_2", "value": 0, "precedences": levels[1:]},
    ]
    fault = fuzz.book.gangs.fault
    assert not fault(round_, {**plan, "certificate": {"terms": told}})
    other = [told[0], {**told[1], "value": 8000}]
    assert "its terms are" in fault(round_, {**plan, "certificate": {"terms": other}})
    other = [told[0], {**told[1], "precedences": levels}]
    assert "classes are" in fault(round_, {**plan, "certificate": {"terms": other}})


def test_values_grow_with_age_and_who_is_held_starts_in_no_plan():
    jobs = [
        job("old", 0, 4, submitted=70),
        job("later", 0, 2, submitted=70, not_before=101),
        job("held", 0, 2, held=True),
    ]
    round_ = round_of(1, jobs, aging={"doubles_after_s": 20, "limit": 2}) | {"now": 100}
    plans = [judged for judged in fuzz.book.gangs.plans(round_, Random(0)) if not judged.broken]
    assert [dict(judged.terms) for judged in plans] == [{"value": 0}, {"value": 8000}]
    assert all(d["decision"] == "wait" for p in plans for d in p.document()["decisions"][1:])


@pytest.mark.parametrize(
    "part",
    [
        {"tenant": "who"},
        {"options": [{"groups": [{"gpu": 1000, "hosts": ["h9"]}]}]},
        {"options": [{"groups": [{"gpu": 1000, "gpu_models": ["B"]}]}]},
        {"options": [{"groups": [{"gpu": 1000, "required": "rack"}]}]},
        {"options": [{"required": "rack", "groups": [{"gpu": 1000}]}]},
    ],
    ids=str,
)
def test_who_names_what_is_not_there_is_invalid_and_waits_in_every_plan(part):
    round_ = round_of(1, [job("good", 0, 8), job("bad", 1, 4)])
    round_["jobs"][1] |= part
    assert fuzz.book.facts.Facts(round_).invalid == {"bad"}
    plans = list(fuzz.book.gangs.plans(round_, Random(0)))
    valid = [judged.document() for judged in plans if not judged.broken]
    assert len(valid) == 2  # `good` starts or waits
    waits = {"job": "bad", "decision": "wait", "reason": "invalid"}
    assert all(plan["decisions"][1] == waits for plan in valid)
    assert "invalid_job" in {judged.broken for judged in plans}
