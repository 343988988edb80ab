"""`placewright generate round --policy` and `convert wan`."""

from __future__ import annotations

import pytest

from placewright.instances.converters import convert_wan
from placewright.instances.generators.geo import generate
from placewright.instances.io.files import load_round

REGIONS = ("c:x", "c:y", "c:z")
PAIRS = [(a, b) for a in REGIONS for b in REGIONS if a != b]
SIZE = ("--gpus", "400", "--jobs", "90", "--datasets", "12", "--regions", "3")


@pytest.fixture
def grids(tmp_path):
    folder = tmp_path / "wan"
    folder.mkdir()
    header = "src_region,src_tier,dst_region,dst_tier,"
    rows = [f"{a},PREMIUM,{b},PREMIUM,5" for a, b in PAIRS]
    texts = {
        "throughput": [
            f"{header}throughput_gbps",
            *(f"{a},PREMIUM,{b},PREMIUM,5" for a, b in PAIRS),
        ],
        "rtt": [f"{header}avg_rtt_ms", *rows],
        "egress": [
            "src,dest,src_tier,dest_tier,cost",
            *(f"{a},{b},PREMIUM,PREMIUM,0.1" for a, b in PAIRS),
        ],
    }
    for name, lines in texts.items():
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.mark.parametrize("policy", ["geo", "replicas"])
def test_a_round_of_regions_is_made_and_one_line_says_what_it_is_like(run, tmp_path, policy):
    path = tmp_path / "round.json"
    result = run("generate", "round", *SIZE, "--policy", policy, "--mix", "scarce", "-o", path)
    assert result.code == 0
    name = f"{policy}-scarce-3-12-90-400-0"
    assert result.err.startswith(f"made round {name}: 3 regions; 12 datasets of ")
    assert "demand / supply 1.20, 2.6" in result.said
    assert result.err.count("\n") == 1
    made = generate(policy=policy, regions=3, datasets=12, jobs=90, gpus=400, mix="scarce")
    assert load_round(path) == made


def test_a_round_on_a_measured_grid_has_its_regions(run, tmp_path, grids):
    path = tmp_path / "round.json"
    result = run("generate", "round", *SIZE, "--policy", "geo", "--wan", grids, "-o", path)
    assert result.code == 0
    assert {link.bandwidth for link in load_round(path).geo.links} == {5000}
    assert {region.name for region in load_round(path).geo.regions} == set(REGIONS)


@pytest.mark.parametrize(
    ("more", "option"),
    [
        (("--gpus", "400", "--jobs", "9", "--regions", "3"), "--regions"),
        (("--gpus", "400", "--jobs", "9", "--datasets", "3"), "--datasets"),
        (("--gpus", "400", "--jobs", "9", "--wan", "."), "--wan"),
        ((*SIZE, "--policy", "geo", "--mix", "easy"), "--mix"),
        (("--gpus", "400", "--jobs", "90", "--mix", "spare"), "--mix"),
        (("--gpus", "401", "--jobs", "90", "--policy", "geo"), "--jobs"),
        ((*SIZE, "--policy", "geo", "--regions", "99"), "--regions"),
    ],
)
def test_an_argument_that_does_not_fit_is_a_usage_error(run, more, option):
    result = run("generate", "round", *more)
    assert result.code == 2
    assert f"{option}:" in result.said


def test_a_folder_without_grids_exits_3_with_one_line(run, tmp_path):
    result = run("generate", "round", *SIZE, "--policy", "geo", "--wan", tmp_path)
    assert result.code == 3
    assert result.err.count("\n") == 1
    assert "0 files *throughput*.csv; expected one" in result.said


def test_grids_of_regions_become_a_round_that_is_valid(run, tmp_path, grids):
    files = [grids / f"{name}.csv" for name in ("throughput", "rtt", "egress")]
    path = tmp_path / "wan.json"
    result = run("convert", "wan", *files, "--regions", "c:z,c:x", "--gpus", "16", "-o", path)
    assert result.code == 0
    assert result.err.startswith("wan: 2 of 3 regions (as named), 16 GPUs each; 2 links of 5.00 ")
    assert load_round(path) == convert_wan(*files, regions=["c:z", "c:x"], gpus=16)
    assert run("validate", path).code == 0


@pytest.mark.parametrize("more", [("--count", "9"), ("--regions", "moon"), ("--gpus", "3")])
def test_a_wrong_choice_of_regions_is_a_usage_error_that_names_the_option(
    run, tmp_path, grids, more
):
    files = [grids / f"{name}.csv" for name in ("throughput", "rtt", "egress")]
    result = run("convert", "wan", *files, *more, "-o", tmp_path / "wan.json")
    assert result.code == 2
    assert f"{more[0]}:" in result.said


def test_traces_of_clusters_become_regions(run, tmp_path):
    trace = tmp_path / "c.csv"
    rows = "".join(f"j{i},{i},100,{1 + i % 4}\n" for i in range(40))
    trace.write_text(f"job_id,submission_time,duration,num_gpu\n{rows}")
    path = tmp_path / "itp.json"
    words = ("--regions", "3", "--datasets", "9", "--mix", "scarce", "--policy", "geo")
    result = run("convert", "itp", trace, *words, "-o", path)
    assert result.code == 0
    assert " jobs of 1 traces at second 39, 2 regions resampled with seed 0; 3 reg" in result.said
    assert run("validate", path).code == 0
    result = run("convert", "itp", trace, "--at", "5000", "-o", path)
    assert result.code == 2
    assert "--at:" in result.said
