"""The converter of ITP clusters: each a region, and others resampled from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.converters import read_itp
from placewright.instances.converters.traces.itp import read_cluster
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.geo import facts_of
from placewright.instances.generators.wan_grid import WanGrid
from placewright.instances.io.digest import round_digest

RAW = Path(__file__).parents[3] / "shared" / "data" / "traces" / "elasticflow" / "raw"
TRACES = [RAW / f"cluster{number}.csv" for number in ("03", "06", "10")]
needs_traces = pytest.mark.skipif(not RAW.is_dir(), reason="needs the traces of ElasticFlow")
HEADER = "job_id,submission_time,duration,num_gpu\n"


def write(folder: Path, name: str, *rows: str) -> Path:
    path = folder / f"{name}.csv"
    path.write_text(HEADER + "".join(f"j{i},{row}\n" for i, row in enumerate(rows)))
    return path


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    many = [f"{i},{50 + i},{1 << i % 5}" for i in range(60)]
    few = [f"{2 * i},30,{1 + 7 * (i % 2)}" for i in range(20)]
    return [write(tmp_path, "one", *many), write(tmp_path, "two", *few)]


def demand(round_: Round) -> dict[str, list[int]]:
    """GPUs of the jobs whose data is in each region."""
    where = {dataset.name: dataset.replicas[0] for dataset in round_.geo.datasets}
    found = defaultdict(list)
    for job in round_.jobs:
        (region,) = {where[read.dataset] for read in job.reads}
        found[region].append(job.options[0].milli_gpu // 1000)
    return found


def test_a_region_has_the_jobs_of_its_trace_that_are_alive(traces):
    round_ = read_itp(traces, regions=2, datasets=8, at=40).round
    check_round(round_)
    assert Counter(demand(round_)["one"]) == Counter(1 << i % 5 for i in range(41))
    assert Counter(demand(round_)["two"]) == Counter(1 + 7 * (i % 2) for i in range(6, 20))


def test_by_default_jobs_are_those_of_the_second_at_which_most_gpus_are_asked(traces):
    made = read_itp(traces, regions=2, datasets=8).round
    asked = sum(sum(gpus) for gpus in demand(made).values())
    clusters = [read_cluster(trace) for trace in traces]
    most = max(sum(int(c.alive(at).sum()) for c in clusters) for at in range(200))
    assert asked == most


def test_regions_beyond_the_traces_are_resampled_from_each_in_turn(traces):
    made = read_itp(traces, regions=5, datasets=20, seed=3)
    check_round(made.round)
    names = [region.name for region in made.round.geo.regions]
    assert names == ["one", "two", "one-like-1", "two-like-1", "one-like-2"]
    assert "3 regions resampled with seed 3" in made.summary
    found = demand(made.round)
    assert set(found["one-like-1"]) <= {1, 2, 4, 8, 16}
    assert set(found["two-like-1"]) <= {1, 8}
    assert found["one-like-1"] != found["one-like-2"]


@pytest.mark.parametrize("policy", ["geo", "replicas"])
def test_half_of_the_jobs_run_where_regions_are_chosen_for_jobs(traces, policy):
    round_ = read_itp(traces, regions=4, datasets=20, policy=policy).round
    check_round(round_)
    running = sum(job.running is not None for job in round_.jobs)
    assert running <= len(round_.jobs) // 2
    assert (running > 0) == (policy == "geo")


def test_the_same_seed_gives_the_same_round(traces):
    first, again, other = (
        round_digest(read_itp(traces, regions=4, datasets=20, seed=seed).round)
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_links_may_be_those_of_a_grid(traces):
    speed = np.full((3, 3), 700)
    grid = WanGrid(("x", "y", "z"), speed, speed, speed)
    round_ = read_itp(traces, regions=3, datasets=20, grid=grid).round
    check_round(round_)
    assert {link.bandwidth for link in round_.geo.links} == {700}
    assert {link.source for link in round_.geo.links} == {"one", "two", "one-like-1"}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"traces": []}, "traces"),
        ({"regions": 1}, "regions"),
        ({"regions": 65}, "regions"),
        ({"datasets": 1}, "datasets"),
        ({"datasets": 1000}, "datasets"),
        ({"at": -1}, "at"),
        ({"at": 10**6}, "at"),
        ({"mix": "hard"}, "mix"),
        ({"seed": -1}, "seed"),
        ({"grid": WanGrid(("x",), *[np.zeros((1, 1), dtype=np.int64)] * 3)}, "regions"),
    ],
)
def test_an_argument_out_of_its_range_is_named(traces, change, name):
    with pytest.raises(InvalidInputError) as error:
        read_itp(**{"traces": traces, "regions": 4, "datasets": 20, **change})
    assert error.value.path == (name,)


def test_two_files_of_one_name_are_refused(traces):
    with pytest.raises(InvalidInputError, match="different names"):
        read_itp([traces[0], traces[0]])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,10,12", "line 2, column num_gpu: '12': expected up to 8 GPUs, or a multiple of it"),
        ("1,x,1", "line 2, column duration"),
        ("-1,5,1", "line 2, column submission_time"),
        ("1,10,0", "expected at least one job"),
    ],
)
def test_a_wrong_row_is_reported_with_its_line(tmp_path, row, message):
    with pytest.raises(InvalidInputError) as error:
        read_cluster(write(tmp_path, "bad", row))
    assert message in str(error.value)


def test_a_file_whose_name_is_none_of_a_region_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="the file's name is that of a region"):
        read_cluster(write(tmp_path, "two words", "1,10,1"))


@pytest.mark.nightly(after=1)
@needs_traces
@pytest.mark.parametrize("policy", ["geo", "replicas"])
def test_three_real_clusters_and_seven_like_them_make_ten_regions(policy):
    made = read_itp(TRACES, policy=policy)
    check_round(made.round)
    facts = facts_of(made.round)
    assert (facts.regions, facts.datasets) == (10, 100)
    assert facts.load == pytest.approx(0.95, abs=0.02)
    assert facts.hottest == pytest.approx(2.63, abs=0.03)
    assert facts.readers[0] == 3


@needs_traces
def test_the_first_region_has_the_real_jobs_of_cluster_03():
    found = demand(read_itp(TRACES, regions=3, datasets=30, at=3_654_094).round)
    assert (len(found["cluster03"]), sum(found["cluster03"])) == (171, 1379)
