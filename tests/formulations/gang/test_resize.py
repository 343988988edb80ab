"""Running jobs go on with other options: known answers, and all plans of drawn tiny rounds."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples import by_day, examples
from fuzz.policies.sizes import POLICY
from fuzz.run import one
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances import verify as verification
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_round, parse_round
from placewright.rounds import solve_round

Raw = dict[str, Any]
LIBRARY = Path(verification.__file__).parents[1] / "library"
BACKENDS = ("highs", "cp-sat", "cbc", "scip")


def option(count: int, gpu: int, progress: int, **group: Any) -> Raw:
    """An option of equal tasks, of value 1."""
    groups = [{"count": count, "gpu": gpu, "preferred": [], **group}]
    return {"value": 1, "progress": progress, "groups": groups}


def runs(cost: int, *places: tuple[str, list[int]], **more: Any) -> Raw:
    """A job that runs with its first option, and what stopping or resizing it costs."""
    tasks = [{"index": i, "host": host, "gpus": gpus} for i, (host, gpus) in enumerate(places)]
    return {"tasks": tasks, "migrate_cost": cost, "preempt_cost": cost, **more}


def job(name: str, *options: Raw, running: Raw | None = None, priority: int = 0) -> Raw:
    """A job with these options, which may run."""
    found = {"name": name, "priority": priority, "options": list(options)}
    return found if running is None else {**found, "running": running}


def decided(hosts: list[int], jobs: list[Raw], backend: str = "auto", **policy: Any) -> Plan:
    """The plan of a round under the terms value, progress and disruption."""
    named = [{"name": f"h{i}", "gpus": n, "gpu_model": "A100"} for i, n in enumerate(hosts)]
    terms = ["value", "progress", "disruption"]
    rules = {"terms": terms, "priority": "preemption", **policy}
    round_ = parse_round({"cluster": {"hosts": named}, "jobs": jobs, "policy": rules})
    plan = solve_round(round_, time_limit=20, backend=backend, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    return plan


def values(plan: Plan) -> tuple[int, ...]:
    """The values of a plan's terms."""
    assert plan.certificate is not None
    return tuple(term.value for term in plan.certificate.terms)


ONE_EACH = ("h0", [0]), ("h0", [1]), ("h0", [2]), ("h0", [3])
# Hosts, jobs, and the values of the best plan.
KNOWN: dict[str, tuple[list[int], list[Raw], tuple[int, int, int]]] = {
    "it shrinks before anybody stops": (
        [4],
        [
            job("a", option(4, 1, 600), option(2, 1, 0), running=runs(2_400_000, *ONE_EACH)),
            job("b", option(2, 1, 0), priority=1),
        ],
        (1, -600, 2_400_000),
    ),
    "of two the one grows that gains most": (
        [3],
        [
            job("a", option(1, 1, 0), option(2, 1, 600), running=runs(30_000, ("h0", [0]))),
            job("b", option(1, 1, 0), option(2, 1, 474), running=runs(30_000, ("h0", [1]))),
        ],
        (0, 600, 31_000),
    ),
    "two shrink and meet on one host": (
        [4, 4],
        [
            job("a", option(1, 4, 600), option(1, 2, 0), running=runs(1000, ("h0", [0, 1, 2, 3]))),
            job("b", option(1, 4, 600), option(1, 2, 0), running=runs(1000, ("h1", [0, 1, 2, 3]))),
            job("c", option(1, 4, 0)),
        ],
        (1, -1200, 4000),
    ),
    "it grows elsewhere": (
        [4, 4],
        [
            job("a", option(1, 2, 0), option(1, 4, 900), running=runs(5000, ("h0", [0, 1]))),
            job("x", option(1, 2, 0), running=runs(9000, ("h0", [2, 3]))),
        ],
        (0, 900, 9000),
    ),
    "it gives up the task on the other host": (
        [4, 2],
        [
            job(
                "a",
                option(3, 2, 300),
                option(2, 2, 0),
                running=runs(700, ("h0", [0, 1]), ("h0", [2, 3]), ("h1", [0, 1])),
            ),
            job("n", option(1, 2, 0, hosts=["h1"])),
        ],
        (1, -300, 700),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", KNOWN)
def test_known_answers(name: str, backend: str) -> None:
    hosts, jobs, best = KNOWN[name]
    assert values(decided(hosts, jobs, backend)) == best


@pytest.mark.parametrize(
    ("running", "policy"),
    [({"pin": "size"}, {}), ({"pin": "both"}, {}), ({}, {"keep_sizes": True})],
    ids=["pinned size", "pinned job", "kept by the policy"],
)
def test_a_size_may_be_kept(running: Raw, policy: Raw) -> None:
    hosts, (a, b), _ = KNOWN["it shrinks before anybody stops"]
    a = {**a, "running": {**a["running"], **running}}
    plan = decided(hosts, [a, b], **policy)
    assert values(plan) == (0, 0, 0)
    assert plan.decisions[0].decision is DecisionKind.KEEP


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_pinned_to_its_place_resizes_there_alone(backend: str) -> None:
    hosts, (a, b), best = KNOWN["it shrinks before anybody stops"]
    pinned = {**a, "running": {**a["running"], "pin": "place"}}
    assert values(decided(hosts, [pinned, b], backend)) == best
    # Where it would rather have gone elsewhere, the other makes room.
    hosts, (a, b), _ = KNOWN["it grows elsewhere"]
    pinned = {**a, "running": {**a["running"], "pin": "place"}}
    assert values(decided(hosts, [pinned, b], backend)) == (0, 900, 5000 + 2000 + 9000 + 2000)
    # It stops for nobody: with one size it is as one that is pinned.
    single = {**pinned, "options": pinned["options"][:1]}
    wants = job("c", option(1, 4, 0, hosts=["h0"]), priority=1)
    assert values(decided(hosts, [single, wants], backend)) == (0, 0, 0)
    # Of three tasks on two hosts it gives up any, but does not bring two together.
    a = job(
        "a",
        option(2, 2, 300),
        option(1, 4, 900),
        option(1, 2, 0),
        running=runs(7, ("h0", [0, 1]), ("h1", [0, 1]), pin="place"),
    )
    wants = job("c", option(1, 2, 0, hosts=["h1"]))
    assert values(decided([4, 2], [a, wants], backend)) == (1, -300, 7)


@pytest.mark.parametrize(
    "more",
    [
        {"policy": {"formulation": "deadline"}, "leases": {"length_s": 60, "horizon": 1}},
        {"policy": {"backfill": {"depth": 1}}},
    ],
)
def test_one_is_pinned_to_its_place_only_where_jobs_resize(more: Raw) -> None:
    hosts = [{"name": "h0", "gpus": 4, "gpu_model": "A100"}]
    pinned = job("a", option(1, 1, 0), running=runs(1, ("h0", [0]), pin="place"))
    with pytest.raises(InvalidInputError, match=r"jobs\[0\]\.running\.pin"):
        parse_round({"cluster": {"hosts": hosts}, "jobs": [pinned], **more})


def test_the_bundled_round_has_its_answer() -> None:
    plan = solve_round(load_round(LIBRARY / "resize.yaml"), isolation="none")
    assert values(plan) == (1, 0, -600, 2_400_000)
    assert [one.decision.value for one in plan.decisions] == ["resize", "start"]


def test_a_restart_counts_in_the_progress() -> None:
    grows = option(1, 1, 500), option(2, 1, 800)
    for factor, gained in ((1000, 300), (700, 60), (625, 0)):
        running = runs(100, ("h0", [0]), resize_factor=factor, resize_costs=[0, 7])
        plan = decided([2], [job("a", *grows, running=running)])
        assert values(plan) == (0, gained, 1007 if gained else 0)


def test_what_a_running_job_holds_by_host() -> None:
    hosts = [{"name": name, "gpus": 2, "gpu_model": "A100"} for name in ("h0", "h1")]
    tasks = [{"host": "h0", "gpus": [0, 1]}, {"group": 1, "host": "h0"}]
    tasks.append({"group": 1, "index": 1, "host": "h1"})
    held = job("a", {"groups": [{"gpu": 2}, {"gpu": 0, "count": 2}]}, running={"tasks": tasks})
    problem = compile_round(parse_round({"cluster": {"hosts": hosts}, "jobs": [held]}))
    assert dict(problem.milli_held(0)) == {0: 2000, 1: 0}
    assert dict(problem.milli_held(0, least=1)) == {0: 2001, 1: 1}


def test_a_budget_limits_who_resizes() -> None:
    hosts, jobs, _ = KNOWN["two shrink and meet on one host"]
    plan = decided(hosts, jobs, limits={"disruption": {"resized_jobs": 1}})
    assert values(plan) == (0, 0, 0)


def test_a_quota_binds_who_grows_and_nobody_who_shrinks() -> None:
    def of_tenant(*jobs: Raw) -> tuple[int, ...]:
        named = [{"name": "h0", "gpus": 4, "gpu_model": "A100"}]
        raw = {
            "cluster": {"hosts": named},
            "tenants": [{"name": "t", "quota": {"gpu": 1}}],
            "jobs": [{**one, "tenant": "t"} for one in jobs],
            "policy": {"terms": ["progress", "disruption"]},
        }
        plan = solve_round(parse_round(raw), time_limit=20, isolation="none")
        return values(plan)

    running = runs(10, ("h0", [0]))
    assert of_tenant(job("a", option(1, 1, 0), option(2, 1, 5), running=running)) == (0, 0)
    running = runs(10, ("h0", [0]), ("h0", [1]), ("h0", [2]))
    assert of_tenant(job("a", option(3, 1, 0), option(2, 1, 5), running=running)) == (5, 10)


@pytest.mark.parametrize("seed", range(examples(day=1, nightly=60)))
def test_plans_and_bounds_agree_with_all_plans(seed: int) -> None:
    _, played, _ = one(POLICY, seed)
    assert played.failures == []


SIZES = (1, 2, 4, 8, 16, 32)


def elastic_round(hosts: int, running: int, pending: int, *, seed: int, keep: bool) -> Raw:
    """Racks of 8 hosts with 8 GPUs; jobs of 1 to 32 GPUs, of sublinear speed, some of which run."""
    rng = Random(f"elastic {seed}")
    free = [8] * hosts
    jobs: list[Raw] = []
    for number in range(running + pending):
        power, weight = rng.uniform(0.5, 0.95), rng.choice((1, 1, 2, 4))
        sizes = SIZES[: rng.randint(2, len(SIZES))]
        options = []
        for size in sizes:
            group = {"count": max(size // 8, 1), "gpu": min(size, 8)}
            group |= {"required": "rack"} if size > 8 else {}
            progress = round(1000 * weight * size**power)
            options.append({"value": 1, "progress": progress, "groups": [group]})
        job = {"name": f"j{number}", "options": options}
        if number < running:
            o = rng.randrange(min(len(sizes), 4))
            home = [h for h in range(hosts) if free[h] >= sizes[o]]
            if not home:
                continue
            h = rng.choice(home)
            gpus = list(range(8 - free[h], 8 - free[h] + sizes[o]))
            free[h] -= sizes[o]
            tasks = [{"host": f"h{h}", "gpus": gpus}]
            restart = {"resize_factor": 900, "restart_s": 9}
            job["running"] = {"option": o, "tasks": tasks, **restart}
        jobs.append(job)
    racks = [{"name": f"r{i}", "level": "rack"} for i in range(hosts // 8)]
    named = [
        {"name": f"h{h}", "parent": f"r{h // 8}", "gpus": 8, "gpu_model": "A100"}
        for h in range(hosts)
    ]
    terms = ["value", "progress", "disruption"]
    return {
        "cluster": {"levels": ["rack"], "domains": racks, "hosts": named},
        "jobs": jobs,
        "policy": {"terms": terms, "keep_sizes": keep},
    }


@pytest.mark.parametrize("seed", by_day(range(4)))
def test_sizes_by_counts_come_near_their_bound(seed: int) -> None:
    found, runs_at = {}, 0
    for keep in (False, True):
        raw = elastic_round(64, 90, 10, seed=seed, keep=keep)
        plan = solve_round(parse_round(raw), time_limit=20, isolation="none")
        assert plan.certificate is not None
        assert not plan.certificate.degraded
        found[keep] = plan.certificate.terms[1]
        disruption = plan.certificate.terms[2]
        assert keep or 0.75 * disruption.value <= (disruption.bound or 0) <= disruption.value
        runs_at = sum(
            one["options"][one["running"]["option"]]["progress"]
            for one in raw["jobs"]
            if "running" in one
        )
    with_sizes, without = found[False], found[True]
    assert with_sizes.bound is not None
    assert with_sizes.value + runs_at >= 0.995 * (with_sizes.bound + runs_at)
    assert with_sizes.value + runs_at >= 1.1 * (without.value + runs_at)
