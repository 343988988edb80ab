"""Policy `gang`: jobs start with all tasks or wait; running ones stay, migrate or stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from fuzz.book.features import features
from fuzz.book.gangs import fault, plans
from fuzz.book.reason_details import untrue
from fuzz.drawing import NOW, chance, cluster, costs, options, settle
from fuzz.drawing_caps import draw_caps, draw_leave
from fuzz.policy import Policy, Raw, Setting
from placewright.formulations.gang import parameters

PLAIN_TERMS = ("value", "disruption", "spread", "opened", "progress", "proximity", "leftover")


def draw(rng: Random) -> Raw:
    """One to four hosts, one to five jobs, of which some run; each feature by its own chance."""
    parts = chance(rng, 0.08)
    round_: Raw = {"now": NOW, "cluster": cluster(rng, parts=parts, fabric=True), "jobs": []}
    names = [host["name"] for host in round_["cluster"]["hosts"]]
    if chance(rng, 0.4):
        round_["tenants"] = _tenants(rng)
    if chance(rng, 0.15):
        round_["reservations"] = [_reservation(rng, round_["cluster"])]
    number = rng.choice((1, 2, 2, 3, 3, 4, 5))
    jobs = [_job(rng, round_, i, parts=parts) for i in range(number)]
    many = rng.choice((0, 0, 1, 1, 2, 3))
    settle(rng, round_, jobs[:many])
    for job in round_["jobs"]:
        costs(rng, job["running"])
        if chance(rng, 0.3):
            costs_of = [rng.choice((0, 500, 2500)) for _ in job["options"]]
            job["running"]["resize_costs"] = costs_of
    round_["jobs"] += [job for job in jobs if "running" not in job]
    rng.shuffle(round_["jobs"])
    round_["policy"] = _policy(rng, round_, names)
    if chance(rng, 0.3):
        draw_caps(rng, round_)
    if chance(rng, 0.25):
        draw_leave(rng, round_)
    return round_


def _tenants(rng: Random) -> list[Raw]:
    tenants: list[Raw] = []
    for name in ("t0", "t1")[: rng.randint(1, 2)]:
        tenant: Raw = {"name": name}
        if chance(rng, 0.5):
            tenant["quota"] = {"gpu": rng.choice((500, 1000, 2000, 3000))}
            if chance(rng, 0.3):
                tenant["quota"]["cpu"] = rng.choice((1, 2, 4))
        if chance(rng, 0.4):
            most = tenant.get("quota", {}).get("gpu", 3000)
            tenant["guarantee"] = {"gpu": rng.choice((0, most // 2, most))}
        if chance(rng, 0.2):
            tenant["weight"] = rng.choice((2, 3))
        tenants.append(tenant)
    return tenants


def _reservation(rng: Random, document: Raw) -> Raw:
    host = rng.choice(document["hosts"])
    entry: Raw = {"host": host["name"]}
    if chance(rng, 0.6):
        entry["gpus"] = sorted(rng.sample(range(host["gpus"]), rng.randint(1, host["gpus"])))
    return entry


def _job(rng: Random, round_: Raw, number: int, *, parts: bool) -> Raw:
    most = rng.choice((1, 1, 2, 2, 3))
    job: Raw = {"name": f"j{number}", "options": options(rng, round_["cluster"], most, parts=parts)}
    if chance(rng, 0.5):
        job["priority"] = rng.choice((-1, 1, 2))
    if chance(rng, 0.2):
        job["weight"] = rng.choice((0, 2, 3))
    if round_.get("tenants") and chance(rng, 0.8):
        job["tenant"] = rng.choice(round_["tenants"])["name"]
        if chance(rng, 0.15):
            job["opportunistic"] = True
    if chance(rng, 0.08):
        levels = (*round_["cluster"]["levels"], "host")
        # All jobs with one label have one level.
        level = levels[len(round_["cluster"]["hosts"]) % len(levels)]
        job["anti_affinity"] = {"label": "service", "level": level}
    return job


def _policy(rng: Random, round_: Raw, names: list[str]) -> Raw:
    policy: Raw = {}
    levels = (*round_["cluster"]["levels"], "host")
    goals = ["value"] if chance(rng, 0.8) else []
    if chance(rng, 0.12):
        policy["vacate"] = rng.sample(names, rng.randint(1, min(2, len(names))))
        goals.append("remaining")
    if chance(rng, 0.12):
        policy["freeing"] = {"level": rng.choice(levels), "gpu_worth_s": rng.choice((1, 2, 6))}
        goals.append("freed")
    others = [term for term in PLAIN_TERMS if term not in goals]
    if round_.get("tenants"):
        others += ["share", "entitled", "entitled"]
    if chance(rng, 0.15):
        others += ["stranded"]
        others = ["stranded", *rng.sample(others, 2)]
    if round_["cluster"].get("links") or round_["cluster"].get("fabric"):
        others += ["bottleneck", "contention"]
    rest = list(dict.fromkeys(rng.sample(others, min(len(others), rng.randint(0, 4)))))
    rest = [term for term in rest if term not in goals]
    terms = goals + rest if chance(rng, 0.6) else rng.sample(goals + rest, len(goals + rest))
    policy["terms"] = terms or ["value"]
    if chance(rng, 0.4):
        policy["priority"] = "preemption"
    if "stranded" in terms and chance(rng, 0.5):
        policy["mix"] = [
            {"gpu": rng.choice((300, 1000, 2000, 0)), "cpu": rng.choice((0, 1)), "weight": w}
            for w in range(1, rng.randint(2, 3))
        ]
    if chance(rng, 0.3):
        policy["spread_weights"] = {
            level: rng.choice((0, 1, 3))
            for level in rng.sample(levels, rng.randint(1, len(levels)))
        }
    if chance(rng, 0.25):
        policy["limits"] = {"disruption": disruption_limits(rng)}
    return policy


def disruption_limits(rng: Random) -> Raw:
    """Draw a disruption budget."""
    limits: Raw = {}
    if chance(rng, 0.4):
        limits["preempted_jobs"] = rng.choice((0, 1, 1, 2))
    if chance(rng, 0.3):
        limits["preempted_gpus"] = rng.choice((0, 1, 2))
    if chance(rng, 0.4):
        limits["migrated_jobs"] = rng.choice((0, 0, 1))
    if chance(rng, 0.3):
        limits["resized_jobs"] = rng.choice((0, 0, 1))
    if chance(rng, 0.3):
        limits["lost_gpu_s"] = rng.choice((0, 1, 2, 5))
    if chance(rng, 0.3):
        limits["min_run_s"] = rng.choice((1, 3, 6))
    return limits


@contextmanager
def counting() -> Iterator[None]:
    """Solve with the count models, as if the round were large."""
    usual = parameters.PARAMETERS
    parameters.PARAMETERS = replace(usual, run=replace(usual.run, max_exact_variables=0))
    try:
        yield
    finally:
        parameters.PARAMETERS = usual


SETTINGS = (Setting("exact", 3), Setting("counting", 2, counting))
INNER_SETTINGS = (Setting("usual", 4), Setting("counting", 1, counting))
"""Of policies that make rounds of gangs inside themselves."""
POLICY = Policy("gang", draw, plans, SETTINGS, untrue=untrue, fault=fault, features=features)
