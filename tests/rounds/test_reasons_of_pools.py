"""Jobs that wait since a pool is full say so, and the verifier believes it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from racks_with_pools import POWER, round_of

from placewright import solve_round
from placewright.instances import verify as verification
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_round
from placewright.instances.verify import verify

LIBRARY = Path(verification.__file__).parents[1] / "library"

Raw = dict[str, Any]
EVERYWHERE = {"resource": "power_w", "capacity": 20_000}
TREES = {"resource": "trees", "level": "rack", "capacity": 1, "per": "job"}


def job(name: str, power: int, count: int = 1, **more: Any) -> Raw:
    """A job of hosts; `on` says where it runs."""
    on, pinned = more.pop("on", None), more.pop("pinned", False)
    option = {"uses": more.pop("uses", {})}
    group = {"count": count, "gpu": 8, "resources": {"power_w": power}, **more.pop("group", {})}
    entry: Raw = {"name": name, "options": [{"groups": [group], **option}], **more}
    if on:
        tasks = [{"host": h, "index": i, "gpus": list(range(8))} for i, h in enumerate(on)]
        entry["running"] = {"tasks": tasks, "pinned": pinned}
    return entry


def solved(round_: Round) -> Plan:
    plan = solve_round(round_, time_limit=3.0, isolation="none")
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    result = verify(round_, plan)
    assert result.ok, result.violations
    return plan


def why(round_: Round, name: str) -> tuple[Reason | None, str]:
    plan = solved(round_)
    (one,) = (d for d in plan.decisions if d.job == name)
    return one.reason, "" if one.reason is None else reason_text(one.reason, one.detail)


RUNS = job("runs", 5750, 2, on=("a0", "a1"), priority=5)
RUNS_TOO = job("runs-too", 4250, 2, on=("b0", "b1"), priority=5)


BESIDE = {
    Reason.NEVER_FITS: "even when all is empty",
    Reason.CAPACITY: "beside running jobs",
    Reason.DISPLACED_BY_PRIORITY: "beside started jobs of higher precedence",
}


@pytest.mark.parametrize(
    ("jobs", "pools", "reason", "has", "asks"),
    [
        (
            [RUNS, RUNS_TOO, job("new", 4000)],
            [POWER],
            Reason.CAPACITY,
            "rack r0 has 500 of 12,000 power_w left",
            "4,000",
        ),
        (
            [RUNS, job("new", 4500, 2)],
            [EVERYWHERE],
            Reason.CAPACITY,
            "the cluster has 8,500 of 20,000 power_w left",
            "9,000",
        ),
        (
            [job("new", 12_001)],
            [POWER, EVERYWHERE],
            Reason.NEVER_FITS,
            "rack r0 has 12,000 power_w",
            "12,001",
        ),
        (
            [job("new", 5250, 4)],
            [POWER, EVERYWHERE],
            Reason.NEVER_FITS,
            "the cluster has 20,000 power_w",
            "21,000",
        ),
        (
            [job("new", 2500, 4, group={"required": "rack"}), job("fits", 2000)],
            [{**POWER, "capacity": 9900}],
            Reason.NEVER_FITS,
            "rack r0 has 9,900 power_w",
            "10,000",
        ),
        (
            [job("runs", 0, on=("a0",), uses={"trees": 1}), job("new", 0, 5, uses={"trees": 1})],
            [TREES],
            Reason.CAPACITY,
            "rack r0 has 0 of 1 trees left",
            "1",
        ),
        (
            [job("first", 7000, priority=2), job("new", 7000)],
            [{**POWER, "domains": {"r1": 5}}],
            Reason.DISPLACED_BY_PRIORITY,
            "rack r0 has 5,000 of 12,000 power_w left",
            "7,000",
        ),
        (
            [job("runs", 9100, on=("b0",), pinned=True), job("new", 10, group={"hosts": ["b1"]})],
            [POWER],
            Reason.CAPACITY,
            "rack r1 has 0 of 9,100 power_w left",
            "10",
        ),
    ],
)
def test_a_full_pool_is_named(
    jobs: list[Raw], pools: list[Raw], reason: Reason, has: str, asks: str
) -> None:
    every = [*pools, *({**one, "capacity": 10**9} for one in (EVERYWHERE, TREES))]
    known = {(one["resource"], one.get("level")): one for one in reversed(every)}
    text = f"hosts have room {BESIDE[reason]}, but {has}, and the job asks {asks}"
    assert why(round_of(*jobs, pools=list(known.values())), "new") == (reason, text)


def test_of_the_bundled_round_one_job_waits_for_a_tree_and_one_for_power() -> None:
    round_ = load_round(LIBRARY / "pools.yaml")
    told = {d.job: reason_text(d.reason, d.detail) for d in solved(round_).decisions if d.reason}
    beside = f"hosts have room {BESIDE[Reason.CAPACITY]}, but rack r0 has"
    assert told == {
        "late": f"{beside} 0 of 1 sharp_trees left, and the job asks 1",
        "hot": f"{beside} 12,000 of 13,000 power_w left, and the job asks 12,500",
    }


def test_hosts_come_before_pools() -> None:
    pools = [POWER, EVERYWHERE]
    big = job("new", 10_000, 5, group={"required": "rack"})
    reason, text = why(round_of(big, pools=pools), "new")
    assert reason is Reason.NEVER_FITS
    assert text.startswith("at most 4 of 5 tasks fit one rack even when all is empty")


def test_random_rounds_have_reasons_that_the_verifier_believes() -> None:
    rng = random.Random(11)
    seen: Counter[tuple[Reason, bool]] = Counter()
    for _ in range(40):
        jobs = [
            job(
                f"j{j}",
                rng.randint(0, 4),
                rng.choice([1, 1, 2, 3]),
                uses={"trees": rng.randint(0, 1)},
                priority=rng.randint(0, 1),
                group={"required": "rack"} if rng.random() < 0.4 else {},
                on=(f"{'ab'[j]}0",) if j < 2 else None,
            )
            for j in range(rng.randint(2, 7))
        ]
        for running in jobs[:2]:
            running["options"][0]["groups"][0]["count"] = 1
        pools = [
            {**POWER, "capacity": rng.randint(2, 6), "domains": {"r1": rng.randint(2, 6)}},
            {**EVERYWHERE, "capacity": rng.randint(4, 9)},
            {**TREES, "capacity": rng.randint(1, 2)},
        ]
        for decision in solved(round_of(*jobs, pools=pools, hosts=3)).decisions:
            if decision.reason is not None:
                pool = decision.detail is not None and decision.detail.limit is not None
                seen[decision.reason, pool] += 1
    for reason in (Reason.NEVER_FITS, Reason.CAPACITY, Reason.DISPLACED_BY_PRIORITY):
        assert seen[reason, True] > 2, seen
