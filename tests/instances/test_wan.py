"""The converter of cloud-region grids: tiers, units, neighbours that stand in."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.converters import convert_wan, read_wan
from placewright.instances.converters.traces.wan import TIERS, read_folder, read_grid
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.geo import WanLink
from placewright.instances.errors import InvalidInputError

GRID = Path(__file__).parents[3] / "shared" / "data" / "wan"
FILES = tuple(
    GRID / f"skyplane_{name}.csv"
    for name in ("throughput_2022-01_gbps", "rtt_ms", "egress_usd_per_gb")
)
needs_grid = pytest.mark.skipif(not GRID.is_dir(), reason="needs the grids of cloud regions")

REGIONS = ("a:east", "a:east2", "b:north")
SPEED = [
    "a:east,PREMIUM,a:east2,PREMIUM,5.0",
    "a:east2,PREMIUM,a:east,PREMIUM,5.5",
    "a:east,PREMIUM,b:north,PREMIUM,1.25",
    "b:north,PREMIUM,a:east,PREMIUM,1.2344",
    "a:east2,PREMIUM,b:north,PREMIUM,9",
    "b:north,PREMIUM,a:east2,PREMIUM,9",
    "b:north,PREMIUM,b:north,PREMIUM,99",
]
RTT = [
    "a:east,PREMIUM,b:north,PREMIUM,1,80.5,99",
    "b:north,PREMIUM,a:east,PREMIUM,1,81.25,99",
]
PRICES = [f"{a},{b},PREMIUM,PREMIUM,0.09" for a in REGIONS for b in REGIONS]


def write(folder: Path, speed: list[str], rtt: list[str], prices: list[str]) -> tuple[Path, ...]:
    texts = (
        ("src_region,src_tier,dst_region,dst_tier,throughput_gbps", speed),
        ("src_region,src_tier,dst_region,dst_tier,min_rtt_ms,avg_rtt_ms,max_rtt_ms", rtt),
        ("src,dest,src_tier,dest_tier,cost", prices),
    )
    found = []
    for name, (header, rows) in zip(("throughput", "rtt", "egress"), texts, strict=True):
        path = folder / f"{name}.csv"
        path.write_text("".join(f"{line}\n" for line in (header, *rows)))
        found.append(path)
    return tuple(found)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, ...]:
    return write(tmp_path, SPEED, RTT, PRICES)


def link(files: tuple[Path, ...], source: str, target: str) -> WanLink:
    links = {(one.source, one.target): one for one in convert_wan(*files).geo.links}
    return links[source, target]


def test_gbit_ms_and_usd_per_gb_become_mbit_microseconds_and_micro_dollars_per_gib(files):
    found = link(files, "a:east", "b:north")
    assert (found.bandwidth, found.rtt_us) == (1250, 80_500)
    assert found.egress == 96_637  # 0.09 * 2**30 / 10**9 USD
    assert found.budget == 1250 * 10**6 * 86_400 // (5 * 8 * 2**30)
    assert link(files, "b:north", "a:east").bandwidth == 1234


def test_a_region_to_itself_is_no_link(files):
    links = convert_wan(*files).geo.links
    assert len(links) == 6
    assert all(one.source != one.target for one in links)


def test_the_round_is_valid_and_has_the_hosts_asked_for_in_each_region(files):
    round_ = convert_wan(*files, gpus=40)
    check_round(round_)
    assert round_.policy.formulation == "replicas"
    assert not round_.jobs
    assert not round_.geo.datasets
    hosts = [name for host in round_.cluster.hosts for name in expand(host.name)]
    assert len(hosts) == 15
    assert all(sum(host.startswith(f"{region}-") for host in hosts) == 5 for region in REGIONS)


def test_a_region_without_round_trip_times_takes_those_of_its_namesake_with_a_warning(files):
    made = read_wan(*files)
    assert "warning: a:east2 has no round-trip times, those of a:east stand in" in made.summary
    assert link(files, "a:east2", "b:north").rtt_us == 80_500
    assert link(files, "b:north", "a:east2").rtt_us == 81_250
    assert link(files, "a:east", "a:east2").rtt_us == 80_500  # the shortest of a:east


def test_without_a_namesake_the_fastest_link_tells_the_neighbour(tmp_path):
    renamed = [[row.replace("a:east2", "a:west") for row in rows] for rows in (SPEED, RTT, PRICES)]
    files = write(tmp_path, *renamed)
    assert read_grid(*files).neighbours == {"a:west": "b:north"}


def test_no_warning_of_a_neighbour_where_the_region_is_left_out(files):
    assert "warning" not in read_wan(*files, regions=["a:east", "b:north"]).summary


@pytest.mark.parametrize("measured", range(len(TIERS)))
def test_the_first_tiers_in_order_that_were_measured_count(tmp_path, measured):
    extra = [f"a:east,{one},b:north,{other},{2 + i}" for i, (one, other) in enumerate(TIERS)][
        measured:
    ]
    speed = [row for row in SPEED if not row.startswith("a:east,PREMIUM,b:north")]
    files = write(tmp_path, [*speed, *reversed(extra)], RTT, PRICES)
    assert link(files, "a:east", "b:north").bandwidth == 1000 * (2 + measured)


def test_several_measurements_count_by_their_mean(tmp_path):
    files = write(tmp_path, [*SPEED, "a:east,PREMIUM,b:north,PREMIUM,1.75"], RTT, PRICES)
    assert link(files, "a:east", "b:north").bandwidth == 1500


def test_two_regions_of_which_no_throughput_was_measured_have_a_link_that_passes_nothing(tmp_path):
    files = write(tmp_path, SPEED[1:], RTT, PRICES)
    found = link(files, "a:east", "a:east2")
    assert (found.bandwidth, found.budget) == (0, 0)


def test_regions_come_in_the_order_named_or_drawn_by_seed(files):
    named = convert_wan(*files, regions=["b:north", "a:east"])
    assert [region.name for region in named.geo.regions] == ["b:north", "a:east"]
    drawn = {
        tuple(r.name for r in convert_wan(*files, count=2, seed=seed).geo.regions)
        for seed in range(10)
    }
    assert 1 < len(drawn) <= 3
    assert all(tuple(sorted(names)) == names for names in drawn)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"regions": ["a:east", "moon"]}, "regions"),
        ({"regions": ["a:east", "a:east"]}, "regions"),
        ({"regions": []}, "regions"),
        ({"regions": ["a:east"], "count": 1}, "count"),
        ({"count": 0}, "count"),
        ({"count": 4}, "count"),
        ({"gpus": 12}, "gpus"),
        ({"gpus": 0}, "gpus"),
        ({"gpus": 1_600_000}, "gpus"),
        ({"seed": -1}, "seed"),
    ],
)
def test_an_argument_out_of_its_range_is_named(files, arguments, name):
    with pytest.raises(InvalidInputError) as error:
        read_wan(*files, **arguments)
    assert error.value.path == (name,)


@pytest.mark.parametrize(
    ("which", "row", "message"),
    [
        (0, "a:east,GOLD,b:north,PREMIUM,1", "line 9, column src_tier: 'GOLD'"),
        (0, "a:east,PREMIUM,b:north,,1", "line 9, column dst_tier"),
        (0, "a east,PREMIUM,b:north,PREMIUM,1", "line 9, column src_region"),
        (0, "a:east,PREMIUM,b:north,PREMIUM,-1", "line 9, column throughput_gbps"),
        (1, "a:east,PREMIUM,b:north,PREMIUM,1,x,1", "line 4, column avg_rtt_ms"),
        (2, "a:east,b:north,PREMIUM,PREMIUM,free", "line 11, column cost"),
        (0, "c:south,PREMIUM,a:east,PREMIUM,1", "no price from a:east to c:south"),
    ],
)
def test_a_wrong_cell_is_reported_with_its_line_and_column(tmp_path, which, row, message):
    tables = [list(rows) for rows in (SPEED, RTT, PRICES)]
    tables[which].append(row)
    with pytest.raises(InvalidInputError, match=r"\.csv: ") as error:
        read_wan(*write(tmp_path, *tables))
    assert message in str(error.value)


def test_regions_that_were_never_measured_from_each_other_are_reported(tmp_path):
    other = "c:far,PREMIUM,a:east,PREMIUM,1,5,9"
    extra = [f"{a},c:far,PREMIUM,PREMIUM,0.1" for a in REGIONS]
    extra += [f"c:far,{a},PREMIUM,PREMIUM,0.1" for a in REGIONS]
    speed = [*SPEED, "c:far,PREMIUM,a:east,PREMIUM,1"]
    files = write(tmp_path, speed, [*RTT, other], [*PRICES, *extra])
    with pytest.raises(InvalidInputError, match="no round-trip time from b:north to c:far"):
        read_grid(*files)


def test_regions_measured_to_themselves_only_are_no_grid(tmp_path):
    with pytest.raises(InvalidInputError, match="no row from one region to another"):
        read_grid(*write(tmp_path, SPEED[-1:], RTT, PRICES))


def test_a_single_region_has_no_links(files):
    made = read_wan(*files, regions=["a:east"])
    check_round(made.round)
    assert made.summary.endswith("; no links")


def test_a_folder_has_one_file_of_each_kind(tmp_path, files):
    assert read_folder(tmp_path).grid.regions == REGIONS
    (tmp_path / "more_rtt.csv").write_text("x\n")
    with pytest.raises(InvalidInputError, match=r"2 files \*rtt\*\.csv"):
        read_folder(tmp_path)


@pytest.fixture(scope="module")
def grid():
    return read_wan(*FILES)


@needs_grid
def test_the_published_grid_has_63_regions_of_which_three_lack_round_trip_times(grid):
    made = grid
    check_round(made.round)
    assert len(made.round.geo.regions) == 63
    assert len(made.round.geo.links) == 63 * 62
    assert all(one.bandwidth and one.budget and one.rtt_us for one in made.round.geo.links)
    assert made.summary.count("warning") == 3
    for name, other in (
        ("aws:eu-west-3", "aws:eu-west-2"),
        ("azure:eastus2", "azure:eastus"),
        ("azure:westus2", "azure:westus"),
    ):
        assert f"{name} has no round-trip times, those of {other} stand in" in made.summary


@needs_grid
def test_a_link_of_the_published_grid_has_its_premium_throughput(grid):
    links = {(one.source, one.target): one for one in grid.round.geo.links}
    found = links["aws:af-south-1", "aws:ap-east-1"]
    assert found.egress == 157_840  # 0.147 USD per GB
    assert links["azure:germanywestcentral", "aws:eu-west-2"].bandwidth == 9371  # 9.3742, 9.367
