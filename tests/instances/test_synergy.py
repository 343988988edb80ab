"""The converter of Synergy's sensitivity matrices."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from placewright import InvalidInputError
from placewright.instances.checks.round import check_round
from placewright.instances.converters import convert_synergy, read_synergy
from placewright.instances.converters.traces.synergy import KINDS
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.speed import speed
from placewright.instances.documents.round import Round
from placewright.instances.speed_models.synergy import CORES, MEMORY_GB

PROFILES = Path(__file__).parents[3] / "shared" / "data" / "profiles"

HUNGRY = [[round(0.3 * c, 2)] * len(MEMORY_GB) for c in range(1, len(CORES) + 1)]
MODEST = [[1] * len(MEMORY_GB)] * len(CORES)


def entries() -> dict[str, Any]:
    return {
        "alexnet_1": {"iter_time": 0.6, "tput": HUNGRY, "cpus": 12},
        "bert_1": {"iter_time": 0.011, "tput": MODEST},
        "m5_1": {"iter_time": 2, "tput": MODEST},
        "vae_1": {"iter_time": 1, "tput": "of no kind"},
        "alexnet_2": {"tput": "for another number of GPUs"},
    }


def written(folder: Path, values: Any) -> Path:
    path = folder / "profiles.json"
    path.write_text(json.dumps(values))
    return path


def models(round_: Round) -> Counter[str]:
    return Counter(job.name.rsplit("-", 1)[0] for job in round_.jobs)


def test_a_matrix_becomes_a_sensitivity_in_millicores_mib_and_millionths(tmp_path: Path) -> None:
    round_ = convert_synergy(written(tmp_path, entries()), servers=1, split=(1, 0, 0), jobs=1)
    (job,) = round_.jobs
    assert job.profile is not None
    assert job.profile.stages == (600_000,)
    matrix = job.profile.sensitivity
    assert matrix is not None
    assert matrix.cores == tuple(1000 * cores for cores in CORES)
    assert matrix.memory == (21_333, 64_000, 128_000, 192_000, 256_000)
    assert matrix.speeds[3] == (1_200_000,) * 5


def test_a_job_is_offered_its_share_and_every_point_worth_more(tmp_path: Path) -> None:
    round_ = convert_synergy(written(tmp_path, entries()), servers=1, gpus=(2,), split=(1, 0, 0))
    job = round_.jobs[0]
    assert job.options[0].name == "proportional"
    asked = [(o.groups[0].gpu, o.groups[0].cpu, o.groups[0].memory) for o in job.options]
    # No point asks for more memory than the smallest step, as none is faster with more.
    assert asked[0] == (2000, 6000, 128_000)
    assert asked[1:] == [(2000, 2000 * cores, 42_666) for cores in CORES[2:]]
    speeds = [speed(job, i) for i in range(len(job.options))]
    assert speeds == [900_000, *(300_000 * c for c in range(3, 10))]
    assert job.weight == 2


def test_jobs_larger_than_a_server_are_a_task_for_each(tmp_path: Path) -> None:
    path = written(tmp_path, entries())
    round_ = convert_synergy(path, servers=4, gpus=(4, 16), jobs=30, split=(1, 1, 1))
    shapes = {(o.groups[0].count, o.groups[0].gpu) for job in round_.jobs for o in job.options}
    assert shapes == {(1, 4000), (2, 8000)}


def test_a_server_has_eight_gpus_and_what_is_their_share(tmp_path: Path) -> None:
    round_ = convert_synergy(written(tmp_path, entries()), servers=3)
    (host,) = round_.cluster.hosts
    assert len(expand(host.name)) == 3
    assert (host.gpus, host.cpu, host.memory) == (8, 24_000, 512_000)
    assert sum(job.options[0].milli_gpu for job in round_.jobs) == 24_000
    check_round(round_)


def test_the_split_is_exact_and_odd_jobs_go_where_most_of_one_is_left(tmp_path: Path) -> None:
    path = written(tmp_path, entries())
    drawn = models(convert_synergy(path, jobs=10, split=(20, 70, 10)))
    assert drawn == {"alexnet": 2, "bert": 7, "m5": 1}
    assert models(convert_synergy(path, jobs=4, split=(20, 70, 10)))["bert"] == 3


def test_the_same_seed_gives_the_same_round(tmp_path: Path) -> None:
    path = written(tmp_path, entries())
    first, again, other = (
        convert_synergy(path, gpus=(1, 2, 4, 8), seed=seed) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_models_may_stand_under_a_key_of_their_own(tmp_path: Path) -> None:
    flat = convert_synergy(written(tmp_path, entries()))
    assert convert_synergy(written(tmp_path, {"models": entries(), "models-4": {}})) == flat


def test_the_converter_says_what_it_took(tmp_path: Path) -> None:
    made = read_synergy(written(tmp_path, entries()), servers=2, split=(1, 1, 0))
    assert made.summary == (
        "synergy: 16 jobs (8 image, 8 language, 0 speech), all waiting, ask 16 GPUs; "
        "2 hosts, 16 GPUs; load 1.000"
    )


@pytest.mark.parametrize(
    ("argument", "value", "named"),
    [
        ("servers", 0, "servers: 0: expected 1 to"),
        ("jobs", 0, "jobs: 0: expected 1 to"),
        ("split", (1, 2), "split: [1, 2]: expected 3 parts"),
        ("split", (0, 0, 0), "split: [0, 0, 0]: expected 3 parts"),
        ("split", (1, -1, 1), "split: [1, -1, 1]: expected 3 parts"),
        ("gpus", (0,), "gpus: 0: expected 1 to 8"),
        ("gpus", (1, 12), "gpus: 12: expected 1 to 8"),
        ("gpus", (256,), "gpus: 256: expected 1 to 8"),
        ("gpus", (), "gpus: []: expected at least one"),
        ("seed", -1, "seed: -1: expected 0 or more"),
    ],
)
def test_a_wrong_argument_is_named(tmp_path: Path, argument: str, value: Any, named: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        convert_synergy(written(tmp_path, entries()), **{argument: value})
    assert str(caught.value).startswith(named)


@pytest.mark.parametrize(
    ("model", "field", "value", "named"),
    [
        ("alexnet_1", "tput", [], "alexnet_1.tput: []: expected a list of 9"),
        ("alexnet_1", "tput", [[1]] * 9, "alexnet_1.tput[0]: [1]: expected a list of 5"),
        ("bert_1", "tput", [[1, 1, -1, 1, 1]] * 9, "bert_1.tput[0][2]: -1: expected a number"),
        ("bert_1", "tput", [[1, "1", 1, 1, 1]] * 9, "bert_1.tput[0][1]: '1': expected a number"),
        ("bert_1", "tput", [[1] * 4 + [1e9]] * 9, "bert_1.tput[0][4]: 1000000000.0: expected"),
        ("bert_1", "tput", [[float("nan")] * 5] * 9, "bert_1.tput[0][0]: nan: expected a number"),
        ("m5_1", "iter_time", 0, "m5_1.iter_time: 0: expected a number from 1e-06 to 1000"),
        ("m5_1", "iter_time", True, "m5_1.iter_time: True: expected a number"),
        ("m5_1", "iter_time", None, "m5_1.iter_time: missing"),
    ],
)
def test_a_wrong_entry_is_named_by_file_and_path(
    tmp_path: Path, model: str, field: str, value: Any, named: str
) -> None:
    wrong = entries()
    if value is None:
        del wrong[model][field]
    else:
        wrong[model][field] = value
    path = written(tmp_path, wrong)
    with pytest.raises(InvalidInputError) as caught:
        convert_synergy(path)
    assert str(caught.value).startswith(f"{path}: {named}")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], ": []: expected a mapping of models"),
        ({}, ": expected models such as alexnet_1"),
        ({"models": {}}, ": models: expected models such as alexnet_1"),
        ({"models": {"alexnet_1": 3}}, ": models.alexnet_1.iter_time: missing"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, values: Any, named: str) -> None:
    path = written(tmp_path, values)
    with pytest.raises(InvalidInputError) as caught:
        convert_synergy(path)
    assert str(caught.value).startswith(f"{path}{named}")


def test_a_kind_without_models_is_refused_only_if_jobs_are_of_it(tmp_path: Path) -> None:
    some = entries()
    del some["m5_1"]
    path = written(tmp_path, some)
    with pytest.raises(InvalidInputError, match="no model of the kind 'speech'"):
        convert_synergy(path)
    assert "m5" not in models(convert_synergy(path, split=(1, 1, 0)))


@pytest.mark.skipif(not PROFILES.exists(), reason="the published matrices are not here")
def test_the_published_matrices_become_rounds() -> None:
    all_models = {model for names in KINDS.values() for model in names}
    round_ = convert_synergy(PROFILES / "synergy_profiles.json", servers=64, split=(1, 1, 1))
    assert set(models(round_)) == all_models
    check_round(round_)
    for job in round_.jobs:
        assert speed(job, 0) == 1_000_000
        assert all(speed(job, i) >= 1_000_000 for i in range(len(job.options)))
    at_one_gpu = PROFILES / "synergy" / "cpu_mem_sensitivity_1gpu.json"
    assert set(models(convert_synergy(at_one_gpu))) < all_models
