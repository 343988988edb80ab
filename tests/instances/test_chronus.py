"""The Chronus converter: minutes, deadlines, rows without GPUs, which jobs, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.converters import chronus_jobs, convert_chronus, read_chronus
from placewright.instances.converters.support.trace_rounds import deadline_of, overhead_s
from placewright.instances.documents.deadline import Deadline
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

HEADER = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
HEADER += "expect_time_list,expect_value_list,best_effort,job_type\n"
ROWS = [
    "7,vc_a,4,50,9,vgg16,30,5,40-60-100,10-8-2,0,soft",
    "3,vc_a,1,10,9,alexnet,60,5,90,10,0,strict",
    "9,vc_b,0,20,9,alexnet,60,5,90,10,0,strict",
    "1,vc_b,12,200,9,resnet101,100,5,200,10,1,best",
]
TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces" / "chronus"
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="needs the traces of Chronus")


def trace(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "trace.csv"
    path.write_text(header + "".join(f"{row}\n" for row in rows or ROWS))
    return path


def deadlines(round_: Round) -> dict[str, Deadline]:
    return {job.name: job.deadline for job in round_.jobs if job.deadline}


def dues(round_: Round) -> dict[str, list[tuple[int, int]]]:
    return {name: [(d.at, d.value) for d in of.due] for name, of in deadlines(round_).items()}


def test_minutes_become_seconds_and_deadlines_count_from_the_submission(tmp_path: Path) -> None:
    made = convert_chronus(trace(tmp_path), gpus=20)
    check_round(made)
    assert (made.now, made.policy.formulation) == (600, "deadline")
    assert dues(made) == {
        "alexnet-3": [(6000, 10)],
        "vgg16-7": [(5400, 10), (6600, 8), (9000, 2)],
        "resnet101-1": [],
    }
    assert {name: (d.ready, d.work_s) for name, d in deadlines(made).items()} == {
        "alexnet-3": (None, 3600),
        "vgg16-7": (3000, 1800),
        "resnet101-1": (12_000, 6000),
    }


def test_the_dummy_deadline_of_best_effort_is_not_read(tmp_path: Path) -> None:
    odd = trace(tmp_path, ROWS[1], "2,u,1,9,9,m,5,5,nonsense,,1,best")
    assert [job.due for job in chronus_jobs(odd)] == [(), ((6000, 10),)]


def test_rows_without_gpus_are_left_out_and_counted(tmp_path: Path) -> None:
    made = read_chronus(trace(tmp_path), gpus=20)
    assert made.summary == (
        "chronus: 3 jobs (all of the trace); 1 more left out, asking no GPU; "
        "1 with a hard deadline, 1 with soft ones, 1 best effort; 2 come later; "
        "0 cannot meet a deadline even alone; 3 hosts, 20 GPUs; 7 leases of 1,200 s"
    )


def test_rows_are_taken_in_the_order_of_submission(tmp_path: Path) -> None:
    names = [job.name for job in chronus_jobs(trace(tmp_path))]
    assert names == ["alexnet-3", "vgg16-7", "resnet101-1"]


def test_tasks_are_as_large_as_hosts_of_eight_allow(tmp_path: Path) -> None:
    made = convert_chronus(trace(tmp_path), gpus=20)
    groups = {job.name: job.options[0].groups[0] for job in made.jobs}
    assert {name: (group.count, group.gpu) for name, group in groups.items()} == {
        "alexnet-3": (1, 1000),
        "vgg16-7": (1, 4000),
        "resnet101-1": (2, 6000),
    }
    assert [(host.name, host.gpus) for host in made.cluster.hosts] == [
        ("node-[0-1]", 8),
        ("node-2", 4),
    ]


def test_every_lease_pays_for_checkpoint_and_resume_by_the_gpus(tmp_path: Path) -> None:
    assert [overhead_s(gpus) for gpus in (1, 2, 3, 4, 8, 16, 32)] == [30, 60, 78, 90, 120, 150, 180]
    made = deadlines(convert_chronus(trace(tmp_path), gpus=20))
    assert {name: d.paces[0].overhead_s for name, d in made.items()} == {
        "alexnet-3": 30,
        "vgg16-7": 90,
        "resnet101-1": 138,
    }


def test_slack_makes_jobs_longer_and_rounds_up(tmp_path: Path) -> None:
    made = deadlines(convert_chronus(trace(tmp_path), gpus=20, slack=0.1))
    assert [made[name].work_s for name in ("alexnet-3", "vgg16-7")] == [3960, 1980]
    job = chronus_jobs(trace(tmp_path, "1,u,1,0,9,m,1,5,9,10,0,strict"))[0]
    assert [job.work_s(slack) for slack in (0, 1, 100, 999)] == [60, 61, 66, 120]


def test_a_job_that_is_alive_has_run_since_it_was_submitted(tmp_path: Path) -> None:
    made = convert_chronus(trace(tmp_path), gpus=20, at=55)
    assert made.now == 3300
    assert {name: (d.ready, d.work_s) for name, d in deadlines(made).items()} == {
        "alexnet-3": (None, 900),
        "vgg16-7": (None, 1500),
    }
    later = convert_chronus(trace(tmp_path), gpus=20, at=55, ahead=145)
    assert {name: d.ready for name, d in deadlines(later).items()} == {
        "alexnet-3": None,
        "vgg16-7": None,
        "resnet101-1": 12_000,
    }
    assert len(convert_chronus(trace(tmp_path), gpus=20, at=55, ahead=144).jobs) == 2


def test_a_deadline_in_the_past_is_kept_and_reported(tmp_path: Path) -> None:
    past = trace(tmp_path, "7,u,1,0,9,m,300,5,40,10,0,strict", ROWS[1])
    made = read_chronus(past, gpus=8, at=60)
    assert dues(made.round)["m-7"] == [(2400, 10)]
    assert "1 cannot meet a deadline even alone" in made.summary
    check_round(made.round)


def test_a_deadline_is_met_by_less_than_a_whole_last_lease(tmp_path: Path) -> None:
    # 25 minutes of work and half a minute of overhead in each of two leases: 26 minutes.
    for due, late in (("26", 0), ("25", 1)):
        path = trace(tmp_path, f"7,u,1,0,9,m,25,5,{due},10,0,strict")
        assert f"{late} cannot meet" in read_chronus(path, gpus=8).summary


def test_jobs_are_drawn_by_a_seed(tmp_path: Path) -> None:
    path = trace(tmp_path)
    drawn = [[j.name for j in convert_chronus(path, gpus=8, jobs=2, seed=s).jobs] for s in range(9)]
    assert drawn == [
        [j.name for j in convert_chronus(path, gpus=8, jobs=2, seed=s).jobs] for s in range(9)
    ]
    assert {len(set(names)) for names in drawn} == {2}
    assert len({tuple(names) for names in drawn}) == 3


def test_locality_tells_how_much_slower_a_job_is_on_several_hosts(tmp_path: Path) -> None:
    table = tmp_path / "speeds.json"
    table.write_text(json.dumps({"vgg16": {"4": {"1": 1.0, "4": 0.318, "2": 0.576427}}}))
    made = convert_chronus(trace(tmp_path), gpus=20, locality=table)
    spanning = {name: d.paces[0].spanning for name, d in deadlines(made).items()}
    assert spanning == {"alexnet-3": (), "vgg16-7": ((2, 576), (4, 318)), "resnet101-1": ()}
    groups = {job.name: job.options[0].groups[0] for job in made.jobs}
    assert (groups["vgg16-7"].count, groups["vgg16-7"].gpu) == (4, 1000)
    check_round(made)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"m": {"2": {"1": 0.9}}}, "m.2.1: 0.9: expected 1, the speed"),
        ({"m": {"2": {"2": 0}}}, "m.2.2: 0: expected a speed"),
        ({"m": {"2": {"2": "fast"}}}, "m.2.2: 'fast': expected a speed"),
        ({"m": {"two": {}}}, "m.two: 'two': expected a number from 1"),
        ({"m": {"2": [1, 0.5]}}, "m.2: [1, 0.5]: expected a mapping"),
        ([], "[]: expected a mapping"),
    ],
)
def test_a_bad_locality_is_refused_with_its_path(
    table: object, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "speeds.json"
    path.write_text(json.dumps(table))
    with pytest.raises(InvalidInputError) as raised:
        read_chronus(trace(tmp_path), gpus=8, locality=path)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("7,u,-1,0,9,m,30,5,40,10,0,strict", "column num_gpu: '-1': expected an integer"),
        ("7,u,nan,0,9,m,30,5,40,10,0,strict", "column num_gpu: 'nan': expected an integer"),
        ("7,u,1,0.5,9,m,30,5,40,10,0,strict", "column submit_time: '0.5': expected an integer"),
        ("7,u,1,0,9,m,0,5,40,10,0,strict", "column duration: '0': expected at least one minute"),
        ("7,u,1,0,9,m,inf,5,40,10,0,strict", "column duration: 'inf': expected an integer"),
        ("7,u,1,0,9,m,30,5,40-,10-8,0,soft", "column expect_time_list: '40-': expected integers"),
        ("7,u,1,0,9,m,30,5,60-40,10-8,0,soft", "column expect_time_list: '60-40': expected dead"),
        ("7,u,1,0,9,m,30,5,40-40,10-8,0,soft", "column expect_time_list: '40-40': expected dead"),
        ("7,u,1,0,9,m,30,5,40-60,8-10,0,soft", "column expect_value_list: '8-10': expected val"),
        ("7,u,1,0,9,m,30,5,40-60,8-0,0,soft", "column expect_value_list: '8-0': expected val"),
        ("7,u,1,0,9,m,30,5,40-60,10,0,soft", "column expect_value_list: '10': expected 2, one"),
        ("7,u,1,0,9,m,30,5,40,10,2,strict", "column best_effort: '2': expected an integer"),
        ("3,u,1,0,9,m,30,5,40,10,0,strict", "column job_id: '3': expected each name once; line 2"),
        ("7,u,1,0,9,a b,30,5,40,10,0,strict", "column model_name: 'a b': expected a name"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(row: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as raised:
        chronus_jobs(trace(tmp_path, ROWS[1], row))
    assert f"line 3, {message}" in str(raised.value)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    for column in ("expect_time_list", "best_effort", "num_gpu"):
        path = trace(tmp_path, header=HEADER.replace(column, "other"))
        with pytest.raises(InvalidInputError, match=f"expected a column {column}"):
            chronus_jobs(path)
    with pytest.raises(InvalidInputError, match="at least one job"):
        chronus_jobs(trace(tmp_path, ""))


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"gpus": 0}, "gpus"),
        ({"lease_s": 0}, "lease_s"),
        ({"slack": -0.1}, "slack"),
        ({"slack": float("nan")}, "slack"),
        ({"at": 10**9}, "at"),
        ({"at": -1}, "at"),
        ({"ahead": 5}, "ahead"),
        ({"jobs": 0}, "jobs"),
        ({"jobs": 4}, "jobs"),
        ({"seed": -1}, "seed"),
    ],
)
def test_an_argument_out_of_its_range_is_named(
    arguments: dict[str, int], path: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_chronus(trace(tmp_path), **{"gpus": 8, **arguments})
    assert (raised.value.path, raised.value.file) == ((path,), None)


def test_the_horizon_reaches_to_the_last_deadline(tmp_path: Path) -> None:
    path = trace(tmp_path, "7,u,1,0,9,m,25,5,26-41,10-8,0,soft")
    assert convert_chronus(path, gpus=8).leases.horizon == 3
    assert convert_chronus(path, gpus=8, lease_s=41 * 60).leases.horizon == 1
    assert convert_chronus(path, gpus=8, lease_s=1).leases.horizon == 41 * 60
    only = trace(tmp_path, "7,u,1,0,9,m,25,5,0,10,1,best")
    assert convert_chronus(only, gpus=8).leases.horizon == 1


def test_what_is_left_of_a_job_is_at_least_a_second(tmp_path: Path) -> None:
    job = chronus_jobs(trace(tmp_path, ROWS[1]))[0]
    assert deadline_of(job, 10**6).work_s == 1


@pytest.mark.nightly
@needs_traces
def test_the_traces_become_rounds() -> None:
    jobs = chronus_jobs(TRACES / "trace_job_Philly_MIX2.csv")
    assert len(jobs) == 30_940 - 194
    assert sum(not job.due for job in jobs) == 3125
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    made = read_chronus(
        TRACES / "sample_MIX2_3days_1of8.csv", gpus=120, locality=TRACES / "model_info.json"
    )
    check_round(made.round)
    assert made.summary == (
        "chronus: 1,199 jobs (all of the trace); 334 with a hard deadline, 746 with soft ones, "
        "119 best effort; 1,197 come later; 4 cannot meet a deadline even alone; "
        "15 hosts, 120 GPUs; 369 leases of 1,200 s"
    )
