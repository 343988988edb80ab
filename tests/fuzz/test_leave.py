"""Tiny rounds that say who may preempt whom: all plans by brute force, on every backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples import examples
from fuzz import drawing_caps, policies, run

ROUNDS = examples(day=4, nightly=25)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("settings", ["exact", "counting"])
def test_nothing_fails_where_rules_say_who_may_preempt_whom(settings):
    policy = policies.POLICIES["gang"]
    chosen = tuple(s for s in policy.settings if s.name == settings)

    def draw(rng):
        while True:
            raw = policy.draw(rng)
            running = [job for job in raw["jobs"] if job.get("running")]
            pending = [job for job in raw["jobs"] if not job.get("running")]
            if len(running) > 1 and pending and len(raw.get("tenants", ())) > 1:
                drawing_caps.draw_leave(rng, raw)
                for tenant in raw["tenants"]:
                    tenant.setdefault("guarantee", {"gpu": rng.choice((0, 1000))})
                    most = tenant.get("quota", {}).get("gpu", 1000)
                    tenant["guarantee"]["gpu"] = min(most, tenant["guarantee"]["gpu"])
                for job in pending:
                    job["priority"] = rng.choice((0, 1, 2, 2))
                for job in raw["jobs"]:
                    job["tenant"] = rng.choice(raw["tenants"])["name"]
                return raw

    state = run.run(replace(policy, draw=draw, settings=chosen), ROUNDS, 0, None, lambda *_: None)
    assert state.rounds == ROUNDS
    assert not state.failures
    assert state.features["leave to preempt"] > ROUNDS // 2
