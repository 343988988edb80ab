"""Tiny rounds in which a disruption budget binds: all plans by brute force, on every backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import fuzz.policies
import fuzz.policies.gang
import fuzz.run
from examples import examples

ROOT = Path(__file__).parents[2]
ROUNDS = examples(day=1, nightly=25)


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize(
    ("name", "settings"), [("gang", None), ("cells", None), ("gang", "counting")]
)
def test_nothing_fails_where_running_jobs_have_a_budget(name, settings):
    policy = fuzz.policies.POLICIES[name]
    chosen = tuple(s for s in policy.settings if settings in (None, s.name))

    def draw(rng):
        while True:
            raw = policy.draw(rng)
            running = [job for job in raw["jobs"] if job.get("running")]
            pending = [job for job in raw["jobs"] if not job.get("running")]
            if running and pending:
                raw["policy"]["limits"] = {"disruption": fuzz.policies.gang.disruption_limits(rng)}
                for job in pending:
                    job["priority"] = rng.choice((0, 2, 2))
                return raw

    state = fuzz.run.run(
        replace(policy, draw=draw, settings=chosen), ROUNDS, 0, None, lambda *_: None
    )
    assert state.rounds == ROUNDS
    assert not state.failures
