"""Policy `gang` where hosts share resources: rounds of `gang` and `priorities` with pools."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from fuzz.book.gangs import plans
from fuzz.drawing import chance
from fuzz.drawing_pools import draw_pools
from fuzz.policies import gang, priorities
from fuzz.policy import Raw

MAX_PLANS = 2_000


def draw(rng: Random) -> Raw:
    """Draw a round of one of the two, and pools."""
    round_ = gang.draw(rng) if chance(rng, 0.5) else priorities.draw(rng)
    draw_pools(rng, round_)
    return round_


POLICY = replace(gang.POLICY, name="pools", draw=draw, plans=partial(plans, most=MAX_PLANS))
