"""The generator keeps the promises of its gang, and the same arguments give the same round."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.checks.round import check_round
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators import gang
from placewright.instances.generators.gang import (
    MIXES,
    MixName,
    generate_cluster,
    generate_round,
    load_of,
)
from placewright.instances.io.digest import round_digest

GIB = 1024
MIX_NAMES = st.sampled_from(sorted(MIXES))


def pending(round_: Round) -> list[Job]:
    return [job for job in round_.jobs if job.running is None]


def gpus_of(job: Job) -> int:
    return job.options[0].milli_gpu // 1000


def group_of(job: Job) -> TaskGroup:
    return job.options[0].groups[0]


def model_of_host(cluster: ClusterDocument) -> dict[str, str | None]:
    return {name: entry.gpu_model for entry in cluster.hosts for name in expand(entry.name)}


def free_per_host(round_: Round) -> dict[str, int]:
    free = dict.fromkeys(model_of_host(round_.cluster), 8)
    for job in round_.jobs:
        if job.running is not None:
            for task in job.running.tasks:
                free[task.host] -= len(task.gpus)
    return free


def shares_of(values: list[int]) -> dict[int, float]:
    return {value: count / len(values) for value, count in Counter(values).items()}


PENDING = examples(day=10_000, nightly=40_000)


def close(found: dict[int, float], expected: dict[int, float], draws: int) -> bool:
    """Every share within five standard deviations of its binomial draw."""
    return found.keys() <= expected.keys() and all(
        abs(found.get(value, 0) - share) <= 5 * (share * (1 - share) / draws) ** 0.5
        for value, share in expected.items()
    )


@pytest.mark.parametrize(
    ("gpus", "datacenters", "blocks", "racks", "hosts_per_rack"),
    [
        (8, 1, 1, 1, 1),
        (512, 1, 4, 16, 4),
        (520, 1, 1, 9, 8),
        (4096, 1, 4, 64, 8),
        (32 * 1024 + 8, 2, 33, 513, 8),
    ],
)
def test_racks_blocks_and_datacenters_have_the_fixed_shape(
    gpus: int, datacenters: int, blocks: int, racks: int, hosts_per_rack: int
) -> None:
    cluster = generate_cluster(gpus)
    levels = Counter(domain.level for domain in cluster.domains)
    assert levels == {"datacenter": datacenters, "block": blocks, "rack": racks}
    hosts = [len(expand(entry.name)) for entry in cluster.hosts]
    assert sum(hosts) == gpus // 8
    assert set(hosts[:-1]) <= {hosts_per_rack}
    assert hosts[-1] <= hosts_per_rack
    assert {(e.gpus, e.cpu, e.memory) for e in cluster.hosts} == {(8, 96_000, 1024 * GIB)}


WHOLE = sorted(name for name, mix in MIXES.items() if mix.parts is None)
"""Mixes in which all jobs ask whole GPUs."""


def test_the_shares_of_every_table_sum_to_a_thousand() -> None:
    tables = [value for value in vars(gang).values() if isinstance(value, gang.Shares)]
    for mix in MIXES.values():
        tables += [mix.models, mix.single_cores, mix.single_gib, mix.gang_cores, mix.gang_gib]
    assert {sum(table.per_mille) for table in tables} == {1000}
    assert all(len(table.values) == len(table.per_mille) for table in tables)


def test_from_four_blocks_on_a_block_has_one_model() -> None:
    cluster = generate_cluster(7 * 1024)
    models: dict[str, set[str | None]] = {}
    for entry in cluster.hosts:
        models.setdefault(str(entry.parent).split("-")[0], set()).add(entry.gpu_model)
    assert models == {f"b{i}": {"V100" if i % 5 >= 3 else "A100"} for i in range(7)}


def test_below_four_blocks_a_rack_has_one_model() -> None:
    cluster = generate_cluster(1000)
    assert [entry.gpu_model for entry in cluster.hosts] == [
        "V100" if rack % 5 >= 3 else "A100" for rack in range(16)
    ]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("mix", sorted(MIXES))
def test_hosts_are_full_empty_or_partly_free_as_the_mix_says(mix: MixName) -> None:
    round_ = generate_round(examples(day=20_000, nightly=80_000), 0, mix=mix, seed=3)
    free = list(free_per_host(round_).values())
    full, empty = (0.25, 0.12) if mix in ("hard", "shared") else (0.35, 0.30)
    partly = (1 - full - empty) / 7
    expected = {0: full, 8: empty} | dict.fromkeys(range(1, 8), partly)
    assert close(shares_of(free), expected, len(free))


@pytest.mark.nightly
def test_running_jobs_are_equally_likely_among_the_sizes_that_fit() -> None:
    round_ = generate_round(80_000, 0, seed=4)
    free = free_per_host(round_)
    first = {
        job.running.tasks[0].host: gpus_of(job)
        for job in reversed(round_.jobs)
        if job.running is not None
    }
    on_full_hosts = [size for host, size in first.items() if free[host] == 0]
    assert close(shares_of(on_full_hosts), dict.fromkeys((1, 2, 4, 8), 0.25), len(on_full_hosts))
    three_used = [size for host, size in first.items() if free[host] == 5]
    assert close(shares_of(three_used), {1: 0.5, 2: 0.5}, len(three_used))


def test_running_jobs_ask_cores_and_memory_by_the_fixed_shares() -> None:
    jobs = generate_round(examples(day=10_000, nightly=40_000), 0, mix="hard", seed=5).jobs
    cores = [group_of(job).cpu // gpus_of(job) for job in jobs]
    gib = [group_of(job).memory // gpus_of(job) // GIB for job in jobs]
    assert close(shares_of(cores), {4000: 0.35, 8000: 0.45, 12_000: 0.2}, len(jobs))
    assert close(shares_of(gib), {32: 0.35, 64: 0.45, 128: 0.2}, len(jobs))


@pytest.mark.nightly
def test_running_jobs_have_checkpoints_and_restart_times_by_the_fixed_shares() -> None:
    round_ = generate_round(40_000, 0, seed=5)
    running = [job.running for job in round_.jobs if job.running is not None]
    assert round_.now == 86_400
    since = [round_.now - one.checkpoint for one in running if one.checkpoint is not None]
    assert close(
        shares_of(since),
        {60: 0.15, 300: 0.2, 600: 0.2, 900: 0.2, 1200: 0.15, 1800: 0.1},
        len(running),
    )
    restarts = [one.restart_s for one in running]
    assert close(shares_of(restarts), {30: 0.3, 60: 0.4, 120: 0.2, 300: 0.1}, len(running))
    assert {(job.weight, job.priority) for job in round_.jobs} == {(1, 0)}
    assert not any(one.pinned for one in running)


def test_pending_jobs_do_not_change_what_runs_where() -> None:
    places = [
        [(job.name, job.options, job.running.tasks) for job in round_.jobs if job.running]
        for round_ in (generate_round(1024, 0, seed=6), generate_round(1024, 200, seed=6))
    ]
    assert places[0] == places[1]


def test_running_jobs_fill_a_host_from_its_first_gpu_up() -> None:
    round_ = generate_round(4096, 0, seed=6)
    used: dict[str, list[int]] = {}
    for job in round_.jobs:
        assert job.running is not None
        (task,) = job.running.tasks
        used.setdefault(task.host, []).extend(task.gpus)
    assert all(gpus == list(range(len(gpus))) for gpus in used.values())


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("mix", WHOLE)
def test_pending_sizes_models_and_weights_follow_the_shares(mix: MixName) -> None:
    jobs = pending(generate_round(4096, PENDING, mix=mix, seed=7))
    sizes = dict(
        zip(
            (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512),
            (0.7, 0.1, 0.07, 0.06, 0.025, 0.005, 0.014, 0.004, 0.01, 0.002, 0.005, 0.003, 0.002),
            strict=True,
        )
    )
    assert close(shares_of([gpus_of(job) for job in jobs]), sizes, len(jobs))
    weights = [job.weight for job in jobs]
    assert close(shares_of(weights), {1: 0.4, 2: 0.3, 4: 0.2, 8: 0.1}, len(jobs))
    assert all(job.weight == 2**job.priority for job in jobs)

    models = [
        -1
        if len(job.options) == 2 or (spec := group_of(job).gpu_models) is None
        else ("A100", "V100").index(spec[0])
        for job in jobs
    ]
    expected = {0: 0.6, 1: 0.4} if mix == "tight" else {-1: 0.3, 0: 0.5, 1: 0.2}
    assert close(shares_of(models), expected, len(jobs))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("mix", "single", "gang"),
    [
        ("easy", (0.3, 0.4, 0.2, 0.1), (0.3, 0.4, 0.2, 0.1)),
        ("hard", (0.15, 0.3, 0.3, 0.25), (0.15, 0.3, 0.3, 0.25)),
        ("tight", (0.25, 0.15, 0.2, 0.2, 0.2), (0.3, 0.4, 0.2, 0.1)),
    ],
)
def test_pending_cores_and_memory_follow_the_shares_up_to_a_whole_host(
    mix: MixName, single: tuple[float, ...], gang: tuple[float, ...]
) -> None:
    jobs = pending(generate_round(4096, PENDING, mix=mix, seed=8))
    cores = {4: (4, 8, 12, 16), 5: (4, 8, 16, 24, 32)}
    gib = {4: (32, 64, 128, 192), 5: (32, 64, 128, 256, 384)}
    for gpus, shares in ((1, single), (8, single), (16, gang)):
        groups = [group_of(job) for job in jobs if gpus_of(job) == gpus]
        per_task = min(gpus, 8)
        for found, per_gpu, most in (
            ([group.cpu // 1000 for group in groups], cores[len(shares)], 96),
            ([group.memory // GIB for group in groups], gib[len(shares)], 1024),
        ):
            expected: Counter[int] = Counter()
            for amount, share in zip(per_gpu, shares, strict=True):
                expected[min(amount * per_task, most)] += share  # type: ignore[assignment]
            assert close(shares_of(found), dict(expected), len(found))


def test_a_gang_asks_whole_hosts_of_one_model_inside_one_datacenter() -> None:
    gangs = [job for job in pending(generate_round(4096, 5000, seed=9)) if gpus_of(job) > 8]
    assert {len(job.options) for job in gangs} == {1, 2}
    for job in gangs:
        assert len({option.milli_gpu for option in job.options}) == 1
        for option in job.options:
            (group,) = option.groups
            assert group.gpu == 8000
            assert (group.required, group.preferred) == ("datacenter", ("rack", "block"))
            assert group.gpu_models == (option.name,)
        if len(job.options) == 2:
            assert [option.name for option in job.options] == ["A100", "V100"]


@pytest.mark.parametrize(("gpus", "cap"), [(8, 2), (24, 6), (56, 8), (512, 128), (992, 248)])
def test_below_a_thousand_gpus_sizes_are_capped_at_a_quarter_in_whole_hosts(
    gpus: int, cap: int
) -> None:
    sizes = {gpus_of(job) for job in pending(generate_round(gpus, 3000, seed=10))}
    assert max(sizes) == cap
    assert all(size <= 8 or size % 8 == 0 for size in sizes)


def test_from_a_thousand_gpus_on_sizes_are_not_capped() -> None:
    sizes = {gpus_of(job) for job in pending(generate_round(1000, 5000, seed=10))}
    assert max(sizes) == 512


def test_where_only_the_first_model_exists_nobody_asks_for_the_second() -> None:
    round_ = generate_round(64, 500, mix="tight", seed=11)
    assert set(model_of_host(round_.cluster).values()) == {"A100"}
    asked = {group.gpu_models for job in round_.jobs for o in job.options for group in o.groups}
    assert asked <= {None, ("A100",)}


@settings(max_examples=25)
@given(
    hosts=st.integers(1, 300),
    jobs=st.integers(0, 60),
    mix=MIX_NAMES,
    tenants=st.sampled_from([0, 1, 7]),
    seed=st.integers(0, 2**32),
)
def test_every_generated_round_is_valid(
    hosts: int, jobs: int, mix: MixName, tenants: int, seed: int
) -> None:
    round_ = generate_round(8 * hosts, jobs, mix=mix, seed=seed, tenants=tenants)
    check_round(round_)
    assert len(pending(round_)) == jobs
    assert load_of(round_) >= 0


def test_the_seed_decides_everything() -> None:
    one = generate_round(512, 50, seed=1)
    assert one == generate_round(512, 50, seed=1)
    assert one != generate_round(512, 50, seed=2)


@pytest.mark.parametrize(
    ("arguments", "digest"),
    [
        (
            {"gpus": 512, "jobs": 100, "mix": "easy", "seed": 0},
            "55836d9fcfe1e90c41815af21950d34d2d7df0e71db3c2fa6b0b591b871a4cfb",
        ),
        (
            {"gpus": 4096, "jobs": 1000, "mix": "hard", "seed": 1},
            "c260a87147c7149b49f61e3530ab3264c0e6adfce8112c105f2cfa4332c61771",
        ),
        (
            {"gpus": 1024, "jobs": 300, "mix": "tight", "seed": 2},
            "42806ad6b2b7ac318ac28b759f2bac7f0e5a712a101d15fc2b4d44a513444cbd",
        ),
    ],
)
def test_generated_rounds_never_change(arguments: dict[str, object], digest: str) -> None:
    assert round_digest(generate_round(**arguments)) == digest  # type: ignore[arg-type]


def test_in_the_shared_mix_jobs_of_one_gpu_ask_parts_and_slices_as_drawn() -> None:
    round_ = generate_round(4096, PENDING // 2, mix="shared", seed=7)
    asked = [group for job in round_.jobs for option in job.options for group in option.groups]
    ones = [group for group in asked if group.count == 1 and group.gpu <= 1000]
    shares = shares_of([group.gpu for group in ones if group.mig is None])
    assert set(shares) == {250, 500, 1000}
    assert {group.mig for group in ones} - {None} == {"1g.10gb", "2g.20gb", "3g.40gb"}
    slices = [job for job in round_.jobs if any(g.mig for o in job.options for g in o.groups)]
    can = [job for job in pending(round_) if gpus_of(job) <= 1 and takes_a100(job)]
    assert all(job.running is None and takes_a100(job) for job in slices)
    assert abs(len(slices) / len(can) - 0.15) < 0.02
    assert all(4 <= group.gpu_memory / 1024 <= 32 for group in ones if group.gpu in (250, 500))
    assert {entry.gpu_memory for entry in round_.cluster.hosts} == {80 * GIB, 32 * GIB}


def takes_a100(job: Job) -> bool:
    return "A100" in (group_of(job).gpu_models or ("A100",))


def test_other_draws_of_the_shared_mix_are_those_of_a_mix_without_parts() -> None:
    names = {job.name: job for job in generate_round(512, 50, mix="shared", seed=1).jobs}
    hard = generate_round(512, 50, mix="hard", seed=1)
    assert [job.name for job in hard.jobs] == list(names)
    assert all(names[job.name].weight == job.weight for job in hard.jobs)


@pytest.mark.parametrize("mix", sorted(MIXES))
def test_tenants_own_all_jobs_and_their_quotas_are_what_they_hold_and_a_part_of_the_rest(
    mix: MixName,
) -> None:
    round_ = generate_round(1024, 400, mix=mix, seed=3, tenants=5)
    assert {job.tenant for job in round_.jobs} == {tenant.name for tenant in round_.tenants}
    held: Counter[str | None] = Counter()
    for job in round_.jobs:
        if job.running is not None:
            held[job.tenant] += job.options[0].milli_gpu
    left = {tenant.quota["gpu"] - held[tenant.name] for tenant in round_.tenants}
    assert len(left) == 1
    assert 5 * min(left) <= 1024_000
    without = generate_round(1024, 400, mix=mix, seed=3)
    assert [job.options for job in round_.jobs] == [job.options for job in without.jobs]


def test_load_is_gpus_asked_over_gpus_free_on_healthy_hosts() -> None:
    job = {"name": "run", "options": [{"groups": [{"gpu": 2}]}]}
    round_ = Round.model_validate(
        {
            "cluster": {
                "hosts": [
                    {"name": "h0", "gpus": 8, "gpu_model": "A100"},
                    {"name": "h1", "gpus": 8, "gpu_model": "A100", "healthy": False},
                ]
            },
            "jobs": [
                {**job, "running": {"tasks": [{"host": "h0", "gpus": [0, 1]}]}},
                {"name": "share", "options": [{"groups": [{"gpu": 0.5}]}]},
                {
                    "name": "menu",
                    "options": [{"groups": [{"gpu": 1}]}, {"groups": [{"gpu": 4}]}],
                },
            ],
        }
    )
    assert load_of(round_) == 4500 / 6000
    full = round_.model_copy(update={"cluster": ClusterDocument(hosts=round_.cluster.hosts[1:])})
    waiting = full.model_copy(update={"jobs": round_.jobs[1:]})
    assert load_of(waiting) == float("inf")
    assert load_of(full.model_copy(update={"jobs": ()})) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gpus": 0}, "gpus: 0: expected a multiple of 8"),
        ({"gpus": -8}, "gpus: -8: expected a multiple of 8"),
        ({"gpus": 12}, "gpus: 12: expected a multiple of 8"),
        ({"gpus": 8 * 10**9}, "gpus: 8000000000: expected a multiple of 8"),
        ({"jobs": -1}, "jobs: -1: expected 0 to"),
        ({"jobs": 10**9}, "jobs: 1000000000: expected 0 to"),
        ({"seed": -1}, "seed: -1: expected 0 or more"),
        ({"tenants": -1}, "tenants: -1: expected 0 or more"),
        ({"mix": "soft"}, "mix: 'soft': expected one of easy, hard, tight, shared"),
    ],
)
def test_an_argument_out_of_range_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        generate_round(**({"gpus": 64, "jobs": 1} | arguments))  # type: ignore[arg-type]
    assert str(error.value).startswith(message)
