"""Jobs of every kind in cells: slices, levels, labels, MIG, memory, collectives, over rounds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from examples import by_day
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine
from placewright.rounds.solve import prove_bounds

Raw = dict[str, Any]
TERMS = (
    ("value", "disruption", "spread", "opened"),
    ("value", "bottleneck", "opened"),
    ("share", "value", "stranded"),
    ("entitled", "value", "disruption"),
)


def random_group(random: Random) -> Raw:
    gpu = random.choice((250, 500, 1000, 1000, 2000, 4000))
    count = random.choice((1, 1, 2, 4)) if gpu >= 1000 else random.choice((1, 2))
    group: Raw = {"gpu": f"{gpu}m", "count": count, "cpu": f"{random.choice((0, 1000, 3000))}m"}
    kind = random.randrange(9)
    if kind == 0:
        return {"gpu": 0, "count": count, "cpu": 0.5}
    if kind == 1:
        return {"count": count, "mig": random.choice(("1g.10gb", "2g.20gb", "3g.40gb"))}
    if kind == 2 and gpu < 1000:
        return group | {"gpu_memory": random.choice(("10Gi", "40Gi"))}
    if kind == 3 and count > 1:
        return group | {"slices": {"size": 2, "required": random.choice(("host", "rack"))}}
    if kind == 4:
        return group | {"apart": {"level": random.choice(("host", "rack"))}}
    if kind == 5:
        return group | {"required": random.choice(("host", "rack"))}
    if kind == 6 and gpu >= 1000:
        return group | {"communication": {"pattern": "ring", "data_mib": 100}}
    return group


def random_job(random: Random, name: str) -> Job:
    option: Raw = {"groups": [random_group(random)]}
    if random.random() < 0.2:
        option["groups"].append({"gpu": 1, "cpu": 0.1})
    if random.random() < 0.1:
        option["required"] = "rack"
    options = [option]
    if random.random() < 0.2:
        options.append({"groups": [{"gpu": 1}], "value": random.choice((100, 5000))})
    raw: Raw = {
        "name": name,
        "tenant": random.choice(("x", "y", "z", None)),
        "options": options,
        "priority": random.randint(0, 2),
        "weight": random.randint(1, 2),
        "opportunistic": random.random() < 0.3,
    }
    if raw["tenant"] and random.random() < 0.15:
        label = f"{raw['tenant']}-{raw['opportunistic']}"
        raw["anti_affinity"] = {"label": label, "level": "host"}
    return Job.model_validate(raw)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("seed", by_day(range(8), 2))
def test_every_round_has_a_valid_plan_that_no_bound_contradicts(seed):
    random = Random(seed)
    host = {"gpus": 4, "gpu_model": "A100-SXM4-80GB", "cpu": 16, "memory": "64Gi"}
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{i}", "level": "rack"} for i in range(3)],
                "hosts": [{**host, "name": f"h{i}[0-1]", "parent": f"r{i}"} for i in range(3)],
            },
            "tenants": [
                {"name": "x", "cells": [{"level": "rack"}]},
                {"name": "y", "cells": [{"level": "host", "count": 2}]},
                {"name": "z", "guarantee": {"gpu": 4}, "quota": {"gpu": 8}},
            ],
            "policy": {"terms": TERMS[seed % 4]},
        }
    )
    check_round(round_)
    with Engine(round_, isolation="none", backend=("highs", "cp-sat")[seed % 2]) as engine:
        for number in range(4):
            gone = [job.name for job in engine.state.jobs if random.random() < 0.25]
            new = [random_job(random, f"{number}-{i}") for i in range(random.randint(1, 4))]
            health = {f"h{random.randrange(3)}0": random.random() < 0.7}
            plan = engine.round(Changes(removed=gone, added=new, health=health))
            assert verify(engine.round_solved, plan).ok
            assert not plan.certificate.degraded
            prove_bounds(engine.round_solved, plan)
