"""A time limit T holds: a round takes at most 1.1 T + 2 s, here by CPU time, and steps grow gently.

The clock of all sessions is the CPU time of the process, which a busy machine does not stretch.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.generators.geo import generate as generate_regions
from placewright.instances.verify import verify
from placewright.instances.verify.rules.gang.preemption import PutBack
from placewright.instances.verify.rules.gang.reasons import ReasonStates
from placewright.instances.verify.rules.gang.timeline import Timeline
from placewright.rounds import solve_round
from placewright.rounds.backfill.profile import QueuePlaces

LIMIT = 1.0


def with_policy(round_: Round, **policy: Any) -> Round:
    return round_.model_copy(update={"policy": round_.policy.model_copy(update=policy)})


def strict() -> Round:
    round_, rng = generate_round(4096, 1000, mix="easy", seed=31), random.Random(5)
    jobs = tuple(j.model_copy(update={"priority": 10 * rng.randrange(3)}) for j in round_.jobs)
    return with_policy(round_.model_copy(update={"jobs": jobs}), priority="strict")


def queue(waiting: int, hosts: int) -> Round:
    """Hosts that are full for some time, and a queue of which each job gets a reservation."""
    rng = random.Random(3)
    jobs: list[dict[str, Any]] = [
        {
            "name": f"r{host}-{half}",
            "expected_runtime_s": rng.randrange(600, 7200),
            "options": [{"groups": [{"gpu": 4}]}],
            "running": {
                "started": 0,
                "tasks": [{"host": f"h{host:02}", "gpus": list(range(4 * half, 4 * half + 4))}],
                "pinned": True,
            },
        }
        for host in range(hosts)
        for half in range(2)
    ]
    for number in range(waiting):
        count, gpu = rng.choice([(1, 1), (1, 2), (1, 8), (2, 8), (4, 8)])
        jobs.append(
            {
                "name": f"w{number}",
                "submitted": number,
                "expected_runtime_s": rng.randrange(60, 3600),
                "options": [{"groups": [{"count": count, "gpu": gpu}]}],
            }
        )
    return Round.model_validate(
        {
            "now": 500,
            "cluster": {"hosts": [{"name": f"h[00-{hosts - 1:02}]", "gpus": 8, "gpu_model": "A"}]},
            "jobs": jobs,
            "policy": {"backfill": {"depth": "all"}},
        }
    )


def interleaved() -> Round:
    rng = random.Random(1)
    jobs = []
    for number in range(400):
        stages = [1000 * rng.randrange(1, 500) for _ in range(4)]
        profile = {"stages": stages, "iteration": sum(stages)}
        groups = [{"gpu": rng.choice([1, 1, 2, 4, 8])}]
        jobs.append({"name": f"j{number}", "options": [{"groups": groups}], "profile": profile})
    return Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h[00-31]", "gpus": 8, "gpu_model": "A"}]},
            "sharing": {"resources": ["io", "cpu", "gpu", "network"]},
            "jobs": jobs,
            "policy": {"formulation": "interleaving", "terms": ["throughput"]},
        }
    )


def promised() -> Round:
    rng = random.Random(2)
    jobs = []
    for number in range(600):
        due = 1200 * rng.randrange(2, 48)
        jobs.append(
            {
                "name": f"j{number}",
                "options": [{"groups": [{"gpu": rng.choice([1, 2, 4, 8])}]}],
                "deadline": {
                    "work_s": rng.randrange(600, 20000),
                    "due": [{"at": due, "value": rng.randrange(5, 20)}],
                },
            }
        )
    return Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h[00-31]", "gpus": 8, "gpu_model": "A"}]},
            "leases": {"length_s": 1200, "horizon": 48},
            "jobs": jobs,
            "policy": {"formulation": "deadline"},
        }
    )


ROUNDS: dict[str, Callable[[], Round]] = {
    "backfill": lambda: queue(200, 32),
    "gang": lambda: generate_round(4096, 1000, mix="tight", seed=31),
    "strict": strict,
    "interleaving": interleaved,
    "deadline": promised,
    "geo": lambda: generate_regions(regions=10, jobs=1000, gpus=4096, policy="geo", seed=1),
    "replicas": lambda: generate_regions(regions=10, jobs=1000, gpus=4096, seed=1),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ROUNDS)
def test_a_time_limit_holds_in_cpu_seconds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    round_ = ROUNDS[name]()
    solve_round(round_, time_limit=0.0, isolation="none")  # what is imported or compiled once
    monkeypatch.setattr(time, "monotonic", time.process_time)
    began = time.process_time()
    plan = solve_round(round_, time_limit=LIMIT, isolation="none")
    assert time.process_time() - began <= 1.1 * LIMIT + 2
    assert verify(round_, plan).ok


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count calls of what is dear."""
    found: Counter[str] = Counter()

    def count(owner: type, name: str) -> None:
        honest = getattr(owner, name)

        def counted(*args: Any, **more: Any) -> Any:
            found[name] += 1
            return honest(*args, **more)

        monkeypatch.setattr(owner, name, counted)

    count(Timeline, "excess")
    count(QueuePlaces, "reservation")
    count(PutBack, "breaks")
    count(ReasonStates, "_state")
    return found


def test_reservations_cost_a_few_looks_each(calls: Counter[str]) -> None:
    """Each beginning is looked at once in the end, and a placement is tried where GPUs are free."""
    found = []
    for waiting in (20, 40):
        calls.clear()
        plan = solve_round(queue(waiting, 8), isolation="none", time_limit=0.0)
        reserved = len(plan.sections[-1]["jobs"])
        assert reserved > 0.8 * waiting
        assert calls["excess"] <= reserved
        found.append(calls["reservation"])
    assert found[1] <= 3 * found[0]


def test_a_victim_is_put_back_once_where_another_has_its_gpu(calls: Counter[str]) -> None:
    """Beside one look per victim there is one per precedence."""
    running = [
        {
            "name": f"low{gpu}",
            "options": [{"groups": [{"gpu": 1}]}],
            "running": {"tasks": [{"host": "h0", "gpus": [gpu]}]},
        }
        for gpu in range(8)
    ]
    high = {"name": "high", "priority": 1, "options": [{"groups": [{"gpu": 8}]}]}
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h0", "gpus": 8, "gpu_model": "A"}]},
            "jobs": [*running, high],
        }
    )
    plan = solve_round(round_, isolation="none")
    calls.clear()
    assert verify(round_, plan).ok
    assert calls["breaks"] <= len(running) + 1


def test_reasons_to_wait_are_shared_between_tenants(calls: Counter[str]) -> None:
    states = []
    for tenants in (5, 40):
        round_ = generate_round(256, 160, mix="tight", seed=31, tenants=tenants)
        plan = solve_round(round_, isolation="none", time_limit=0.0)
        calls.clear()
        assert verify(round_, plan).ok
        states.append(calls["_state"])
    assert states[1] <= states[0] + 2
