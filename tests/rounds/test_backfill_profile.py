"""What is free over time, asked again and again while reservations are made."""

from __future__ import annotations

import random

import numpy as np
import pytest

from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.round import Round
from placewright.rounds.backfill import profile as module
from placewright.rounds.backfill.profile import Profile, Reservation


def round_of(rng: random.Random) -> Round:
    jobs = [
        {
            "name": f"r{h}",
            "expected_runtime_s": rng.randrange(1, 9),
            "options": [{"groups": [{"gpu": 2, "cpu": 3}]}],
            "running": {"started": 0, "tasks": [{"host": f"h{h}", "gpus": [0, 1]}]},
        }
        for h in range(3)
    ]
    host = {"name": "h[0-3]", "gpus": 4, "gpu_model": "X", "cpu": 8}
    return Round.model_validate({"cluster": {"hosts": [host]}, "jobs": jobs})


def drawn(rng: random.Random, profile: Profile) -> Reservation:
    at = rng.randrange(1, 9)
    gpus = np.array([rng.randrange(3) for _ in range(4)])
    demand = np.stack([1000 * gpus, 0 * gpus], axis=1)
    return Reservation(0, 0, at, at + rng.randrange(1, 6), (), gpus, demand, ())


@pytest.mark.parametrize("most", [0, module.MOST_KNOWN])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_known_is_what_a_new_profile_says(
    monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    monkeypatch.setattr(module, "MOST_KNOWN", most)
    rng = random.Random(seed)
    problem = compile_round(round_of(rng))
    profile, ran = Profile(problem), []
    for _ in range(12):
        action = rng.randrange(4)
        if action < 2:
            profile.reserve(drawn(rng, profile))
        elif action == 2:
            profile.kept = [drawn(rng, profile) for _ in range(rng.randrange(3))]
        else:
            job = problem.round.jobs[0]
            ran.append((job, job.options[0], [(0, 3, 1, (rng.randrange(4),))]))
            profile.run(*ran[-1])
        again = Profile(problem)
        for entry in ran:
            again.run(*entry)
        for reservation in profile.reservations:
            again.reserve(reservation)
        again.kept = profile.kept
        for at in range(10):
            end = at + rng.randrange(1, 8)
            for mine, theirs in zip(profile.free(at, end), again.free(at, end), strict=True):
                assert mine.tolist() == theirs.tolist()
