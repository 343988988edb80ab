"""Leases of replays: between their boundaries nobody stops or moves, and free GPUs are used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from replay_traces import LISTS, random_spec, random_trace

from examples import by_day
from placewright.instances.traces.trace import SECOND
from placewright.rounds.policies.base import ListPolicy
from placewright.rounds.policies.named import POLICIES
from placewright.rounds.replay.loop import Loop
from placewright.rounds.replay.spec import play

LEASE_MS = 7_000_000


@pytest.mark.parametrize("seed", by_day(range(300), 40))
def test_within_a_lease_jobs_start_and_none_is_stopped_or_moved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    name = LISTS[seed % len(LISTS)]
    spec = replace(
        random_spec(rng, name), every_s=LEASE_MS // SECOND, at_most_every=False, leases=True
    )
    trace, policy = random_trace(rng, sum(spec.hosts)), POLICIES[name]
    skips = isinstance(policy, ListPolicy) and policy.skips and not policy.reserves
    before = [0, 0]

    def check(loop: Loop) -> None:
        now = [int(loop.stops.sum()), int(loop.moves.sum())]
        if loop.now % LEASE_MS:
            assert now == before
            waiting = [job for job in loop.alive if job not in loop.place]
            if skips:
                assert all(loop.ledger.find(loop.gpus[job]) is None for job in waiting)
        before[:] = now

    found = play(trace, spec, watch=check)
    assert (found.first_start_us >= trace.submit_us).all()
