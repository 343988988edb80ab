"""Moves keep pools at each step, with as few spares as any order: against all sets and orders."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

from examples import examples
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.instances.documents.round import Round
from placewright.rounds.sections.moves import move_section

Raw = dict[str, Any]
Where = Mapping[str, Sequence[str]]
RACK_OF = {f"h{i}": f"r{i // 2}" for i in range(6)}


def round_of(jobs: Mapping[str, Raw], before: Where, pools: Sequence[Raw]) -> Round:
    """Three racks of two roomy hosts; each job has a task on each of its hosts."""
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{i}", "level": "rack"} for i in range(3)],
                "hosts": [
                    {"name": h, "parent": r, "gpus": 0, "cpu": 100} for h, r in RACK_OF.items()
                ],
                "pools": list(pools),
            },
            "jobs": [
                {
                    "name": name,
                    "options": [
                        {
                            "groups": [
                                {
                                    "gpu": 0,
                                    "cpu": 1,
                                    "count": len(before[name]),
                                    "resources": {"power_w": asked["power_w"]},
                                }
                            ],
                            "uses": {"trees": asked["trees"]},
                        }
                    ],
                    "running": {"tasks": tasks_on(before[name])},
                }
                for name, asked in jobs.items()
            ],
        }
    )
    check_round(round_)
    return round_


def tasks_on(hosts: Sequence[str]) -> tuple[Task, ...]:
    return tuple(Task(index=i, host=host) for i, host in enumerate(hosts))


def section_of(round_: Round, after: Where) -> Raw:
    """The section of a plan in which jobs are on these hosts, and the others stop."""
    decisions = []
    for job in round_.jobs:
        tasks = tasks_on(after[job.name]) if job.name in after else ()
        assert job.running is not None
        kind = DecisionKind.KEEP if tasks == job.running.tasks else DecisionKind.MIGRATE
        decisions.append(
            Decision(job=job.name, decision=kind, option=0, tasks=tasks)
            if tasks
            else Decision(job=job.name, decision=DecisionKind.PREEMPT)
        )
    section = move_section(round_, decisions)
    assert section is not None
    return section


def held(jobs: Mapping[str, Raw], where: Where) -> Counter[tuple[str, str]]:
    """What jobs hold of each pool, by resource and domain; the whole cluster is `all`."""
    total: Counter[tuple[str, str]] = Counter()
    for name, hosts in where.items():
        for host in hosts:
            total["power_w", RACK_OF[host]] += jobs[name]["power_w"]
            total["power_w", "all"] += jobs[name]["power_w"]
        for rack in {RACK_OF[host] for host in hosts}:
            total["trees", rack] += jobs[name]["trees"]
    return total


def beyond(held_: Counter[tuple[str, str]], limits: Mapping[tuple[str, str], int]) -> bool:
    return any(amount > limits.get(key, 0) for key, amount in held_.items())


def works(
    jobs: Mapping[str, Raw],
    before: Where,
    after: Where,
    limits: Mapping[tuple[str, str], int],
    order: Iterable[str],
    spares: Sequence[str],
) -> bool:
    """Whether an order of moves keeps all limits once others have stopped or parked."""
    where = {name: before[name] for name in after if name not in spares}
    for name in order:
        where[name] = after[name]
        if beyond(held(jobs, where), limits):
            return False
    return True


def drawn(rng: random.Random) -> tuple[dict[str, Raw], Where, Where, list[Raw]]:
    names = [f"j{i}" for i in range(rng.randint(2, 4))]
    jobs = {n: {"power_w": rng.randint(0, 4), "trees": rng.randint(0, 2)} for n in names}
    count = {name: rng.randint(1, 2) for name in names}
    before, after = ({n: rng.choices(list(RACK_OF), k=count[n]) for n in names} for _ in range(2))
    if rng.random() < 0.3:
        del after[names[-1]]
    # As little as the plan needs, or as what runs holds.
    most = held(jobs, after)
    pools: list[Raw] = [
        {
            "resource": resource,
            "level": "rack",
            "capacity": 0,
            "domains": {f"r{i}": most[resource, f"r{i}"] for i in range(3)},
            "per": per,
        }
        for resource, per in (("power_w", "task"), ("trees", "job"))
    ]
    pools.append({"resource": "power_w", "capacity": most["power_w", "all"] + rng.randint(0, 2)})
    return jobs, before, after, pools


def test_each_step_keeps_pools_with_as_few_spares_as_any_order() -> None:
    rng, spared = random.Random(7), 0
    for _ in range(examples(day=60, nightly=400)):
        jobs, before, after, pools = drawn(rng)
        moved = [name for name in after if after[name] != before[name]]
        if not moved:
            continue
        section = section_of(round_of(jobs, before, pools), after)
        ran, then = held(jobs, before), held(jobs, after)
        limits = {key: max(ran[key], then[key]) for key in ran | then}
        limits["power_w", "all"] = max(ran["power_w", "all"], pools[-1]["capacity"])
        steps = [name for name in section["steps"] if name in after]
        assert works(jobs, before, after, limits, steps, section["needs_spare"])
        fewest = next(
            count
            for count in range(len(moved) + 1)
            for spares in combinations(moved, count)
            if any(
                works(jobs, before, after, limits, order, spares)
                for order in permutations(sorted({*moved} - {*spares}))
            )
        )
        assert len(section["needs_spare"]) == fewest
        spared += fewest > 0
    assert spared > examples(day=1, nightly=20)


def test_what_leaves_a_full_rack_goes_first() -> None:
    jobs = {name: {"power_w": 4, "trees": 0} for name in ("comes", "goes")}
    before, after = {"comes": ["h0"], "goes": ["h2"]}, {"comes": ["h3"], "goes": ["h4"]}
    pool = {"resource": "power_w", "level": "rack", "capacity": 7}
    uses = {"resource": "trees", "capacity": 9, "per": "job"}
    section = section_of(round_of(jobs, before, [pool, uses]), after)
    assert (section["steps"], section["needs_spare"]) == (["goes", "comes"], [])


def test_two_jobs_that_change_full_racks_need_a_spare() -> None:
    jobs = {name: {"power_w": 1, "trees": 1} for name in ("x", "y")}
    before, after = {"x": ["h0"], "y": ["h2"]}, {"x": ["h3"], "y": ["h1"]}
    power = {"resource": "power_w", "capacity": 9}
    for capacity, spares in (1, 1), (2, 0):
        trees = {"resource": "trees", "level": "rack", "capacity": capacity, "per": "job"}
        section = section_of(round_of(jobs, before, [power, trees]), after)
        assert len(section["needs_spare"]) == spares
