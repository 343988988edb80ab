"""Rounds in which one job waits and nobody moves: every plan and bound beside all plans."""

from __future__ import annotations

from collections import Counter
from random import Random

from examples import examples
from fuzz.play import play
from fuzz.policies.interleaving import POLICY, RATES
from fuzz.policy import Raw, TooManyPlansError

NOBODY = {"disruption": {"preempted_jobs": 0, "migrated_jobs": 0}}


def with_one_arrival(rng: Random) -> Raw:
    """A tiny round in which one job waits, running ones are pinned or may not be disrupted."""
    round_ = POLICY.draw(rng)
    waiting = [job for job in round_["jobs"] if "running" not in job]
    left = rng.choice(waiting) if waiting else None
    round_["jobs"] = [job for job in round_["jobs"] if "running" in job or job is left]
    names = {job["name"] for job in round_["jobs"]}
    pairs = round_["sharing"].get("conflicts", [])
    round_["sharing"]["conflicts"] = [pair for pair in pairs if names.issuperset(pair)]
    lead = rng.choice(RATES)
    more = rng.sample(("disruption", "spread", "opened"), rng.randint(0, 2))
    policy = round_["policy"] = {"formulation": "interleaving", "terms": [lead, *more]}
    policy |= {"limits": NOBODY} if rng.random() < 0.9 else {}
    if rng.random() < 0.5:
        policy["priority"] = "preemption"
    return round_


def test_plans_and_bounds_beside_all_plans() -> None:
    seen = Counter[str]()
    for seed in range(examples(day=60, nightly=150)):
        rng = Random(seed)
        try:
            raw = with_one_arrival(rng)
            played = play(POLICY, raw, seed)
        except TooManyPlansError:
            continue
        assert played.failures == [], seed
        if played.solved is None or played.solved.certificate is None:
            continue
        first = played.solved.certificate.terms[0]
        seen["rounds"] += 1
        seen["proven"] += first.bound == first.value
        seen["joined"] += any(one["kind"] == "groups" for one in played.solved.sections)
        seen["waits"] += any(one.decision == "wait" for one in played.solved.decisions)
    assert seen["joined"] > examples(day=0, nightly=5)
    assert seen["waits"] > examples(day=0, nightly=20)
    assert seen["proven"] > 0.95 * seen["rounds"]
