"""Policy `gang` where links decide: rounds of `gang` and `priorities` with link matrices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from random import Random

from fuzz.book.gangs import plans
from fuzz.drawing import chance
from fuzz.policies import gang, priorities
from fuzz.policy import Raw

MAX_PLANS = 3_000
CLASSES = {
    "NV2": {"kind": "nvlink", "bandwidth_mbps": 400},
    "NV1": {"kind": "nvlink", "bandwidth_mbps": 200},
    "PIX": {"kind": "pcie", "bandwidth_mbps": 100},
    "SYS": {"kind": "system", "bandwidth_mbps": 60},
}


def draw(rng: Random) -> Raw:
    """Draw a round of gangs in which most hosts have links, and most tasks ask for some."""
    round_ = gang.draw(rng) if chance(rng, 0.7) else priorities.draw(rng)
    hosts = round_["cluster"]["hosts"]
    round_["cluster"]["gpu_links"] = [
        _matrix(rng, f"m{gpus}{variant}", gpus)
        for gpus in sorted({host["gpus"] for host in hosts})
        for variant in "ab"
    ]
    round_["cluster"]["gpu_links"] = [m for m in round_["cluster"]["gpu_links"] if m["gpus"]]
    for host in hosts:
        if host["gpus"] and chance(rng, 0.9):
            host["gpu_links"] = f"m{host['gpus']}{rng.choice('ab')}"
    for job in round_["jobs"]:
        for option in job["options"]:
            for group in option["groups"]:
                if "running" not in job and 1000 <= group.get("gpu", 0) < 3000 and chance(rng, 0.5):
                    group["gpu"] = 2000
                if group.get("gpu", 0) >= 2000 and chance(rng, 0.8):
                    group["gpu_links"] = _asked(rng)
    terms: list[str] = round_["policy"]["terms"]
    if chance(rng, 0.85):
        terms.insert(rng.randint(0, len(terms)), "gpu_links")
    return round_


def _matrix(rng: Random, name: str, gpus: int) -> Raw:
    words = rng.choice(
        (list(CLASSES), ["NV2", "SYS"], ["NV2", "SYS"], ["NV1"], ["NV2", "PIX", "-"])
    )
    pairs = {pair: rng.choice(words) for pair in combinations(range(gpus), 2)}
    rows = [
        " ".join("X" if i == j else pairs[min(i, j), max(i, j)] for j in range(gpus))
        for i in range(gpus)
    ]
    return {"name": name, "classes": CLASSES, "gpus": rows}


def _asked(rng: Random) -> Raw:
    asked: Raw = {}
    if chance(rng, 0.4):
        asked["required"] = rng.choice(("nvlink", "nvlink", "pcie", "system"))
    if chance(rng, 0.15):
        asked["at_least_mbps"] = rng.choice((60, 150, 400))
    if chance(rng, 0.4):
        asked["joined"] = rng.choice(("ring", "path"))
    if chance(rng, 0.3):
        asked["measure"] = "pairs"
    return asked


POLICY = replace(gang.POLICY, name="links", draw=draw, plans=partial(plans, most=MAX_PLANS))
