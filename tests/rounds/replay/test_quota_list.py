"""Quotas of tenants in replays: cells give what a cluster of one's own would, GPUs do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples import by_day
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.trace import NEVER, SECOND, Trace
from placewright.rounds.replay.loop import Loop, Outage, random_outages
from placewright.rounds.replay.policy_lists import Quota
from placewright.rounds.replay.spec import ReplaySpec, play

TENANTS = ("A", "B", "C")
A, B, C = range(3)
OWNS_A_HOST = (Quota("A", 1, 4),)


def trace_by_tenant(*jobs: tuple[int, int, int, int]) -> Trace:
    """Make a trace of (tenant, arrival s, GPUs, work s)."""
    rows = np.array(jobs, dtype=np.int64).reshape(-1, 4)
    return Trace.of(
        SECOND * rows[:, 1], rows[:, 2], SECOND * rows[:, 3], tenant=rows[:, 0], tenants=TENANTS
    )


# Eight opportunistic jobs fill two hosts of 4; at 10 four of them are left, two on each host.
FRAGMENTED = [(B, 0, 1, 10 if number % 2 else 100) for number in range(8)]


def test_a_tenant_that_owns_a_host_does_not_wait_for_opportunistic_jobs() -> None:
    """The two jobs that make room go on beside the others at once."""
    trace = trace_by_tenant(*FRAGMENTED, (A, 20, 4, 30))
    found = play(trace, ReplaySpec("hived", (4, 4), quotas=OWNS_A_HOST))
    assert found.first_start_us[8] == 20_000_000
    assert found.end_us[8] == 50_000_000
    assert found.stops.tolist().count(1) == 2
    assert found.end_us.tolist()[:8] == [100_000_000, 10_000_000] * 4


def test_under_a_quota_of_gpus_it_waits_until_a_host_is_free() -> None:
    """Four GPUs are free, as many as are asked, two on each host."""
    trace = trace_by_tenant(*FRAGMENTED, (A, 20, 4, 30))
    found = play(trace, ReplaySpec("gpu-quota", (4, 4), quotas=OWNS_A_HOST))
    assert found.first_start_us[8] == 100_000_000
    assert not found.stops.any()


def test_under_a_quota_of_gpus_only_those_are_preempted_that_are_too_many() -> None:
    """Hosts are full; of A's jobs of one GPU each preempts the job that started last."""
    jobs = [(B, 0, 1, 100)] * 8 + [(A, 20, 1, 30)] * 2
    found = play(trace_by_tenant(*jobs), ReplaySpec("gpu-quota", (4, 4), quotas=OWNS_A_HOST))
    assert found.first_start_us[8:].tolist() == [20_000_000, 20_000_000]
    assert found.stops.tolist() == [0] * 6 + [1, 1, 0, 0]


def test_a_job_that_is_larger_than_the_quota_is_opportunistic() -> None:
    """A's job of 8 GPUs runs on idle hosts, and leaves one to A's own job of 4 that comes."""
    trace = trace_by_tenant((A, 0, 8, 100), (A, 10, 4, 30), (A, 11, 4, 30))
    found = play(trace, ReplaySpec("hived", (4, 4), quotas=OWNS_A_HOST))
    assert found.first_start_us.tolist() == [0, 10_000_000, 40_000_000]
    assert found.stops.tolist() == [1, 0, 0]
    assert found.end_us[0] == 160_000_000


def test_cells_of_a_host_that_fails_are_bound_to_another() -> None:
    """A's job goes on at once on the other host; B's makes room for it, and goes on behind it."""
    trace = trace_by_tenant((A, 0, 4, 30), (B, 0, 3, 50))
    outages = (Outage(0, 10_000_000, 100_000_000),)
    found = play(trace, ReplaySpec("hived", (4, 4), quotas=OWNS_A_HOST, outages=outages))
    assert found.end_us.tolist() == [30_000_000, 70_000_000]
    assert found.stops.tolist() == [1, 1]


@pytest.mark.parametrize("policy", ["hived", "gpu-quota"])
@pytest.mark.parametrize("seed", by_day(range(100), 20))
def test_jobs_end_while_hosts_fail(policy: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hosts = ((4, 4, 4), (8, 8))[seed % 2]
    trace, quotas = random_trace(rng, hosts[0]), random_quotas(rng, hosts)
    away = random_outages(len(hosts), 200_000_000, mean_up_s=60, mean_down_s=12, seed=seed)
    every = (None, 7)[seed // 2 % 2]
    spec = ReplaySpec(policy, hosts, quotas=quotas, outages=away, checkpoint_s=3, every_s=every)
    found = play(trace, spec, watch=no_gpu_twice)
    assert (found.end_us != NEVER).all()


def random_trace(rng: np.random.Generator, size: int) -> Trace:
    """Draw jobs of up to two hosts."""
    jobs = int(rng.integers(5, 40))
    return Trace.of(
        SECOND * rng.integers(0, 60, jobs),
        rng.integers(1, rng.choice([size, 2 * size]) + 1, jobs),
        SECOND * rng.integers(1, 30, jobs),
        tenant=rng.integers(0, 3, jobs),
        tenants=TENANTS,
    )


def random_quotas(rng: np.random.Generator, hosts: tuple[int, ...]) -> tuple[Quota, ...]:
    """Deal cells of the hosts to two tenants, some to nobody."""
    found = []
    for host in hosts:
        cells = 2 ** int(rng.integers(0, host.bit_length()))
        owners = rng.integers(0, 3, cells).tolist()
        found += [Quota(TENANTS[owner], 1, host // cells) for owner in owners if owner != C]
    return tuple(found) or (Quota("A", 1, 1),)


@pytest.mark.parametrize("seed", by_day(range(300), 20))
def test_cells_give_guaranteed_jobs_what_a_cluster_of_ones_own_would(seed: int) -> None:
    """Without the other tenants, and jobs larger than the quota, they start at the same times."""
    rng = np.random.default_rng(seed)
    hosts = ((4, 4, 4), (8, 8), (2,) * 4)[seed % 3]
    trace, quotas = random_trace(rng, hosts[0]), random_quotas(rng, hosts)
    spec = ReplaySpec("hived", hosts, placer=("first-fit", "best-fit")[seed % 2], quotas=quotas)
    shared = play(trace, spec, watch=no_gpu_twice)
    assert (shared.end_us != NEVER).all()
    for tenant in (A, B):
        own = tuple(quota for quota in quotas if quota.tenant == TENANTS[tenant])
        if not own:
            continue
        largest = sum(quota.cells * quota.gpus for quota in own)
        rows = np.flatnonzero((trace.tenant == tenant) & (trace.gpus <= largest))
        if not len(rows):
            continue
        first = int(trace.submit_us[rows[0]])
        private = Trace.of(
            trace.submit_us[rows],
            trace.gpus[rows],
            trace.work_us[rows],
            tenant=trace.tenant[rows],
            tenants=TENANTS,
        )
        alone = play(private, replace(spec, quotas=own))
        never_stopped = shared.stops[rows] == 0
        fits = guaranteed(trace.gpus[rows], own, hosts[0])
        assert never_stopped[fits].all()
        assert (
            shared.first_start_us[rows][fits].tolist()
            == (alone.first_start_us + first)[fits].tolist()
        )


def guaranteed(gpus: np.ndarray, quotas: tuple[Quota, ...], size: int) -> np.ndarray:
    """Say which jobs fit empty cells: whole hosts and a cell for the rest, by trying."""
    out = []
    for asked in gpus.tolist():
        cells = sorted((quota.gpus for quota in quotas for _ in range(quota.cells)), reverse=True)
        parts = [size] * (asked // size) + ([asked % size] if asked % size else [])
        fits = True
        for part in parts:
            able = [cell for cell in cells if cell >= part]
            fits &= bool(able)
            if able:
                cells.remove(able[-1])
        out.append(fits)
    return np.array(out, dtype=bool)


def no_gpu_twice(loop: Loop) -> None:
    """Count GPUs of hosts."""
    held = np.zeros(len(loop.ledger.sizes), dtype=np.int64)
    for place in loop.place.values():
        for host, gpus in place:
            held[host] += gpus
    sizes = np.array(loop.ledger.sizes)
    sizes[sorted(loop.ledger.closed)] = 0
    assert (held + np.array(loop.ledger.free) == sizes).all()


@pytest.mark.parametrize("seed", by_day(range(60), 20))
def test_guaranteed_jobs_stay_within_a_quota_of_gpus(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    trace, quotas = random_trace(rng, 4), (Quota("A", 1, 4), Quota("B", 3, 1))
    most = {A: 4, B: 3}

    def check(loop: Loop) -> None:
        no_gpu_twice(loop)
        for tenant, quota in most.items():
            mine = [job for job in loop.place if trace.tenant[job] == tenant]
            inside = [loop.gpus[job] for job in mine if loop.gpus[job] <= quota]
            assert sum(inside) <= quota

    found = play(trace, ReplaySpec("gpu-quota", (4, 4), quotas=quotas), watch=check)
    assert (found.end_us != NEVER).all()
    inside = (trace.gpus <= 4) & (trace.tenant == A) | (trace.gpus <= 3) & (trace.tenant == B)
    assert not found.stops[inside].any()


@pytest.mark.parametrize("policy", ["hived", "gpu-quota"])
def test_a_replay_that_is_killed_goes_on_as_if_it_had_not_been(policy: str, tmp_path: Path) -> None:
    away = (Outage(0, 20_000_000, 45_000_000), Outage(1, 60_000_000, 90_000_000))
    rng = np.random.default_rng(7)
    trace, quotas = random_trace(rng, 8), (Quota("A", 1, 4), Quota("B", 2, 2), Quota("A", 1, 2))
    spec = ReplaySpec(policy, (8, 8), quotas=quotas, stop_s=2, outages=away)
    expected = play(trace, spec)
    for stop in range(3, 60, 4):

        def watch(loop: Loop, stop: int = stop) -> None:
            if loop.events >= stop:
                raise KeyboardInterrupt

        try:
            found = play(trace, spec, tmp_path, save_every_s=0, watch=watch)
        except KeyboardInterrupt:
            continue
        break
    found = play(trace, spec, tmp_path)
    assert found.end_us.tolist() == expected.end_us.tolist()
    assert found.stops.tolist() == expected.stops.tolist()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"quotas": ()}, "quotas: 'none': expected a quota"),
        ({"quotas": (Quota("nobody", 1, 4),)}, "quotas: 'nobody': expected a tenant of the trace"),
        ({"quotas": (Quota("A", 1, 3),)}, "quotas: 'A=1x3': expected cells of a power of two"),
        ({"quotas": (Quota("A", 1, 8),)}, "at most 4"),
        ({"quotas": (Quota("A", 2, 4), Quota("B", 1, 1))}, "quotas: 9: expected quotas of at most"),
        ({"hosts": (4, 8)}, "hosts: .* expected hosts of equal size"),
        ({"hosts": (6, 6)}, "hosts: .* a power of two"),
        ({"placer": "counting"}, "placer: 'counting': expected first-fit or best-fit"),
        ({"every_s": 9, "leases": True}, "expected a list policy"),
    ],
)
def test_quotas_that_cannot_be_are_refused(changed: dict[str, object], said: str) -> None:
    spec = replace(ReplaySpec("hived", (4, 4), quotas=OWNS_A_HOST), **changed)
    with pytest.raises(InvalidInputError, match=said):
        play(trace_by_tenant((A, 0, 1, 1), (B, 0, 1, 1)), spec)
