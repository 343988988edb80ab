"""Generated rounds of regions have the ratios and percentiles that they promise."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.derived import ranges
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo import MIXES, facts_of, generate
from placewright.instances.generators.geo.supply import readers
from placewright.instances.generators.wan_grid import WanGrid
from placewright.instances.io.digest import round_digest

SMALL = {"regions": 10, "datasets": 100, "jobs": 1000, "gpus": 5000}
POLICIES = ("geo", "replicas")


def gpus_of(round_: Round) -> dict[str, dict[str, int]]:
    """GPUs by region and model."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for host in round_.cluster.hosts:
        region = host.name.rsplit("-b", 1)[0]
        found[region][host.gpu_model] += 8 * ranges.size(host.name)
    return found


@pytest.fixture(scope="module", params=POLICIES)
def made(request) -> Round:
    return generate(policy=request.param, seed=3, **SMALL)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mix", sorted(MIXES))
@pytest.mark.parametrize("seed", range(3))
def test_demand_is_what_the_mix_says_and_2_63_times_supply_in_the_hottest_region(policy, mix, seed):
    facts = facts_of(generate(policy=policy, mix=mix, seed=seed, **SMALL))
    assert facts.load == pytest.approx(MIXES[mix] / 1000, abs=0.0005)
    assert facts.hottest == pytest.approx(2.63, abs=0.01)
    assert facts.running / facts.gpus == pytest.approx(0.5, abs=0.1) or policy == "replicas"


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_round_of_the_second_size_keeps_the_same_promises(policy):
    round_ = generate(policy=policy, regions=20, datasets=400, jobs=10_000, gpus=50_000)
    facts = facts_of(round_)
    assert (facts.load, facts.hottest) == pytest.approx((0.95, 2.63), abs=0.005)
    assert facts.readers == (3, 17, 45)


@pytest.mark.nightly
def test_the_largest_round_keeps_the_same_promises():
    round_ = generate(policy="geo", regions=30, datasets=2000, jobs=100_000, gpus=250_000)
    facts = facts_of(round_)
    assert (facts.load, facts.hottest) == pytest.approx((0.95, 2.63), abs=0.005)
    assert (facts.readers, facts.workloads) == ((3, 17, 45), 10_000)
    assert sum(job.running is None for job in round_.jobs) == 50_000


@pytest.mark.parametrize("seed", range(4))
def test_demand_comes_out_where_all_of_it_is_in_one_region(seed):
    facts = facts_of(generate(regions=6, datasets=1, jobs=200, gpus=800, seed=seed))
    assert facts.load == pytest.approx(0.95, abs=0.002)
    assert facts.hottest > 2


def test_datasets_are_read_by_3_17_and_45_workloads_and_have_a_median_of_2_tib(made):
    facts = facts_of(made)
    assert facts.readers == (3, 17, 45)
    assert (facts.datasets, facts.workloads, facts.median_size) == (100, 500, 2048)


def test_sizes_of_datasets_are_log_normal():
    sizes = [d.size for d in generate(seed=1, **SMALL).geo.datasets]
    assert np.std(np.log(sizes)) == pytest.approx(1.5, abs=0.05)


def test_readers_go_through_the_three_percentiles_at_any_size():
    for count in (100, 400, 2000):
        many = readers(count)
        assert [many[count * part // 100 - 1] for part in (50, 90, 99)] == [3, 17, 45]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "size",
    [(10, 100, 1000, 5000), (1, 1, 20, 96), (2, 4, 50, 400), (3, 5, 60, 400), (5, 40, 60, 800)],
)
def test_rounds_of_any_size_are_valid(policy, size):
    for seed in range(3):
        round_ = generate(
            regions=size[0], datasets=size[1], jobs=size[2], gpus=size[3], seed=seed, policy=policy
        )
        check_round(round_)
        pending = [job for job in round_.jobs if job.running is None]
        assert len(round_.jobs) == size[2]
        assert len(pending) >= size[2] / (2 if policy == "geo" else 1)
        assert sum(sum(r.values()) for r in gpus_of(round_).values()) == size[3]
        assert len(gpus_of(round_)) == size[0]


def test_half_of_the_jobs_run_where_they_fit_if_the_policy_decides_where(made):
    running = 500 if made.policy.formulation == "geo" else 0
    assert sum(job.running is not None for job in made.jobs) == running


def test_each_dataset_has_one_replica_and_storage_is_half_again_what_is_held(made):
    sizes = {d.name: d.size for d in made.geo.datasets}
    held = defaultdict(int)
    for dataset in made.geo.datasets:
        (region,) = dataset.replicas
        held[region] += dataset.size
        assert dataset.regions is None or region in dataset.regions
    mean = sum(sizes.values()) / len(made.geo.regions)
    for region in made.geo.regions:
        assert region.storage == pytest.approx(1.5 * max(held[region.name], mean), abs=2)


def test_budgets_are_a_fifth_of_what_links_carry_in_a_day_and_all_regions_are_linked(made):
    assert len(made.geo.links) == 90
    assert made.geo.window_s == 86_400
    for link in made.geo.links:
        assert link.budget == pytest.approx(made.geo.carries(link) / 5, abs=1)


def test_jobs_of_a_workload_differ_in_gpus_alone(made):
    alike = defaultdict(set)
    for job in made.jobs:
        groups = job.options[0].groups
        alike[job.name.rpartition("-")[0]].add(
            (job.tenant, job.weight, job.reads, job.regions, groups[0].gpu_models)
        )
    assert all(len(kinds) == 1 for kinds in alike.values())


def test_every_job_reads_its_datasets_whole_at_least_once(made):
    sizes = {d.name: d.size for d in made.geo.datasets}
    for job in made.jobs:
        assert job.reads
        assert all(read.gib % sizes[read.dataset] == 0 for read in job.reads)


def test_every_job_has_a_region_that_it_and_all_its_data_may_be_in_with_gpus_that_it_accepts(made):
    gpus = gpus_of(made)
    allowed = {d.name: set(d.regions or gpus) for d in made.geo.datasets}
    stay = 0
    for job in made.jobs:
        may = set(job.regions or gpus).intersection(*(allowed[r.dataset] for r in job.reads))
        group = job.options[0].groups[0]
        models = group.gpu_models or ("H100", "A100", "V100")
        assert any(gpus[region][model] for region in may for model in models)
        stay += job.regions is not None
    assert 0 < stay < 0.1 * len(made.jobs)
    assert any(dataset.regions for dataset in made.geo.datasets)


def test_reads_that_must_be_local_are_where_all_data_of_the_job_is_in_one_region(made):
    where = {d.name: d.replicas for d in made.geo.datasets}
    local = [job for job in made.jobs if not job.reads[0].remote]
    assert 0.05 < len(local) / len(made.jobs) < 0.3
    assert all(len({where[read.dataset] for read in job.reads}) == 1 for job in local)


def test_no_model_alone_is_asked_for_beyond_its_supply_on_the_spare_mix():
    round_ = generate(seed=2, **SMALL)
    supply = defaultdict(int)
    for region in gpus_of(round_).values():
        for model, many in region.items():
            supply[model] += many
    asked = defaultdict(int)
    for job in round_.jobs:
        models = job.options[0].groups[0].gpu_models
        if models is not None and len(models) == 1:
            asked[models[0]] += job.options[0].milli_gpu // 1000
    assert all(asked[model] < supply[model] for model in supply)


def test_running_jobs_are_where_most_of_their_data_is():
    round_ = generate(policy="geo", seed=5, **SMALL)
    sizes = {d.name: (d.size, d.replicas[0]) for d in round_.geo.datasets}
    running = [job for job in round_.jobs if job.running is not None]
    assert running
    for job in running:
        gib = defaultdict(int)
        for read in job.reads:
            size, region = sizes[read.dataset]
            gib[region] += size
        assert job.running is not None
        region = job.running.tasks[0].host.rsplit("-b", 1)[0]
        assert gib[region] == max(gib.values())
        assert {task.host.rsplit("-b", 1)[0] for task in job.running.tasks} == {region}


def test_only_rounds_that_decide_where_jobs_run_have_quotas():
    for policy in POLICIES:
        round_ = generate(policy=policy, **SMALL)
        gpus = gpus_of(round_)
        for region in round_.geo.regions:
            assert bool(region.quotas) == (policy == "geo")
            assert region.prices.keys() == gpus[region.name].keys()


def test_the_same_arguments_give_the_same_round_and_another_seed_another():
    first, again = (round_digest(generate(seed=4, **SMALL)) for _ in range(2))
    assert first == again != round_digest(generate(seed=5, **SMALL))


def test_with_a_grid_regions_and_links_are_those_of_some_of_it():
    count = 12
    far = np.arange(count * count).reshape(count, count) + 100
    grid = WanGrid(tuple(f"c:{i}" for i in range(count)), far * 10, far, far + 7)
    round_ = generate(grid=grid, seed=1, **SMALL)
    check_round(round_)
    names = [region.name for region in round_.geo.regions]
    assert len(set(names)) == 10
    assert set(names) < set(grid.regions)
    for link in round_.geo.links:
        a, b = grid.regions.index(link.source), grid.regions.index(link.target)
        assert (link.bandwidth, link.rtt_us, link.egress) == (
            far[a, b] * 10,
            far[a, b],
            far[a, b] + 7,
        )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"regions": 0}, "regions"),
        ({"regions": 65}, "regions"),
        ({"datasets": 0}, "datasets"),
        ({"jobs": 99}, "jobs"),
        ({"gpus": 152}, "gpus"),
        ({"gpus": 5001}, "gpus"),
        ({"gpus": 800}, "gpus"),
        ({"gpus": 500_000}, "gpus"),
        ({"seed": -1}, "seed"),
        ({"mix": "easy"}, "mix"),
    ],
)
def test_an_argument_out_of_its_range_is_named(change, path):
    with pytest.raises(InvalidInputError) as error:
        generate(**{**SMALL, **change})
    assert error.value.path == (path,)
