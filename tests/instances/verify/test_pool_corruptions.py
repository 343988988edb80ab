"""Plans that take more of a pool than there is are rejected, by the rule about pools alone."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from corrupting import Raw, assert_broken
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import Verification, verify

POWER: Raw = {"resource": "power_w", "level": "rack", "capacity": 100}
TREES: Raw = {"resource": "trees", "level": "rack", "capacity": 1, "per": "job"}


def cluster(*pools: Raw) -> Raw:
    """Two rows of two racks of two hosts of 8 GPUs; the first host has 90 W of its own."""
    host = {"gpus": 8, "gpu_model": "H100"}
    racks = [f"k{i}" for i in range(4)]
    return {
        "levels": ["row", "rack"],
        "domains": [
            *({"name": f"w{i}", "level": "row"} for i in range(2)),
            *({"name": k, "level": "rack", "parent": f"w{i // 2}"} for i, k in enumerate(racks)),
        ],
        "hosts": [
            {**host, "name": f"{k}-h{i}", "parent": k}
            | ({"resources": {"power_w": 90}} if (k, i) == ("k0", 0) else {})
            for k in racks
            for i in range(2)
        ],
        "pools": list(pools),
    }


def job(name: str, count: int = 1, watts: int = 0, **fields: Any) -> Raw:
    group = {"count": count, "gpu": 1, "resources": {"power_w": watts} if watts else {}}
    uses = fields.pop("uses", {})
    return {"name": name, "options": [{"groups": [group], "uses": uses}], **fields}


def tasks(gpu: int, *hosts: str) -> list[Raw]:
    return [{"index": i, "host": host, "gpus": [gpu]} for i, host in enumerate(hosts)]


def decided(kind: str, name: str, gpu: int, *hosts: str) -> Raw:
    return {"job": name, "decision": kind, "option": 0, "tasks": tasks(gpu, *hosts)}


def check(pools: list[Raw], jobs: list[Raw], *decisions: Raw) -> Verification:
    round_ = Round.model_validate({"cluster": cluster(*pools), "jobs": jobs})
    return verify(round_, Plan.model_validate({"decisions": decisions}))


@pytest.mark.parametrize(
    ("pool", "hosts", "message"),
    [
        (POWER, ("k0-h1", "k1-h0"), ""),
        (POWER, ("k0-h1", "k0-h0"), "jobs hold 120 of power_w together in rack 'k0'"),
        ({**POWER, "domains": {"k0": 120}}, ("k0-h1", "k0-h0"), ""),
        ({**POWER, "level": "row"}, ("k0-h0", "k2-h0"), ""),
        ({**POWER, "level": "row"}, ("k0-h0", "k1-h0"), "in row 'w0'; expected at most 100"),
        ({**POWER, "level": "host"}, ("k0-h0", "k0-h1"), ""),
        ({**POWER, "level": "host", "capacity": 59}, ("k0-h0", "k2-h1"), "in host 'k0-h0'"),
        ({**POWER, "level": None, "capacity": 120}, ("k0-h0", "k2-h0"), ""),
        (
            {**POWER, "level": None},
            ("k0-h0", "k2-h0"),
            (
                "jobs hold 120 of power_w together in the whole cluster; expected at most 100 of "
                "power_w (pool 100 of power_w, held before the round 0 of power_w)"
            ),
        ),
    ],
)
def test_tasks_take_from_every_pool_around_their_host(
    pool: Raw, hosts: tuple[str, str], message: str
) -> None:
    found = check([pool], [job("a", 2, 60)], decided("start", "a", 0, *hosts))
    if not message:
        assert found.ok
    else:
        assert_broken(found, {"pool"}, "decisions[0]")
        assert message in found.violations[0].message


def test_tasks_take_from_a_host_that_lists_the_resource_too() -> None:
    pool = {**POWER, "capacity": 1000}
    place = decided("start", "a", 0, "k0-h0")
    assert check([pool], [job("a", 1, 90)], place).ok
    assert_broken(
        check([pool], [job("a", 1, 91)], place), {"host_capacity"}, "decisions[0].tasks[0]"
    )


@pytest.mark.parametrize(
    ("pool", "hosts", "ok"),
    [
        (TREES, ("k0-h0", "k1-h0"), True),
        (TREES, ("k0-h0", "k2-h0"), False),
        ({**TREES, "domains": {"k2": 2}}, ("k0-h0", "k2-h0"), True),
        ({**TREES, "level": "row", "capacity": 2}, ("k0-h0", "k2-h0"), True),
        ({**TREES, "level": None, "capacity": 2}, ("k0-h0", "k2-h0"), True),
        ({**TREES, "level": None}, ("k0-h0", "k1-h0"), False),
    ],
)
def test_a_job_takes_once_from_each_domain_in_which_it_has_a_task(
    pool: Raw, hosts: tuple[str, str], ok: bool
) -> None:
    jobs = [job("a", 4, uses={"trees": 1}), job("b", uses={"trees": 1}), job("c")]
    first = decided("start", "a", 0, hosts[0], hosts[0], "k3-h0", "k3-h1")
    first["tasks"][1]["gpus"] = [1]
    plan = first, decided("start", "b", 2, "k2-h1"), decided("start", "c", 3, "k3-h0")
    if hosts[1] == "k2-h0":  # one task of the gang is moved beside the other job
        first["tasks"][3]["host"] = "k2-h0"
    found = check([pool], jobs, *plan)
    assert found.ok == ok
    if not ok:
        assert_broken(found, {"pool"}, "decisions[1]")


@pytest.mark.parametrize(("watts", "ok"), [(0, True), (1, False)])
def test_a_pool_beyond_its_capacity_may_stay_and_gets_no_fuller(watts: int, ok: bool) -> None:
    old = job("old", 2, 60, running={"tasks": tasks(0, "k0-h0", "k0-h1")})
    keep = decided("keep", "old", 0, "k0-h0", "k0-h1")
    found = check([POWER], [old, job("new", 1, watts)], keep, decided("start", "new", 1, "k0-h0"))
    assert found.ok == ok
    if not ok:
        assert_broken(found, {"pool"}, "decisions[1]")
        assert "expected at most 120 of power_w" in found.violations[0].message


def random_pools(rng: Random) -> list[Raw]:
    """Pools of both kinds on two levels of the cluster and on all of it."""
    levels = [(name, rng.choice(["host", "rack", "row", None])) for name in ("power_w", "trees")]
    levels += [(name, "rack") for name, level in levels if level != "rack"]
    found = []
    for name, level in levels:
        pool = {"resource": name, "level": level, "capacity": rng.randint(0, 6)}
        if level == "rack":
            pool["domains"] = {"k1": rng.randint(0, 6)}
        found.append(pool | {"per": "job" if name == "trees" else "task"})
    return found


def counted(pools: list[Raw], jobs: list[Raw], places: dict[str, list[str]]) -> Counter[Any]:
    """What is taken of each pool domain, task by task and job by job."""
    found: Counter[Any] = Counter()
    for pool in pools:
        for one in jobs:
            option, seen = one["options"][0], set()
            for host in places.get(one["name"], []):
                rack = host[:2]
                where = {"host": host, "rack": rack, "row": f"w{int(rack[1]) // 2}", None: ""}
                domain = where[pool["level"]]
                key = pool["resource"], pool["level"], domain
                if pool["per"] == "task":
                    found[key] += option["groups"][0]["resources"].get("power_w", 0)
                elif domain not in seen:
                    found[key] += option["uses"].get("trees", 0)
                seen.add(domain)
    return found


def test_random_plans_are_judged_as_counting_judges_them() -> None:
    rng, outcomes = Random(0), Counter[bool]()
    hosts = [f"k{i}-h{j}" for i in range(4) for j in range(2)]
    for _ in range(400):
        pools = random_pools(rng)
        jobs, before, after, decisions = [], {}, {}, []
        for number in range(rng.randint(1, 4)):
            name, count = f"j{number}", rng.randint(1, 3)
            new = job(name, count, rng.randint(0, 2), uses={"trees": rng.randint(0, 2)})
            places = [rng.choice(hosts) for _ in range(count)]
            listed = [
                {"index": i, "host": host, "gpus": [2 * number if i < 1 else 2 * number + 1]}
                for i, host in enumerate(places[:2])
            ]
            new["options"][0]["groups"][0]["count"] = len(listed)
            after[name] = places[:2]
            kind = "start"
            if rng.random() < 0.4:
                new["running"], kind = {"tasks": listed}, "keep"
                before[name] = places[:2]
            jobs.append(new)
            decisions.append({"job": name, "decision": kind, "option": 0, "tasks": listed})
        held, then = counted(pools, jobs, after), counted(pools, jobs, before)
        full = False
        for pool in pools:
            for (resource, level, domain), amount in held.items():
                if (resource, level) == (pool["resource"], pool["level"]):
                    most = pool.get("domains", {}).get(domain, pool["capacity"])
                    full |= amount > max(most, then[resource, level, domain])
        found = check(pools, jobs, *decisions)
        assert {v.rule for v in found.violations} <= {"pool", "host_capacity"}
        assert any(v.rule == "pool" for v in found.violations) == full
        outcomes[full] += 1
    assert min(outcomes[True], outcomes[False]) > 50


@pytest.mark.parametrize(
    ("pool", "order", "spare", "ok"),
    [
        (POWER, ["a", "b"], [], False),
        (POWER, ["b", "a"], [], True),
        (POWER, ["b"], ["a"], True),
        (POWER, ["a"], ["b"], True),
        ({**POWER, "capacity": 120}, ["a", "b"], [], True),
        ({**POWER, "level": None, "capacity": 60}, ["a", "b"], [], True),
        ({**TREES, "domains": {"k1": 2}}, ["a", "b"], [], True),
        (TREES, ["a", "b"], [], False),
        (TREES, ["b", "a"], [], True),
    ],
)
def test_each_step_of_the_moves_leaves_pools_within_their_limits(
    pool: Raw, order: list[str], spare: list[str], ok: bool
) -> None:
    """Job a moves from k0 to k1, b from k1 to k2."""
    watts, uses = (60, {}) if pool["resource"] == "power_w" else (0, {"trees": 1})
    jobs = [
        job(name, 1, watts, uses=uses, running={"tasks": tasks(0, host)})
        for name, host in (("a", "k0-h0"), ("b", "k1-h0"))
    ]
    round_ = Round.model_validate({"cluster": cluster(pool), "jobs": jobs})
    moves = {"kind": "moves", "steps": order, "needs_spare": spare}
    moved = decided("migrate", "a", 0, "k1-h1"), decided("migrate", "b", 0, "k2-h0")
    plan = Plan.model_validate({"decisions": moved, "sections": [moves]})
    found = verify(round_, plan)
    assert found.ok == ok
    if not ok:
        assert_broken(found, {"move_order"}, "sections[0].steps[0]")
        assert "after the turn of job 'a' jobs hold" in found.violations[0].message
