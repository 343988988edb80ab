"""Gangs apart by failure domain in rounds too large for the exact model: placed and bounded."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from gang_parameters import set_parameters

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Kind = tuple[int, int, int, int]
"""Gangs of a kind: tasks, most of them in a rack, GPUs of a task, jobs."""


def round_of(racks: Sequence[Sequence[int]], kinds: Sequence[Kind], seats: bool = False) -> Round:
    """Return racks of hosts with so many GPUs each, and jobs; with `seats` one task a host."""
    seat = {"resources": {"seat": 1}} if seats else {}
    hosts = [
        {"name": f"r{r}h{i}", "gpus": gpus, "gpu_model": "x", "parent": f"r{r}", **seat}
        for r, rack in enumerate(racks)
        for i, gpus in enumerate(rack)
    ]
    jobs = [
        {
            "name": f"{k}-{i}",
            "options": [
                {
                    "value": tasks * max(1, gpu),
                    "groups": [
                        {"count": tasks, "gpu": gpu, "apart": {"level": "rack", "most": most}}
                        | seat
                    ],
                }
            ],
        }
        for k, (tasks, most, gpu, number) in enumerate(kinds)
        for i in range(number)
    ]
    domains = [{"name": f"r{r}", "level": "rack"} for r in range(len(racks))]
    return Round.model_validate(
        {
            "cluster": {"levels": ["rack"], "domains": domains, "hosts": hosts},
            "jobs": jobs,
            "policy": {"terms": ["value"]},
        }
    )


def solved(round_: Round) -> tuple[Plan, int, float]:
    """Return the plan, its value and the bound."""
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    term = plan.certificate.terms[0]
    assert term.bound is not None
    return plan, term.value, term.bound


def most_gangs(racks: Sequence[int], tasks: int, most: int) -> int:
    """Return how many gangs of one kind fit, by the k fullest racks for each k."""
    full = sorted(racks, reverse=True)
    return min(sum(full[k:]) // (tasks - k * most) for k in range(-(-tasks // most)))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("racks", "tasks", "gangs"),
    [
        ((3, 8, 4, 16), 2, 42),
        ((4, 60, 6, 28), 2, 473),
        ((5, 60, 6, 28), 3, 306),
        ((7, 120, 1, 32), 4, 489),
        ((300, 100, 90), 2, 190),
    ],
)
@pytest.mark.parametrize("seats", [False, True])
def test_most_gangs_fit_and_it_is_proven(
    racks: tuple[int, ...], tasks: int, gangs: int, seats: bool
) -> None:
    sizes = list(racks)
    if len(racks) == 4:
        seed, number, least, largest = racks
        rng = random.Random(seed)
        sizes = [rng.randint(least, largest) for _ in range(number)]
    assert most_gangs(sizes, tasks, 1) == gangs
    gpu = 0 if seats else 8
    kind = (tasks, 1, gpu, sum(sizes) // tasks + 1)
    plan, value, bound = solved(round_of([[8] * size for size in sizes], [kind], seats))
    assert value == bound == gangs * tasks * max(1, gpu)
    assert sum(decision.decision == "start" for decision in plan.decisions) == gangs


@pytest.mark.nightly(after=10)
@pytest.mark.parametrize("seed", range(40))
def test_one_kind_is_exact(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    rng = random.Random(seed)
    racks = [[rng.randint(1, 8) for _ in range(rng.randint(1, 6))] for _ in range(5)]
    most = rng.randint(1, 3)
    tasks, gpu = most + rng.randint(1, 3), rng.choice([1, 2, 4])
    holds = [sum(size // gpu for size in rack) for rack in racks]
    _, value, bound = solved(round_of(racks, [(tasks, most, gpu, 99)]))
    assert value == bound == tasks * gpu * most_gangs(holds, tasks, most)


@pytest.mark.nightly(after=6)
@pytest.mark.parametrize("seed", range(40))
def test_the_bound_of_several_kinds_holds(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    racks = [[rng.choice([2, 4, 8]) for _ in range(rng.randint(1, 3))] for _ in range(3)]
    kinds = [
        (rng.randint(2, 4), rng.randint(1, 2), rng.choice([1, 2, 4]), rng.randint(1, 3))
        for _ in range(3)
    ]
    round_ = round_of(racks, kinds)
    _, best, proven = solved(round_)
    assert best == proven
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    _, value, bound = solved(round_)
    assert value <= best <= bound
