"""Policy `gang` where hosts share resources: rounds of `gang` and `priorities` with pools."""

from __future__ import annotations

from functools import partial
from random import Random

from fuzz.book.features import features
from fuzz.book.gangs import fault, plans
from fuzz.book.reason_details import untrue
from fuzz.drawing import chance
from fuzz.drawing_pools import draw_pools
from fuzz.policies import gang, priorities
from fuzz.policies.gang import SETTINGS
from fuzz.policy import Policy, Raw

MAX_PLANS = 2_000


def draw(rng: Random) -> Raw:
    """Draw a round of one of the two, and pools."""
    round_ = gang.draw(rng) if chance(rng, 0.5) else priorities.draw(rng)
    draw_pools(rng, round_)
    return round_


POLICY = Policy(
    "pools",
    draw,
    partial(plans, most=MAX_PLANS),
    SETTINGS,
    untrue=untrue,
    fault=fault,
    features=features,
)
