"""Jobs on so many hosts: whether one fits is exact, and known answers of rounds."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product
from random import Random
from typing import Any

import pytest
from gang_parameters import set_parameters

from examples import examples
from placewright.formulations.gang.placement.feasibility import fits
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
Places = tuple[int, ...]


def number(rng: Random, chance: float) -> Raw | None:
    least = rng.randint(1, 3)
    return {"min": least, "max": least + rng.randint(0, 1)} if rng.random() < chance else None


def drawn(rng: Random) -> Raw:
    """One job of one or two groups, on up to five hosts of up to three racks."""
    racks = rng.randint(1, 3)
    groups = []
    for _ in range(rng.choice((1, 1, 2))):
        group: Raw = {"gpu": 1, "count": rng.randint(1, 6), "num_hosts": number(rng, 0.5)}
        if rng.random() < 0.3:
            group["apart"] = {"level": rng.choice(("rack", "host")), "most": rng.randint(1, 4)}
        if group["count"] % 2 == 0 and rng.random() < 0.3:
            group["slices"] = {"size": 2, "required": rng.choice(("rack", "host"))}
        groups.append(group)
    if len(groups) == 2:
        groups = [{**group, "count": min(group["count"], 2)} for group in groups]
    option = {"groups": groups, "hosts": number(rng, 0.5)}
    option["required"] = "rack" if rng.random() < 0.2 else None
    hosts = [
        {"name": f"h{i}", "gpus": rng.choice((1, 2, 3, 4)), "gpu_model": "A"}
        | {"parent": f"r{rng.randrange(racks)}"}
        for i in range(rng.randint(1, 5))
    ]
    domains = [{"name": f"r{i}", "level": "rack"} for i in range(racks)]
    cluster = {"levels": ["rack"], "domains": domains, "hosts": hosts}
    return {"cluster": cluster, "jobs": [{"name": "j", "options": [option]}]}


def is_lawful(raw: Raw, places: tuple[Places, ...]) -> bool:
    hosts, option = raw["cluster"]["hosts"], raw["jobs"][0]["options"][0]
    held = Counter(host for mine in places for host in mine)
    if any(tasks > hosts[host]["gpus"] for host, tasks in held.items()):
        return False
    if option["required"] and len({hosts[host]["parent"] for host in held}) > 1:
        return False
    asks = [(option["hosts"], tuple(held))]
    asks += [(g["num_hosts"], mine) for g, mine in zip(option["groups"], places, strict=True)]
    if any(ask and not ask["min"] <= len(set(mine)) <= ask["max"] for ask, mine in asks):
        return False
    for group, mine in zip(option["groups"], places, strict=True):
        for rule, level in (("apart", "level"), ("slices", "required")):
            if rule in group:
                field = "name" if group[rule][level] == "host" else "parent"
                tasks = Counter(hosts[host][field] for host in mine).values()
                if rule == "apart" and max(tasks) > group["apart"]["most"]:
                    return False
                if rule == "slices" and any(each % 2 for each in tasks):
                    return False
    return True


def some_place(raw: Raw) -> bool:
    every = range(len(raw["cluster"]["hosts"]))
    groups = raw["jobs"][0]["options"][0]["groups"]
    each = [combinations_with_replacement(every, group["count"]) for group in groups]
    return any(is_lawful(raw, places) for places in product(*each))


def test_whether_a_job_fits_is_exact_and_one_group_is_placed_wherever_it_does() -> None:
    refused, fitting = 0, 0
    for seed in range(examples(day=80, nightly=250, long=5000)):
        raw = drawn(Random(seed))
        round_, exists = Round.model_validate(raw), some_place(raw)
        try:
            check_round(round_)
        except InvalidInputError:
            assert not exists
            refused += 1
            continue
        problem = compile_round(round_)
        placement, choice = Placement(problem), problem.classes[0].choices[0]
        assert fits(placement, choice, 10**6) is exists, seed
        puts = place_choice(placement, choice)
        if puts is not None:
            tasks = [
                tuple(p.host for p in puts if p.group == k for _ in range(p.count))
                for k in range(len(choice.groups))
            ]
            assert is_lawful(raw, tuple(tasks)), seed
        elif exists:
            (first, *others) = choice.groups
            assert others or first.slices is not None, seed
        fitting += exists
    assert refused > 20
    assert fitting > examples(day=15, nightly=50)


def round_of(*jobs: Raw, gpus: tuple[int, ...] = (8, 8, 8, 8), **policy: Any) -> Round:
    hosts = [{"name": f"h{i}", "gpus": n, "gpu_model": "A"} for i, n in enumerate(gpus)]
    named = [{"name": f"j{i}", **job} for i, job in enumerate(jobs)]
    document = {"cluster": {"hosts": hosts}, "jobs": named, "policy": policy or {}}
    round_ = Round.model_validate(document)
    check_round(round_)
    return round_


def gang(tasks: int, least: int, most: int, **fields: Any) -> Raw:
    hosts = {"min": least, "max": most}
    return {"options": [{"hosts": hosts, "groups": [{"gpu": 1, "count": tasks}]}], **fields}


def hosts_of(plan: Plan, job: int) -> Counter[str]:
    return Counter(task.host for task in plan.decisions[job].tasks)


@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip"])
@pytest.mark.parametrize("most_variables", [10**6, -1])
def test_known_answers(monkeypatch: pytest.MonkeyPatch, backend: str, most_variables: int) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=most_variables)
    round_ = round_of(gang(16, 2, 2), gang(10, 4, 4), gpus=(8, 4, 8, 4, 2))
    plan = solve_round(round_, backend=backend, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    # All of 26 GPUs are asked; the first takes both large hosts, and the second lacks a fourth.
    assert hosts_of(plan, 0) == {"h0": 8, "h2": 8}
    assert not plan.decisions[1].tasks
    (value, *_) = plan.certificate.terms
    assert value.value == 16_000
    # Counts do not know that the second gang lacks a host.
    assert value.bound == (16_000 if most_variables > 0 else 26_000)


def test_a_running_job_may_stay_on_too_many_hosts_but_does_not_move_to_them() -> None:
    tasks = [{"index": i, "host": f"h{i}", "gpus": [0]} for i in range(3)]
    runs = gang(3, 1, 2, running={"tasks": tasks, "pinned": False})
    kept = solve_round(round_of(runs), isolation="none")
    assert [one.decision for one in kept.decisions] == [DecisionKind.KEEP]
    moved = round_of(runs, vacate=["h0"], terms=["remaining", "value", "disruption"])
    plan = solve_round(moved, isolation="none")
    assert verify(moved, plan).ok
    assert [one.decision for one in plan.decisions] == [DecisionKind.MIGRATE]
    assert len(hosts_of(plan, 0)) <= 2


def test_a_large_round_starts_gangs_on_exactly_two_hosts() -> None:
    jobs = [gang(12, 2, 2) for _ in range(60)] + [gang(6, 3, 4) for _ in range(60)]
    round_ = round_of(*jobs, gpus=(8,) * 120)
    plan = solve_round(round_, time_limit=10.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    started = [job for job, one in enumerate(plan.decisions) if one.tasks]
    assert all(len(hosts_of(plan, job)) == 2 for job in started if job < 60)
    assert plan.certificate.terms[0].value == 960_000


@pytest.mark.parametrize(
    ("job", "gpus", "bound"),
    [
        (gang(16, 2, 2), (8, 4, 4, 4, 4), 0),
        (gang(16, 2, 2), (8, 8, 8, 4, 4, 4, 4), 16_000),
        (gang(9, 2, 2), (8, 8, 8, 4, 4, 4, 4), 27_000),
        (gang(4, 4, 4), (8, 8, 1, 1), 4_000),
        (gang(4, 4, 4), (8, 8, 1), 0),
    ],
)
def test_counts_know_hosts_that_are_large_enough_and_enough_hosts(
    monkeypatch: pytest.MonkeyPatch, job: Raw, gpus: tuple[int, ...], bound: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    plan = solve_round(round_of(*[job] * 4, gpus=gpus), isolation="none")
    assert plan.certificate is not None
    (value, *_) = plan.certificate.terms
    assert (value.value, value.bound) == (bound, bound)
