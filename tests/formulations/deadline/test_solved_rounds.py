"""Random rounds of all that leases can meet: each is solved, and every candidate is valid."""

from __future__ import annotations

import random
from typing import Any

import pytest

from examples import by_day
from fuzz.small_units import as_document
from placewright import Round, solve_round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify

Raw = dict[str, Any]
NOW, LENGTH = 10_000, 100


def round_of(seed: int) -> Round:
    """Jobs that run, wait, are pinned, have promises or not, under outages and reservations."""
    rng = random.Random(seed)
    models = ["V100", "A100"] if rng.random() < 0.4 else ["V100"]
    hosts = [
        {
            "name": f"h{i}",
            "gpus": rng.choice([4, 4, 8]),
            "gpu_model": models[i % len(models)],
            "healthy": rng.random() < 0.9,
        }
        for i in range(rng.randint(2, 5))
    ]
    free = {host["name"]: list(range(host["gpus"])) for host in hosts}
    horizon = rng.choice([4, 8, 12])
    outages = [outage(rng, hosts) for _ in range(rng.choice([0, 0, 1, 2]))]
    raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "now": NOW,
        "cluster": {"hosts": hosts},
        "tenants": [{"name": "t", "quota": {"gpu": rng.choice([2000, 4000, 8000])}}],
        "jobs": [job(rng, i, hosts, free, horizon) for i in range(rng.randint(2, 12))],
        "reservations": [{"host": rng.choice(hosts)["name"]}] if rng.random() < 0.15 else [],
        "leases": {"length_s": LENGTH, "horizon": horizon, "outages": outages},
        "policy": {"formulation": "deadline"},
    }
    try:
        return parse_round(as_document(raw))
    except InvalidInputError as error:
        assert "expected a job that may leave" in str(error)
        return parse_round(as_document({**raw, "leases": {"length_s": LENGTH, "horizon": horizon}}))


def outage(rng: random.Random, hosts: list[Raw]) -> Raw:
    start = rng.choice([None, NOW + rng.randint(-100, 600)])
    length = rng.choice([None, rng.randint(1, 500)])
    end = None if length is None else (NOW if start is None else start) + length
    return {"host": rng.choice(hosts)["name"], "start": start, "end": end}


def job(
    rng: random.Random, number: int, hosts: list[Raw], free: dict[str, list[int]], horizon: int
) -> Raw:
    options = [
        {"groups": [{"gpu": 1000 * rng.choice([1, 1, 2, 4]), "count": rng.choice([1, 1, 1, 2])}]}
        for _ in range(rng.choice([1, 1, 2]))
    ]
    made: Raw = {"name": f"j{number}", "options": options, "priority": rng.randint(0, 2)}
    if rng.random() < 0.3:
        made["tenant"] = "t"
    tasks = running(rng, options[0]["groups"][0], free) if rng.random() < 0.45 else []
    if tasks:
        made["running"] = {"tasks": tasks, "pinned": rng.random() < 0.15, "restart_s": 60}
    for option in options[bool(tasks) :]:
        if rng.random() < 0.2:
            option["groups"][0]["gpu_models"] = [rng.choice(hosts)["gpu_model"]]
    if rng.random() < 0.75:
        made["deadline"] = deadline(rng, len(options), horizon)
        if not tasks and rng.random() < 0.2:
            made["deadline"]["ready"] = NOW + rng.randint(0, 400)
    return made


def running(rng: random.Random, group: Raw, free: dict[str, list[int]]) -> list[Raw]:
    """Take free GPUs for the tasks of a group; none if there are too few on a host."""
    tasks: list[Raw] = []
    for index in range(group["count"]):
        host = rng.choice(sorted(free))
        gpus, free[host] = free[host][: group["gpu"] // 1000], free[host][group["gpu"] // 1000 :]
        if 1000 * len(gpus) < group["gpu"]:
            return []
        tasks.append({"index": index, "host": host, "gpus": gpus})
    return tasks


def deadline(rng: random.Random, options: int, horizon: int) -> Raw:
    count = rng.choice([0, 1, 1, 1, 2])
    times = sorted(rng.sample(range(NOW - 100, NOW + horizon * LENGTH + 100), count))
    values = sorted(rng.sample(range(1, 30), count), reverse=True)
    made: Raw = {
        "work_s": rng.randint(20, 500),
        "due": [{"at": at, "value": value} for at, value in zip(times, values, strict=True)],
    }
    if rng.random() < 0.35:
        at = rng.randint(NOW, NOW + horizon * LENGTH)
        made["promise"] = {"at": at, "value": rng.randint(1, 20)}
    if rng.random() < 0.5:
        spanning = rng.choice([[], [[2, 800]], [[2, 900], [3, 1100]]])
        made["paces"] = [
            {"speed": rng.choice([1000, 1500]), "overhead_s": 10, "spanning": spanning}
        ] * options
    return made


@pytest.mark.parametrize("seed", by_day(range(40), 12))
def test_a_round_of_leases_is_solved_with_valid_candidates_only(seed: int) -> None:
    round_ = round_of(seed)
    plan = solve_round(round_, isolation="none", deterministic=True)
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert not [line for line in plan.certificate.degraded if "invalid plan" in line]
    assert plan.certificate.gap is not None


def test_best_effort_on_gpus_that_no_promise_may_use_is_within_its_bound() -> None:
    hosts = [{"name": f"h{i}", "gpus": 4, "gpu_model": model} for i, model in enumerate("VA")]
    jobs = [
        {
            "name": "due",
            "options": [{"groups": [{"gpu": 4000, "gpu_models": ["V"]}]}],
            "deadline": {"work_s": 50, "due": [{"at": NOW + LENGTH, "value": 1}]},
        },
        {"name": "rest", "options": [{"groups": [{"gpu": 4000, "gpu_models": ["A"]}]}]},
    ]
    raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "now": NOW,
        "cluster": {"hosts": hosts},
        "jobs": jobs,
        "leases": {"length_s": LENGTH, "horizon": 10},
        "policy": {"formulation": "deadline"},
    }
    plan = solve_round(parse_round(as_document(raw)), isolation="none", deterministic=True)
    assert plan.certificate is not None
    values = {term.name: term.value for term in plan.certificate.terms}
    assert (values["admitted"], values["best_effort"]) == (1, 100_000)
