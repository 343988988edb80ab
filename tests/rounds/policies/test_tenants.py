"""Policies by tenant: the fixtures of the papers, and what they promise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from examples import by_day
from placewright.instances.traces.trace import NEVER, SECOND, Trace
from placewright.rounds.policies.named import (
    COUNTERS,
    DRF,
    TenantPolicy,
    dominant_resource_fairness,
)
from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.loop import Loop, random_outages
from placewright.rounds.replay.policy_lists import TenantList
from placewright.rounds.replay.spec import ReplaySpec, play

A, B, C = 0, 1, 2


def trace_by_tenant(*jobs: tuple[int, int, int, int], memory: tuple[int, ...] = ()) -> Trace:
    """Make a trace of (tenant, arrival s, GPUs, work s)."""
    rows = np.array(jobs, dtype=np.int64)
    return Trace.of(
        SECOND * rows[:, 1],
        rows[:, 2],
        SECOND * rows[:, 3],
        tenant=rows[:, 0],
        tenants=("A", "B", "C"),
        extra={"memory": np.array(memory)} if memory else None,
    )


def played(policy: TenantPolicy, trace: Trace, sizes: list[int]) -> Loop:
    """Play a trace on hosts."""
    loop = Loop(trace, HostLedger(sizes), TenantList(policy, trace))
    loop.run()
    return loop


def test_drf_gives_three_tasks_to_one_tenant_and_two_to_the_other() -> None:
    """Ghodsi et al., section 4.1: 9 CPUs, 18 GB; A's tasks ask 1 and 4, B's 3 and 1."""
    jobs = [(A, 0, 1, 100)] * 6 + [(B, 0, 3, 100)] * 6
    trace = trace_by_tenant(*jobs, memory=(*[4] * 6, *[1] * 6))
    loop = played(dominant_resource_fairness(9, {"memory": 18}), trace, [9])
    assert np.bincount(trace.tenant[loop.first_start == 0]).tolist() == [3, 2]
    alone = played(DRF, trace, [9])
    assert np.bincount(trace.tenant[alone.first_start == 0]).tolist() == [4, 1]


def test_drf_is_max_min_of_gpus_where_there_is_nothing_else() -> None:
    """Of 8 GPUs A, B and C get 2, 4 and 2; B's second job does not wait for A's third."""
    jobs = [(A, 0, 1, 50)] * 2 + [(B, 0, 2, 50)] * 4 + [(C, 0, 1, 50)] * 4
    trace = trace_by_tenant(*jobs)
    loop = played(DRF, trace, [8])
    gpus = np.bincount(trace.tenant, weights=trace.gpus * (loop.first_start == 0))
    assert gpus.tolist() == [2, 4, 2]


@pytest.mark.nightly(after=5)
@pytest.mark.parametrize("seed", range(20))
def test_rounds_of_drf_are_max_min_among_all_sets_of_whole_jobs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(3, 9))
    trace = Trace.of(
        np.zeros(jobs),
        rng.integers(1, 6, jobs),
        SECOND * rng.integers(1, 20, jobs),
        tenant=rng.integers(0, 3, jobs),
        tenants=("A", "B", "C"),
    )
    there = np.unique(trace.tenant)

    def shares(chosen: np.ndarray) -> list[int]:
        held = np.bincount(trace.tenant, weights=trace.gpus * chosen, minlength=3)
        return sorted(held[there].astype(int).tolist())

    sets = [np.array(bits) for bits in product((0, 1), repeat=jobs)]
    best = max(shares(chosen) for chosen in sets if chosen @ trace.gpus <= 8)
    found = play(trace, ReplaySpec("drf-rounds", (8,)))
    assert shares(found.first_start_us == 0) == best
    assert (found.end_us != NEVER).all()


def test_counters_alternate_by_the_gpu_time_that_tenants_have_had() -> None:
    """1 GPU, jobs of 10 s (A) and of 30 s (B): A, B, A, A, and A again as both have had 30 s."""
    trace = trace_by_tenant(*[(A, 0, 1, 10)] * 5, *[(B, 0, 1, 30)] * 3)
    loop = played(COUNTERS, trace, [1])
    order = np.argsort(loop.first_start, kind="stable")
    assert trace.tenant[order].tolist() == [A, B, A, A, A, B, A, B]


def test_a_tenant_that_was_away_has_no_claim_to_what_others_had_meanwhile() -> None:
    """B comes at 100, when A has had 100 s: they alternate, and B does not go on for 100 s."""
    trace = trace_by_tenant(*[(A, 0, 1, 10)] * 15, *[(B, 100, 1, 10)] * 5)
    loop = played(COUNTERS, trace, [1])
    starts = loop.first_start // SECOND
    assert starts[trace.tenant == B].tolist() == [110, 130, 150, 170, 190]
    saved_up = TenantPolicy("counters", COUNTERS.keys)
    starts = played(saved_up, trace, [1]).first_start // SECOND
    assert starts[trace.tenant == B].tolist() == [100, 110, 120, 130, 140]


def test_a_job_that_does_not_fit_is_not_overtaken() -> None:
    trace = trace_by_tenant((A, 0, 3, 10), (B, 1, 4, 10), (A, 2, 1, 10))
    assert (played(DRF, trace, [4]).first_start // SECOND).tolist() == [0, 10, 20]


@pytest.mark.parametrize("seed", by_day(range(200), 40))
def test_counters_of_tenants_with_jobs_waiting_stay_close(seed: int) -> None:
    """VTC, theorem 4.4: two tenants that always have jobs waiting differ by at most 2 U.

    U is all GPUs for as long as the longest job runs.
    """
    rng = np.random.default_rng(seed)
    jobs, hosts = 60, [[4], [4, 4], [8, 2]][seed % 3]
    trace = Trace.of(
        np.zeros(jobs, dtype=np.int64),
        rng.integers(1, 5, jobs),
        SECOND * rng.integers(1, 30, jobs),
        tenant=rng.integers(0, 3, jobs),
        tenants=("A", "B", "C"),
    )
    bound = 2 * sum(hosts) * int(trace.work_us.max())
    loop = Loop(trace, HostLedger(hosts), TenantList(COUNTERS, trace))

    def check(loop: Loop) -> None:
        waits = (loop.end == NEVER) & (loop.running == 0)
        backlogged = np.unique(trace.tenant[waits])
        if len(backlogged) > 1:
            service = loop.column("service_us", np.arange(jobs)) * trace.gpus
            had = np.bincount(trace.tenant, weights=service, minlength=3)[backlogged]
            assert had.max() - had.min() <= bound

    loop.run(after_event=check)
    assert (loop.end != NEVER).all()


def naive(policy: str, trace: Trace, gpus: int) -> list[int]:
    """Play on counted GPUs in steps of a second; decide when jobs come or end.

    Return first starts in seconds.
    """
    jobs = range(len(trace))
    asked, work = trace.gpus.tolist(), (trace.work_us // SECOND).tolist()
    submit, tenant = (trace.submit_us // SECOND).tolist(), trace.tenant.tolist()
    start, end = [-1] * len(trace), [-1] * len(trace)
    had, last, waited = [0, 0, 0], 0, set[int]()
    for now in range(10_000):
        for job in jobs:
            if start[job] >= 0 and now == start[job] + work[job]:
                end[job] = now
        for job in jobs:
            if submit[job] == now:
                if tenant[job] not in waited:
                    least = min(had[other] for other in waited or {last})
                    had[tenant[job]] = max(had[tenant[job]], least)
                waited.add(tenant[job])
        happens = now in submit or now in end
        while waited and happens:
            runs = [job for job in jobs if start[job] >= 0 > end[job]]
            queue = {
                t: [j for j in jobs if submit[j] <= now and start[j] < 0 and tenant[j] == t]
                for t in waited
            }
            held = [sum(asked[job] for job in runs if tenant[job] == t) for t in range(3)]
            key = held if policy == "drf" else had
            turn = min(waited, key=lambda t: (key[t], queue[t][0]))
            if asked[queue[turn][0]] > gpus - sum(held):
                break
            start[queue[turn][0]] = now
            if len(queue[turn]) == 1:
                waited.remove(turn)
                last = turn
        for job in jobs:
            if start[job] >= 0 > end[job]:
                had[tenant[job]] += asked[job]
        if min(end) >= 0:
            break
    return start


@pytest.mark.parametrize("seed", by_day(range(300), 40))
def test_tenants_beside_a_naive_simulator(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, policy = int(rng.integers(1, 30)), ("drf", "tenant-counters")[seed % 2]
    trace = Trace.of(
        SECOND * rng.integers(0, 40, jobs),
        rng.integers(1, 7, jobs),
        SECOND * rng.integers(1, 20, jobs),
        tenant=rng.integers(0, 3, jobs),
        tenants=("A", "B", "C"),
    )
    found = play(trace, ReplaySpec(policy, (4, 2), placer="counting"))
    assert (found.first_start_us // SECOND).tolist() == naive(policy, trace, 6)


@pytest.mark.parametrize("policy", ["drf", "tenant-counters"])
def test_a_job_that_a_failure_stops_goes_on_and_is_counted_once(policy: str) -> None:
    rng = np.random.default_rng(3)
    trace = Trace.of(
        SECOND * rng.integers(0, 200, 40),
        rng.integers(1, 5, 40),
        SECOND * rng.integers(1, 60, 40),
        tenant=rng.integers(0, 3, 40),
        tenants=("A", "B", "C"),
    )
    away = random_outages(3, 500_000_000, mean_up_s=60, mean_down_s=12, seed=3)
    found = play(trace, ReplaySpec(policy, (4, 4, 4), outages=away, checkpoint_s=5))
    assert (found.end_us != NEVER).all()
