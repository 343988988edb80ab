"""Menus from measured speeds: Gavel, Pollux, Sia, Synergy, COMET; published tables where given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models import comet, gavel, pollux, sia, synergy

PROFILES = Path(__file__).parents[4] / "shared" / "data" / "profiles"

GAVEL: dict[str, Any] = {
    "v100": {
        "('A', 1)": {"null": 4.0, "('B', 1)": [2.0, 1.0]},
        "('A', 4)": {"null": 12.0},
        "('B', 4)": {"null": 5.0},
    },
    "v100_unconsolidated": {"('A', 1)": {"null": 4.0}, "('A', 4)": {"null": 6.0},
                            "('B', 4)": {"null": 5.5}},
    "k80": {"('A', 1)": {"null": 1.0}, "('A', 4)": {"null": 0.0}},
}  # fmt: skip


def profile(name: str) -> Path:
    path = PROFILES / name
    if not path.is_file():
        pytest.skip("the published tables are not here")
    return path


def test_gavel_has_an_option_per_model_and_placement() -> None:
    menu = gavel.options(GAVEL, "A", 4, {"v100": "V100", "k80": "K80"}, per=3.0)
    (together, spread) = menu
    assert (together.name, together.value) == ("V100-host", 4000)
    assert (spread.name, spread.value) == ("V100-spread", 2000)
    assert together.groups[0].required == "host"
    assert spread.groups[0].required is None
    assert {o.groups[0].gpu_models for o in menu} == {("V100",)}
    assert {o.groups[0].count for o in menu} == {4}


def test_gavel_leaves_out_a_consolidated_placement_that_is_no_faster() -> None:
    (spread,) = gavel.options(GAVEL, "B", 4, {"v100": "V100"}, per=5.5)
    assert (spread.name, spread.value) == ("V100-spread", 1000)


def test_gavel_on_one_gpu_has_one_option_per_model() -> None:
    per = gavel.equal_share(GAVEL, "A", 1, {"v100": 1, "k80": 3})
    assert per == (4.0 + 3 * 1.0) / 4
    menu = gavel.options(GAVEL, "A", 1, {"v100": "V100", "k80": "K80"}, per=per, scale=7)
    assert [(o.name, o.value, o.groups[0].required) for o in menu] == [
        ("V100", 16, None),
        ("K80", 4, None),
    ]


def test_gavel_refuses_a_job_that_runs_nowhere() -> None:
    with pytest.raises(InvalidInputError, match="job: 'C': runs on no GPU model"):
        gavel.equal_share(GAVEL, "C", 1, {"v100": 8})


def test_gavels_published_table_is_read() -> None:
    table = json.loads(profile("gavel/simulation_throughputs.json").read_text())
    menu = gavel.options(
        table, "Transformer (batch size 64)", 4, {"v100": "V100", "p100": "P100"}, per=10.0
    )
    assert [o.name for o in menu] == ["V100-host", "V100-spread", "P100-host", "P100-spread"]
    assert menu[0].value == 1966
    # Its ResNet-50 is faster spread than together on four V100s.
    (best,) = gavel.options(table, "ResNet-50 (batch size 64)", 4, {"v100": "V100"}, per=1.0)
    assert (best.name, best.value) == ("V100-spread", 11136)


POLLUX = """placement,local_bsz,step_time,sync_time
1,10,1.0,0.0
1,20,1.6,0.0
2,10,1.1,0.1
11,10,1.0,0.2
12,10,1.2,0.2
3,10,1.2,0.2
111,10,2.0,1.0
""".splitlines()


def test_goodput_is_throughput_times_efficiency() -> None:
    step = pollux.Step((2, 1), 10, 1.5)
    assert step.batch == 30
    assert pollux.goodput(step, noise=70, initial_batch=10) == 30 / 1.5 * (70 + 10) / (70 + 30)


def test_pollux_takes_the_best_batch_of_each_placement_and_useful_placements_only() -> None:
    steps = pollux.read_steps(POLLUX)
    best = pollux.best_goodputs(steps, noise=40, initial_batch=10)
    assert best[1,] == pytest.approx(max(10 / 1.0, 20 / 1.6 * 50 / 60))
    assert best[2, 1] == pytest.approx(30 / 1.2 * 50 / 70)
    menu = pollux.options(steps, noise=40, initial_batch=10, power=1, scale=1000)
    # Two hosts beat one for two GPUs; three GPUs on one host are no slower than on two or three.
    assert [o.name for o in menu] == ["1x1", "1x2", "2x1", "1x3"]
    one = best[1,]
    assert [o.progress for o in menu] == [
        round(1000 * (best[p] / one - 1)) for p in [(1,), (2,), (1, 1), (3,)]
    ]
    assert [[(g.count, g.gpu) for g in o.groups] for o in menu] == [
        [(1, 1000)],
        [(1, 2000)],
        [(2, 1000)],
        [(1, 3000)],
    ]
    assert {o.value for o in menu} == {1}


def test_pollux_refuses_rows_and_batches_that_are_none() -> None:
    with pytest.raises(InvalidInputError, match="expected placement, local_bsz and step_time"):
        pollux.read_steps(["placement,local_bsz", "1,2"])
    with pytest.raises(InvalidInputError, match="initial_batch: 999"):
        pollux.options(pollux.read_steps(POLLUX), noise=40, initial_batch=999)


def test_pollux_published_table_gives_a_menu_of_growing_speed() -> None:
    with profile("pollux/imagenet_placements.csv").open() as lines:
        steps = pollux.read_steps(lines)
    menu = pollux.options(steps, noise=10_000, initial_batch=200)
    assert 1 < len(menu) <= 64
    assert menu[0].milli_gpu == 1000
    assert menu[-1].milli_gpu == 16_000
    gains = {o.milli_gpu: o.progress for o in menu if len(o.groups) == 1}
    assert sorted(gains.values()) == [gains[n] for n in sorted(gains)]


def test_sia_sizes_are_powers_of_two_in_a_host_and_whole_hosts_beyond() -> None:
    assert sia.sizes(8, 4, 64) == (1, 2, 4, 8, 16, 24, 32)
    assert sia.sizes(4, 16, 10) == (1, 2, 4, 8)
    assert sia.sizes(6, 2, 64) == (1, 2, 4, 6, 12)


def test_sia_divides_by_the_least_goodput_of_the_job() -> None:
    goodputs = {("A100", 1): 30.0, ("T4", 1): 10.0, ("A100", 16): 90.0}
    menu = sia.options(goodputs, {"A100": 8, "T4": 4}, power=-0.5, scale=1000)
    assert [o.progress for o in menu] == [
        round(2000 * (1 - 3**-0.5)),
        0,
        round(2000 * (1 - 9**-0.5)),
    ]
    assert [(o.groups[0].count, o.groups[0].gpu) for o in menu] == [(1, 1000), (1, 1000), (2, 8000)]
    with pytest.raises(InvalidInputError, match="at most 8 GPUs or a multiple of 8"):
        sia.options({("A100", 12): 1.0}, {"A100": 8})


def test_synergy_keeps_points_that_no_smaller_one_matches() -> None:
    speeds = [[0.1, 0.5, 0.5], [0.1, 1.0, 1.0], [0.1, 1.0, 1.4], [0.1, 1.0, 1.4]]
    menu = synergy.options(
        speeds, 2, fair=(2, 60.0), cores=(1, 2, 4, 8), memory_gb=(20.0, 60.0, 120.0)
    )
    assert [(o.name, o.value) for o in menu] == [
        ("2-cores-60-gb", 2000),
        ("4-cores-120-gb", 2800),
    ]
    (group,) = menu[1].groups
    assert (group.gpu, group.cpu, group.memory) == (2000, 8000, 240 * 1024)


def test_synergy_refuses_another_grid() -> None:
    with pytest.raises(InvalidInputError, match="expected 9 rows of 5 speeds"):
        synergy.options([[1.0]], 1)
    with pytest.raises(InvalidInputError, match=r"fair: .*expected a point of the grid"):
        synergy.options([[1.0] * 5] * 9, 1, fair=(7, 62.5))


def test_synergy_published_matrix_of_resnet_18() -> None:
    path = profile("synergy/cpu_mem_sensitivity_1gpu.json")
    menu = synergy.options(json.loads(path.read_text())["res18_1"]["tput"], 1)
    assert [(o.name, o.value) for o in menu] == [
        ("3-cores-62-gb", 1000),
        ("4-cores-62-gb", 1300),
        ("5-cores-62-gb", 1530),
        ("6-cores-62-gb", 1750),
        ("9-cores-62-gb", 2400),
    ]


TRAINING = comet.Training(states_mib=8000, sample_mib=1000, step_s=0.1, sample_s=0.1)
KEEP = comet.Configuration("keep", 1.0)
COMPRESS = comet.Configuration("compress", 0.1, slowdown=1.5)


def test_comet_trades_bytes_for_speed() -> None:
    assert comet.memory_needed(TRAINING, KEEP, 8) == 16_000
    assert comet.memory_needed(TRAINING, COMPRESS, 8) == 8_800
    assert comet.samples_per_s(TRAINING, COMPRESS, 8) == pytest.approx(8 / (0.1 + 1.2))


def test_comet_offers_what_no_option_of_less_memory_matches() -> None:
    menu = comet.options(TRAINING, [KEEP, COMPRESS], 2, per=1.0, most_batch=8, share=500)
    assert [(o.name, o.groups[0].gpu_memory) for o in menu] == [
        ("compress-1", 8_100),  # 4.0 samples per second
        ("compress-2", 8_200),  # 5.0
        ("compress-4", 8_400),  # 5.7
        ("compress-8", 8_800),  # 6.2
        ("keep-2", 10_000),  # 6.7
        ("keep-4", 12_000),  # 8.0
        ("keep-8", 16_000),  # 8.9
    ]
    assert menu[-1].value == round(1000 * 2 * 8 / 0.9)
    assert {(o.groups[0].count, o.groups[0].gpu) for o in menu} == {(2, 500)}
    with pytest.raises(InvalidInputError, match="configurations: 0: expected at least one"):
        comet.options(TRAINING, [], 1, per=1.0, most_batch=8)
