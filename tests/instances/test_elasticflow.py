"""The ElasticFlow converter: absolute seconds, sizes that a job may have, and their speeds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.converters import convert_elasticflow, elasticflow_jobs, read_elasticflow
from placewright.instances.converters.support.trace_rounds import read_iterations
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.elasticflow import SERIAL, amdahl, measured, options, sizes

HEADER = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
ROWS = [
    "0bc6e292-b9b4,2000,9,bert,4000,32,2,3000",
    "56a60db5-0776,1000,9,resnet50,9000,64,4,5000",
    "56a60db5-1111,1500,9,vgg16,9000,64,3,5000",
    "ffa60db5-2222,1500,9,vgg16,9000,64,0,5000",
]
PROFILES = (
    "model,batch,num_gpu,iter_ms\nbert,4,1,100\nbert,4,2,125\nbert,4,4,160.5\nbert,4,16,400\n"
)
DATA = Path(__file__).parents[3] / "shared" / "data"
needs_traces = pytest.mark.skipif(not DATA.is_dir(), reason="needs the traces of ElasticFlow")


def trace(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "trace.csv"
    path.write_text(header + "".join(f"{row}\n" for row in rows or ROWS))
    return path


def profiles(folder: Path, text: str = PROFILES) -> Path:
    path = folder / "profiles.csv"
    path.write_text(text)
    return path


def speeds(round_: Round) -> dict[str, dict[int, int]]:
    return {
        job.name: {
            option.milli_gpu // 1000: job.deadline.pace(i).speed
            for i, option in enumerate(job.options)
        }
        for job in round_.jobs
        if job.deadline
    }


def test_deadlines_are_seconds_on_the_clock_of_the_trace(tmp_path: Path) -> None:
    made = convert_elasticflow(trace(tmp_path), gpus=8)
    check_round(made)
    asked = {job.name: job.deadline for job in made.jobs}
    assert made.now == 1000
    assert {
        name: (d.ready, d.work_s, [(due.at, due.value) for due in d.due])
        for name, d in asked.items()
        if d
    } == {
        "resnet50-56a60db5-0776": (None, 5000, [(9000, 1)]),
        "vgg16-56a60db5-1111": (1500, 5000, [(9000, 1)]),
        "bert-0bc6e292-b9b4": (2000, 3000, [(4000, 1)]),
    }
    assert speeds(made)["resnet50-56a60db5-0776"] == {4: 1000}


def test_ids_are_cut_short_where_that_leaves_them_different(tmp_path: Path) -> None:
    assert [job.name for job in elasticflow_jobs(trace(tmp_path, *ROWS[:2]))] == [
        "resnet50-56a60db5",
        "bert-0bc6e292",
    ]


def test_without_measurements_speeds_follow_amdahls_law(tmp_path: Path) -> None:
    made = read_elasticflow(trace(tmp_path), gpus=8, elastic=8)
    check_round(made.round)
    assert speeds(made.round)["resnet50-56a60db5-0776"] == {1: 287, 2: 547, 4: 1000, 8: 1703}
    assert speeds(made.round)["vgg16-56a60db5-1111"] == {1: 366, 2: 698, 3: 1000, 4: 1275, 8: 2172}
    assert made.summary.endswith("; up to 8 GPUs a job, speeds by Amdahl's law with 5 % serial")


def test_measured_speeds_hold_the_batch_of_a_gpu_fixed(tmp_path: Path) -> None:
    made = read_elasticflow(trace(tmp_path), gpus=8, elastic=8, profiles=profiles(tmp_path))
    # n / iteration: 1 / 100, 2 / 125, 4 / 160.5, over that of the two GPUs asked; 8 not measured.
    assert speeds(made.round)["bert-0bc6e292-b9b4"] == {1: 625, 2: 1000, 4: 1557}
    assert speeds(made.round)["resnet50-56a60db5-0776"][8] == 1703
    assert "speeds measured for bert, else by Amdahl's law with 5 % serial" in made.summary


def test_what_a_job_asks_stays_among_its_sizes(tmp_path: Path) -> None:
    for arguments in ({}, {"profiles": profiles(tmp_path)}):
        made = convert_elasticflow(trace(tmp_path), gpus=8, elastic=1, **arguments)
        assert {name: list(of) for name, of in speeds(made).items()} == {
            "resnet50-56a60db5-0776": [1, 4],
            "vgg16-56a60db5-1111": [1, 3],
            "bert-0bc6e292-b9b4": [1, 2],
        }


def test_a_job_is_hopeless_only_if_no_size_makes_its_deadline(tmp_path: Path) -> None:
    path = trace(tmp_path)
    assert "1 cannot meet a deadline" in read_elasticflow(path, gpus=8).summary
    assert "0 cannot meet a deadline" in read_elasticflow(path, gpus=8, elastic=16).summary


def test_larger_sizes_have_larger_overheads_and_tasks_that_fit_hosts(tmp_path: Path) -> None:
    job = convert_elasticflow(trace(tmp_path), gpus=8, elastic=16).jobs[0]
    assert job.deadline is not None
    assert [pace.overhead_s for pace in job.deadline.paces] == [30, 60, 90, 120, 150]
    groups = [option.groups[0] for option in job.options]
    assert [(g.count, g.gpu) for g in groups][-2:] == [(1, 8000), (2, 8000)]


def test_a_menu_says_what_each_number_of_gpus_is_like() -> None:
    chosen, paces = options({1: 1.0, 2: 1.5, 4: 3.1}, 2)
    assert [(option.name, option.groups[0].count) for option in chosen] == [
        ("x1", 1),
        ("x2", 2),
        ("x4", 4),
    ]
    assert [(pace.speed, pace.overhead_s) for pace in paces] == [(666, 0), (1000, 0), (2066, 0)]
    own, _ = options({3: 2}, 3, groups=lambda gpus: (TaskGroup(gpu=gpus),))
    assert [option.milli_gpu for option in own] == [3000]


def test_amdahls_law_and_measured_speeds() -> None:
    assert (sizes(0), sizes(1), sizes(9)) == ((), (1,), (1, 2, 4, 8))
    assert amdahl((1, 2, 20)) == {1: 1, 2: Fraction(40, 21), 20: Fraction(400, 39)}
    assert amdahl((1, 8), Fraction(0)) == {1: 1, 8: 8}
    assert Fraction(1, 20) == SERIAL
    assert measured({1: 100, 2: 125}) == {1: Fraction(1, 100), 2: Fraction(2, 125)}
    with pytest.raises(InvalidInputError, match=r"iterations\[2\]: 0: expected a number above 0"):
        measured({2: 0})
    with pytest.raises(InvalidInputError, match=r"speeds\[2\]: -1"):
        options({1: 1, 2: -1}, 1)
    with pytest.raises(InvalidInputError, match="base: 3: expected one of the speeds"):
        options({1: 1}, 3)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,0,9,m,9,1,-1,9", "column num_gpu: '-1': expected an integer"),
        ("a,0,9,m,nan,1,1,9", "column deadline: 'nan': expected an integer"),
        ("a,-5,9,m,9,1,1,9", "column submission_time: '-5': expected an integer"),
        ("a,0,9,m,9,1,1,0", "column duration: '0': expected at least one second"),
        ("0bc6e292-b9b4,0,9,m,9,1,1,9", "column job_id: '0bc6e292-b9b4': expected each name once"),
        ("a,0,9,m m,9,1,1,9", "column model_name: 'm m': expected a name"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(row: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as raised:
        elasticflow_jobs(trace(tmp_path, ROWS[0], row))
    assert f"line 3, {message}" in str(raised.value)


def test_a_deadline_before_the_submission_is_kept_and_reported(tmp_path: Path) -> None:
    made = read_elasticflow(trace(tmp_path, "a,500,9,m,100,1,1,9"), gpus=8)
    assert "1 cannot meet a deadline even alone" in made.summary
    check_round(made.round)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PROFILES + "bert,4,2,9\n", "line 6, column num_gpu: '2': expected at least one GPU, each"),
        (PROFILES + "bert,4,0,9\n", "line 6, column num_gpu: '0': expected at least one GPU, each"),
        (PROFILES + "bert,4,8,0\n", "line 6, column iter_ms: '0': expected a time above 0"),
        (PROFILES + "bert,4,8,nan\n", "line 6, column iter_ms: 'nan': expected a number"),
        (PROFILES.replace("iter_ms", "ms"), "expected a column iter_ms"),
    ],
)
def test_bad_profiles_are_refused_with_their_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_iterations(profiles(tmp_path, text))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"elastic": 0}, "elastic"),
        ({"profiles": "profiles.csv"}, "profiles"),
        ({"gpus": 0}, "gpus"),
        ({"lease_s": 0}, "lease_s"),
        ({"at": 9000}, "at"),
    ],
)
def test_an_argument_out_of_its_range_is_named(
    arguments: dict[str, int], path: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_elasticflow(trace(tmp_path), **{"gpus": 8, **arguments})
    assert (raised.value.path, raised.value.file) == ((path,), None)


@pytest.mark.nightly(after=1)
@needs_traces
@pytest.mark.parametrize(
    ("cluster", "jobs", "early", "fixed", "elastic"),
    [("10", 260, 136, 177, 29), ("03", 3011, 1540, 2142, 349), ("06", 2396, 1191, 1745, 322)],
)
def test_half_the_deadlines_of_the_traces_need_more_gpus(
    cluster: str, jobs: int, early: int, fixed: int, elastic: int
) -> None:
    path = DATA / "traces" / "elasticflow" / "deadline" / f"cluster{cluster}.csv"
    read = elasticflow_jobs(path)
    assert len(read) == jobs
    assert sum(job.due[0][0] < job.submit_s + job.duration_s for job in read) == early
    assert f"; {fixed:,} cannot meet" in read_elasticflow(path, gpus=128).summary
    made = read_elasticflow(
        path, gpus=128, elastic=64, profiles=DATA / "profiles" / "muri_profiles.csv"
    )
    check_round(made.round)
    assert f"; {elastic:,} cannot meet" in made.summary
    assert "speeds measured for bert, gpt2, vgg16, else" in made.summary
