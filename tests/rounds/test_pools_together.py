"""Random rounds of 10 to 40 hosts with full pools, and what else a round of gangs may have.

Plans are judged by verify and by a sum of their own; none is worse than leaving all as it is.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from gang_parameters import set_parameters

from placewright import Changes, Engine
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]

FEATURES: dict[str, Raw] = {
    "preemption": {"policy": {"priority": "preemption"}},
    "strict": {"policy": {"terms": ["value", "disruption", "opened"]}},
    "backfill": {"policy": {"backfill": {"depth": 3}}},
    "budget": {"policy": {"limits": {"disruption": {"preempted_jobs": 1, "migrated_jobs": 1}}}},
    "vacate": {"policy": {"vacate": ["r0h0", "r1h1"], "terms": ["remaining", "value"]}},
    "freeing": {
        "policy": {
            "freeing": {"level": "rack", "gpu_worth_s": 100},
            "terms": ["freed", "value"],
        }
    },
    "maintenance": {"maintenance": [{"host": "r0h[0-1]", "start": 1200, "end": 3000}]},
    "reserved": {"reservations": [{"host": "r1h0"}, {"host": "r0h0", "gpus": [0, 1]}]},
    "cells": {"tenants": [{"name": "owner", "cells": [{"level": "rack"}]}]},
}


def drawn(seed: int, feature: str) -> Round:
    """Draw racks of equal size whose pools running jobs fill about to the half."""
    rng = random.Random(seed)
    racks, size = rng.randint(3, 6), rng.choice([4, 6])
    hosts = [
        {"name": f"r{r}h{h}", "parent": f"r{r}", "gpus": 8, "gpu_model": "x"}
        for r in range(racks)
        for h in range(size)
    ]
    watts = rng.choice([60, 100])
    pools: list[Raw] = [
        {"resource": "w", "level": "rack", "capacity": watts, "domains": {"r1": watts // 2}},
        {"resource": "w", "capacity": watts * racks * 2 // 3},
        {"resource": "lic", "level": "rack", "capacity": 2, "per": "job"},
    ]
    free = {str(host["name"]): list(range(8)) for host in hosts}
    held: Counter[str] = Counter()
    jobs: list[Raw] = []
    for number in range(2 * len(hosts)):
        count, gpu = rng.choice([1, 1, 2, 4]), rng.choice([1, 2, 4])
        group = {"count": count, "gpu": gpu, "resources": {"w": rng.choice([3, 5, 10])}}
        job: Raw = {"name": f"j{number}", "priority": rng.randint(0, 2)}
        job |= {"submitted": number, "expected_runtime_s": rng.choice([200, 1000, 4000])}
        uses = {"uses": {"lic": 1}} if rng.random() < 0.3 else {}
        job["options"] = [{"groups": [group], "value": rng.randint(1, 20) * count * gpu, **uses}]
        places = [rng.choice(sorted(free)) for _ in range(count)]
        asked = Counter(host[:2] for host in places)
        each, most = group["resources"]["w"], watts * 3 // 4
        fits = all(held[rack] + n * each <= most for rack, n in asked.items())
        fits &= len(set(places)) == count and all(len(free[host]) >= gpu for host in places)
        if fits and number < len(hosts):
            job["running"] = {"started": rng.randint(0, 900), "checkpoint": 900, "tasks": []}
            for k, host in enumerate(places):
                held[host[:2]] += each
                gpus, free[host] = free[host][:gpu], free[host][gpu:]
                job["running"]["tasks"].append({"index": k, "host": host, "gpus": gpus})
        if feature == "cells" and "running" not in job and rng.random() < 0.3:
            job["tenant"] = "owner"
        jobs.append(job)
    domains = [{"name": f"r{r}", "level": "rack"} for r in range(racks)]
    cluster = {"levels": ["rack"], "domains": domains, "hosts": hosts, "pools": pools}
    head = {"apiVersion": "placewright/v1alpha2", "kind": "Round", "now": 1000}
    return parse_round({**head, "cluster": cluster, "jobs": jobs, **FEATURES[feature]})


def overfull(round_: Round, plan: Plan) -> list[tuple[int, str]]:
    """Pool domains of which jobs hold more than there is, and more than before."""
    before: Counter[tuple[int, str]] = Counter()
    after: Counter[tuple[int, str]] = Counter()
    for job, decision in zip(round_.jobs, plan.decisions, strict=True):
        old = () if job.running is None else job.running.tasks
        new = old if decision.decision.value == "keep" else decision.tasks
        for held, tasks in ((before, old), (after, new)):
            for k, pool in enumerate(round_.cluster.pools):
                racks = [task.host[:2] if pool.level else "" for task in tasks]
                option = job.options[0]
                if pool.per == "job":
                    held.update({(k, rack): option.uses.get("lic", 0) for rack in set(racks)})
                else:
                    each = option.groups[0].resources["w"]
                    held.update({(k, rack): n * each for rack, n in Counter(racks).items()})
    pools = round_.cluster.pools
    return [
        (k, rack)
        for (k, rack), n in after.items()
        if n > max(pools[k].domains.get(rack, pools[k].capacity), before[k, rack])
    ]


def check(round_: Round, plan: Plan) -> None:
    """Judge a plan, and compare its first term with that of leaving all as it is."""
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    verified = verify(round_, plan)
    assert verified.ok, verified.violations
    assert not overfull(round_, plan)
    decisions = [
        {"job": job.name, "decision": "wait", "option": None}
        if job.running is None
        else {"job": job.name, "decision": "keep", "option": 0, "tasks": job.running.tasks}
        for job in round_.jobs
    ]
    nothing = verify(round_, Plan.model_validate({"decisions": decisions})).terms
    term = plan.certificate.terms[0]
    better = term.value - nothing[term.name]
    assert better >= 0 if term.sense == "max" else better <= 0


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize(("seed", "large"), [(0, False), (0, True), (1, True)])
@pytest.mark.parametrize("feature", FEATURES)
def test_plans_keep_pools(
    monkeypatch: pytest.MonkeyPatch, feature: str, seed: int, large: bool
) -> None:
    if large:
        set_parameters(monkeypatch, "run", max_exact_variables=-1)
    round_ = drawn(seed, feature)
    check(round_, solve_round(round_, time_limit=0.5, isolation="none"))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("feature", ["preemption", "strict", "backfill", "cells"])
def test_successive_rounds_keep_pools(monkeypatch: pytest.MonkeyPatch, feature: str) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    whole, rng = drawn(10, feature), random.Random(1)
    later = [job for job in whole.jobs if job.running is None]
    running = tuple(job for job in whole.jobs if job.running is not None)
    first = whole.model_copy(update={"jobs": running})
    with Engine(first, isolation="none", time_limit=0.5) as engine:
        for number in range(3):
            at = engine.round_solved if number else first
            gone = [job.name for job in at.jobs if number and rng.random() < 0.2]
            pools = [
                pool.model_copy(update={"capacity": rng.randrange(2 * pool.capacity + 1)})
                for pool in at.cluster.pools
                if number and rng.random() < 0.5
            ]
            changes = Changes(
                removed=gone, added=later[number::3], pools=pools, now=1000 + 100 * number
            )
            plan = engine.round(changes)
            assert all(pool in engine.round_solved.cluster.pools for pool in pools)
            check(engine.round_solved, plan)
