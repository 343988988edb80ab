"""Tiny rounds where shares and MIG slices want the same GPUs, and some run, against all plans."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples import by_day, tried

ROOT = Path(__file__).parents[2]
ASKS: tuple[dict[str, Any], ...] = (
    {"gpu": 250},
    {"gpu": 400},
    {"gpu": 700},
    {"gpu": 1000},
    {"mig": "1g.20gb"},
    {"mig": "2g.20gb"},
    {"mig": "3g.40gb"},
    {"mig": "4g.40gb"},
)
Raw = dict[str, Any]


def drawn(rng: Random, settle: Callable[..., None]) -> Raw:
    """One or two hosts of one or two GPUs; up to five jobs of one or two tasks and priorities."""
    hosts = [
        {"name": f"h{i}", "gpus": rng.choice((1, 2)), "gpu_model": "A100-SXM4-80GB"}
        for i in range(rng.choice((1, 1, 2)))
    ]
    round_: Raw = {"now": 100, "cluster": {"levels": [], "domains": [], "hosts": hosts}}
    round_ |= {"jobs": [], "policy": {"terms": ["value", "disruption"][: rng.choice((1, 1, 2))]}}
    jobs = [
        {
            "name": f"j{i}",
            "options": [{"groups": [dict(rng.choice(ASKS)) for _ in range(rng.choice((1, 1, 2)))]}],
            "priority": rng.choice((0, 0, 1, 2)),
        }
        for i in range(rng.choice((3, 4, 4, 5)))
    ]
    if rng.random() < 0.5:
        round_["policy"]["priority"] = "preemption"
        for job in jobs:
            job["options"][0]["value"] = rng.choice((100, 500, 1000, 3000))
    running = rng.choice((1, 2, 2, 3))
    settle(rng, round_, jobs[:running])
    for job in jobs[:running]:
        job["priority"] = rng.choice((0, 0, 1))
    round_["jobs"] += [job for job in jobs if "running" not in job]
    return round_


def test_no_plan_is_invalid_and_no_bound_is_beaten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    names = ("drawing", "play", "policy", "policies")
    drawing, play, policy, policies = (importlib.import_module(f"fuzz.{name}") for name in names)
    for seed in by_day(range(tried(60)), 2):
        round_ = drawn(Random(f"shares beside slices {seed}"), drawing.settle)
        try:
            played = play.play(policies.POLICIES["gang"], round_, seed)
        except policy.TooManyPlansError:
            continue
        assert not played.failures, seed
