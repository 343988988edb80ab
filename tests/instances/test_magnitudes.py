"""What jobs ask, are worth and cost is counted exactly, or refused as a round is read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from extremes import numbers, with_number

from placewright.instances import verify as verification
from placewright.instances.documents.base import MAX_NOW
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.gang import generate_round
from placewright.instances.io.files import load_round, parse_round
from placewright.rounds import solve_round

HEAD = {"apiVersion": "placewright/v1alpha2", "kind": "Round"}
HOSTS = [{"name": "h[0-9]", "gpus": 8, "gpu_model": "A", "parent": "r0"}]
CLUSTER = {"levels": ["rack"], "domains": [{"name": "r0", "level": "rack"}], "hosts": HOSTS}
MOST = 10**12


def round_of(*jobs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    named = [{"name": f"j{i}", **job} for i, job in enumerate(jobs)]
    return {**HEAD, "cluster": CLUSTER, "jobs": named, **fields}


def asking(weight: int = 1, **group: Any) -> dict[str, Any]:
    return {"weight": weight, "options": [{"groups": [{"gpu": 1, **group}]}]}


def running(gpus: int = 1, **fields: Any) -> dict[str, Any]:
    tasks = [{"host": "h0", "gpus": [*range(gpus)]}]
    return {**asking(gpu=gpus), "running": {"tasks": tasks, **fields}}


def terms(*names: str, **policy: Any) -> dict[str, Any]:
    return {"policy": {"terms": names, **policy}}


@pytest.mark.parametrize(
    ("raw", "error_text"),
    [
        (
            round_of(asking(10**6, gpu=10**6, count=10**5)),
            "jobs[0].options[0]: 100,000,000,000,000,000,000 value (milli-GPU times weight, if ",
        ),
        (
            round_of(asking(), asking(0, cpu=MOST // 1000, count=1001)),
            "jobs[1].options[0]: 1,001,000,000,000,000 millicores in all",
        ),
        (
            round_of(asking(memory=f"{MOST}Mi", count=1001)),
            "jobs[0].options[0]: 1,001,000,000,000,000 MiB",
        ),
        (
            round_of(asking(resources={"disk": MOST}, count=1001)),
            "jobs[0].options[0]: 1,001,000,000,000,000 of resource disk",
        ),
        (
            round_of(running(restart_s=MOST)),
            "jobs[0].running: 1,000,000,000,001,000 milli-GPU-seconds of a stop",
        ),
        (
            round_of(running(8, checkpoint=0), now=MAX_NOW),
            "jobs[0].running: 2,027,218,406,400,000 milli-GPU-seconds of a stop",
        ),
        (
            round_of(
                asking(0, gpu=10**6, count=10),
                **terms("value", "spread", spread_weights={"rack": 1, "host": 10**6}),
            ),
            "jobs[0].options[0]: 90,000,000,000,000,000 spread",
        ),
        (
            round_of(
                asking(
                    count=10**5,
                    communication={"data_mib": MOST},
                    required="rack",
                ),
                **terms("bottleneck"),
            ),
            "jobs[0].options[0]: 1,677,721,600,000,000,000,000 microseconds of a collective",
        ),
        (
            round_of(
                asking(count=1001, communication={"rate_mbps": MOST}),
                cluster={
                    "hosts": [{"name": "h[0-1000]", "gpus": 1, "gpu_model": "A"}],
                    "links": {"host": {"bandwidth_mbps": 1, "latency_us": 0.0}},
                },
                **terms("contention"),
            ),
            "jobs[0].options[0]: 1,001,000,000,000,000 Mbit/s over links in all",
        ),
        (
            round_of(
                {"options": [{"groups": [{"gpu": 0, "count": 10**5}] * 3}]},
                cluster={"hosts": [{"name": "h[0-3905]", "gpus": 1024, "gpu_model": "A"}]},
                **terms("stranded"),
            ),
            "jobs[0].options[0]: 1,199,923,200,000,000 stranded",
        ),
        (
            round_of(
                *(asking(gpu=10**6, count=10**5) for _ in range(3334)),
                cluster={
                    "levels": ["region"],
                    "domains": [{"name": "r0", "level": "region"}],
                    "hosts": HOSTS,
                },
                policy={"formulation": "replicas"},
            ),
            "jobs: 1,000,200,000,000,000,000 overload",
        ),
        (
            round_of(
                *({"options": [{"groups": [{"gpu": 0}], "value": MOST}]} for _ in range(3)),
                *(asking(10**6, gpu=10**6) for _ in range(1001)),
            ),
            "jobs: 1,001,003,000,000,000,000 value",
        ),
    ],
)
def test_too_much_is_refused_by_job_and_field(raw, error_text):
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    assert str(caught.value).startswith(error_text)
    assert "in all; expected at most 1,000,000,000,000,000" in str(caught.value)


def test_what_costs_something_given_may_have_run_for_long():
    parse_round(round_of(running(8, checkpoint=0, migrate_cost=5, preempt_cost=MOST), now=MAX_NOW))


def test_jobs_that_a_glance_passes_are_passed_by_the_sums(monkeypatch):
    """Small jobs are not added up: they must be far from any limit."""
    parse_round(round_of(*(asking(1000, count=8, gpu=8) for _ in range(1000))))
    monkeypatch.setattr("placewright.instances.checks.magnitudes._is_small", lambda *_: False)
    monkeypatch.setattr("placewright.instances.checks.magnitudes.MAX_EACH", 10**11)
    made = generate_round(512, 200, mix="hard", seed=1)
    parse_round(made.model_dump(mode="json"))


LIBRARY = Path(verification.__file__).parents[1] / "library"
EXTREMES = (0, 1, 10**5, 10**6, 10**9, 10**9, MOST, MOST, 2**31 - 1)
POLICIES = {
    "gang": ("quickstart", "drf-weighted", "fgd", "lyra-growth", "nvidia-mig"),
    "gang-tied": ("kueue-jobset-slices", "hived"),
    "interleaving": ("muri", "muri-running", "strict-sharing", "kube-knots", "synergy"),
    "deadline": ("chronus", "chronus-lost-host", "elasticflow"),
    "geo": ("mast-regions",),
    "replicas": ("mast-replicas",),
}


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("policy", POLICIES)
def test_legal_rounds_of_extreme_numbers_have_a_plan(policy):
    """Each number is as large or small as its field and the checks allow."""
    chance = random.Random(policy)
    for _ in range(12):
        raw = load_round(LIBRARY / f"{chance.choice(POLICIES[policy])}.yaml").model_dump(
            mode="json"
        )
        for _ in range(chance.choice((1, 3, 10, 25))):
            places = [place for place in numbers(raw) if place[0] != "limits"]
            name = chance.choice(sorted({str(place[-1]) for place in places}))
            alike = [place for place in places if str(place[-1]) == name]
            number, changed = chance.choice(EXTREMES), raw
            for place in alike if chance.random() < 0.5 else [chance.choice(alike)]:
                changed = with_number(changed, place, number)
            try:
                parse_round(changed)
            except InvalidInputError:
                continue
            raw = changed
        round_ = parse_round(raw)
        plan = solve_round(round_, time_limit=0, isolation="none")
        assert verification.verify(round_, plan).ok
        assert not any("formulation" in what for what in plan.certificate.degraded)
