"""Policy `gang` where running jobs resize: rounds of `gang` and `priorities` with more options."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from fuzz.book.gangs import plans
from fuzz.drawing import chance, options
from fuzz.policies import gang, priorities
from fuzz.policy import Raw

MAX_PLANS = 600
"""Few, as in `priorities`: many rounds are to be played."""


def draw(rng: Random) -> Raw:
    """Draw a round in which a job runs, and let most running jobs have other sizes."""
    round_: Raw = {"jobs": []}
    while not any("running" in job for job in round_["jobs"]):
        round_ = gang.draw(rng) if chance(rng, 0.5) else priorities.draw(rng)
    for job in round_["jobs"]:
        if "running" not in job:
            continue
        running = job["running"]
        if chance(rng, 0.8):
            job["options"] += options(rng, round_["cluster"], 2)[: rng.choice((1, 1, 2))]
            running.pop("resize_costs", None)
            # Caps by GPU model ask for one model in each task group.
            by_model = {n for n, cap in round_.get("caps", {}).items() if "gpus_by_model" in cap}
            job["caps"] = [name for name in job.get("caps", ()) if name not in by_model]
        if chance(rng, 0.8):
            running.pop("pinned", None)
            running.pop("pin", None)
        if chance(rng, 0.25):
            running["pin"] = "place"
        if chance(rng, 0.5):
            running["resize_costs"] = [rng.choice((0, 500, 2500)) for _ in job["options"]]
    terms: list[str] = round_["policy"]["terms"]
    for term in ("disruption", "progress"):
        if term not in terms and chance(rng, 0.6):
            terms.insert(rng.randint(0, len(terms)), term)
    return round_


POLICY = replace(gang.POLICY, name="sizes", draw=draw, plans=partial(plans, most=MAX_PLANS))
