"""The Muri converter: what becomes of a trace, which jobs it takes, on what, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.converters import convert_muri, read_muri
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
HEADER += "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
ROWS = [
    "0,1,0,5853661,dqn,128,60000,46122000,490,446,8,0,1",
    "1,8,1000,8787693,bert,4,9000,201694000,192,0.5,167,59.125,0",
    "2,32,20000,20901556,vgg16,16,5000,197456000,336,87,67,131,0",
    "3,12,30000,20901556,vgg16,16,5000,197456000,332,83,68,110,0",
]
NODES = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"
TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces" / "muri"
needs_trace = pytest.mark.skipif(not TRACES.is_dir(), reason="needs the traces of Muri")


def trace(folder: Path, rows: list[str] | None = None, header: str = HEADER) -> Path:
    path = folder / "trace.csv"
    path.write_text(header + "".join(f"{row}\r\n" for row in ROWS if rows is None))
    if rows is not None:
        path.write_text(header + "".join(f"{row}\n" for row in rows))
    return path


def cluster(folder: Path, *rows: str) -> Path:
    path = folder / "nodes.csv"
    path.write_text(NODES + "".join(f"{row}\n" for row in rows))
    return path


def tasks_of(round_: Round) -> dict[str, tuple[int, int]]:
    groups = {job.name: job.options[0].groups[0] for job in round_.jobs}
    return {name: (group.count, group.gpu) for name, group in groups.items()}


def hosts_of(round_: Round) -> list[tuple[str, int | None, str | None]]:
    return [(host.name, host.gpus, host.parent) for host in round_.cluster.hosts]


def test_milliseconds_become_microseconds_exactly(tmp_path: Path) -> None:
    made = convert_muri(trace(tmp_path))
    profiles = {job.name: job.profile for job in made.jobs}
    assert {name: (p.stages, p.iteration) for name, p in profiles.items() if p} == {
        "dqn-0": ((446_000, 8_000, 0), 490_000),
        "bert-1": ((500, 167_000, 59_125), 192_000),
        "vgg16-2": ((87_000, 67_000, 131_000), 336_000),
        "vgg16-3": ((83_000, 68_000, 110_000), 332_000),
    }


def test_groups_take_turns_as_the_authors_simulator_has_it(tmp_path: Path) -> None:
    made = convert_muri(trace(tmp_path))
    check_round(made)
    assert made.policy.formulation == "interleaving"
    assert made.sharing is not None
    assert made.sharing.resources == ("io+cpu", "gpu", "network")
    assert made.sharing.spanning
    for factor, published in zip(made.sharing.contention, (1.33, 1.5, 1.37), strict=True):
        assert factor / 10**6 == pytest.approx(published / 1.015, abs=1e-6)


def test_tasks_are_as_large_as_hosts_allow_and_of_equal_size(tmp_path: Path) -> None:
    assert tasks_of(convert_muri(trace(tmp_path), gpus=16)) == {
        "dqn-0": (1, 1000),
        "bert-1": (1, 8000),
        "vgg16-2": (4, 8000),
        "vgg16-3": (2, 6000),
    }
    nodes = cluster(tmp_path, "1,2,16,92,520")
    assert tasks_of(convert_muri(trace(tmp_path), nodes))["vgg16-2"] == (2, 16_000)
    small = tasks_of(convert_muri(trace(tmp_path), gpus=5))
    assert small["bert-1"] == (2, 4000)


def test_a_node_list_gives_racks_with_cores_and_memory(tmp_path: Path) -> None:
    made = convert_muri(trace(tmp_path), cluster(tmp_path, "2,4,8,92,520", "1,1,4,64,256"))
    assert made.cluster.levels == ("rack",)
    assert hosts_of(made) == [
        ("rack-0-node-[0-3]", 8, "rack-0"),
        ("rack-1-node-[0-3]", 8, "rack-1"),
        ("rack-2-node-0", 4, "rack-2"),
    ]
    assert [(h.cpu, h.memory) for h in made.cluster.hosts][1:] == [
        (92_000, 520 * 1024),
        (64_000, 256 * 1024),
    ]
    check_round(made)


def test_without_a_node_list_there_is_a_gpu_for_four_that_are_asked(tmp_path: Path) -> None:
    made = read_muri(trace(tmp_path, ROWS[:3]))
    assert hosts_of(made.round) == [("node-0", 8, None), ("node-1", 3, None)]
    assert made.summary == (
        "muri: 3 jobs (all of the trace), all waiting, ask 41 GPUs; 2 hosts, 11 GPUs; load 3.727; "
        "the trace records neither CPU, memory nor hosts of jobs"
    )
    assert hosts_of(convert_muri(trace(tmp_path), gpus=16)) == [("node-[0-1]", 8, None)]
    assert hosts_of(convert_muri(trace(tmp_path), gpus=3)) == [("node-0", 3, None)]


def test_jobs_alive_at_a_second_are_those_submitted_and_not_yet_done(tmp_path: Path) -> None:
    def at(second: int) -> list[str]:
        made = convert_muri(trace(tmp_path), at=second)
        assert made.now == second
        return [job.name for job in made.jobs]

    assert at(0) == ["dqn-0"]
    assert at(1) == ["dqn-0", "bert-1"]
    assert at(10) == ["dqn-0"]
    assert at(24) == ["dqn-0", "vgg16-2"]
    with pytest.raises(InvalidInputError, match="some job is alive") as caught:
        at(60)
    assert caught.value.path == ("at",)


def test_the_first_jobs_or_drawn_ones_are_taken_in_file_order(tmp_path: Path) -> None:
    path = trace(tmp_path)
    assert [job.name for job in convert_muri(path, first=2).jobs] == ["dqn-0", "bert-1"]
    drawn = [[job.name for job in convert_muri(path, jobs=2, seed=s).jobs] for s in range(9)]
    assert drawn == [
        [job.name for job in convert_muri(path, jobs=2, seed=s).jobs] for s in range(9)
    ]
    assert len({tuple(names) for names in drawn}) > 2
    order = [job.name for job in convert_muri(path).jobs]
    assert all(sorted(names, key=order.index) == names for names in drawn)
    assert all(len(set(names)) == 2 for names in drawn)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"at": 1, "first": 2}, "first: 2: expected at or first, not both"),
        ({"first": 1, "jobs": 2}, "jobs: 2: expected first or jobs, not both"),
        ({"first": 5}, "first: 5: expected 1 to 4, the jobs of"),
        ({"jobs": 0}, "jobs: 0: expected 1 to 4"),
        ({"at": -1}, "at: -1: expected 0 to"),
        ({"gpus": 0}, "gpus: 0: expected 1 to 1000000"),
        ({"seed": -1}, "seed: -1: expected 0 or more"),
    ],
)
def test_a_wrong_argument_is_named(
    tmp_path: Path, arguments: dict[str, int], expected: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_muri(trace(tmp_path), **arguments)
    assert str(caught.value).startswith(expected)


def test_a_node_list_and_a_number_of_gpus_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nodes or gpus, not both"):
        read_muri(trace(tmp_path), cluster(tmp_path, "1,1,8,1,1"), gpus=8)


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("num_gpu", "0", "expected at least one GPU"),
        ("num_gpu", "1.5", "expected an integer from 0 to 1000000"),
        ("job_id", "1", "expected each name once; line 3 has it"),
        ("model_name", "vgg 16", "expected a name of letters"),
        ("resource_time_0", "-1", "expected a number from 0 to 1000000 with at most 3 decimals"),
        ("resource_time_1", "nan", "expected a number from 0 to 1000000"),
        ("resource_time_1", "1e3", "expected a number from 0 to 1000000"),
        ("resource_time_2", "0.0005", "with at most 3 decimals"),
        ("resource_time_2", "1000000.001", "expected a number from 0 to 1000000"),
        ("iteration_time", "0", "expected above 0 and at most 2850"),
        ("iteration_time", "2850.001", "expected above 0 and at most 2850"),
        ("iteration_time", "", "expected a number from 0 to 10000000"),
    ],
)
def test_a_wrong_cell_is_named_by_file_line_and_column(
    tmp_path: Path, column: str, cell: str, expected: str
) -> None:
    fields = ROWS[2].split(",")
    fields[HEADER.strip().split(",").index(column)] = cell
    path = trace(tmp_path, [ROWS[0], ROWS[1], ",".join(fields)])
    with pytest.raises(InvalidInputError) as caught:
        read_muri(path)
    assert str(caught.value).startswith(f"{path}: line 4, column {column}: {cell!r}: ")
    assert expected in str(caught.value)


def test_stages_that_are_all_zero_are_refused(tmp_path: Path) -> None:
    path = trace(tmp_path, [ROWS[0], "1,8,0,1,bert,4,1,1,192,0,0,0,0"])
    with pytest.raises(InvalidInputError, match=r"line 3, column resource_time_0: '0': expected a"):
        read_muri(path)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("0,8,8,92,520", "num_switch"),
        ("1,0,8,92,520", "num_node_p_switch"),
        ("1,8,0,92,520", "num_gpu_p_node"),
        ("1,8,2000,92,520", "num_gpu_p_node"),
        ("1,8,8,-2,520", "num_cpu_p_node"),
        ("99999999,8,8,92,520", "num_switch"),
    ],
)
def test_a_wrong_node_is_named_by_line_and_column(tmp_path: Path, row: str, column: str) -> None:
    with pytest.raises(InvalidInputError, match=f"line 3, column {column}: "):
        read_muri(trace(tmp_path), cluster(tmp_path, "1,8,8,92,520", row))


def test_missing_columns_and_empty_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="expected at least one job"):
        read_muri(trace(tmp_path, []))
    with pytest.raises(InvalidInputError, match="expected at least one node"):
        read_muri(trace(tmp_path), cluster(tmp_path))
    with pytest.raises(InvalidInputError, match="expected a column resource_time_2"):
        read_muri(trace(tmp_path, [], HEADER.replace("time_2", "time_3") + ROWS[0] + "\n"))
    with pytest.raises(InvalidInputError, match="expected a column submit_time"):
        read_muri(trace(tmp_path, [], HEADER.replace("submit", "sub") + ROWS[0] + "\n"), at=0)


@needs_trace
def test_the_published_traces_become_rounds() -> None:
    for name, jobs, gpus in (("trace1", 1494, 7398), ("trace3", 992, 9346)):
        made = read_muri(TRACES / f"{name}.csv", TRACES / "n8g8.csv")
        check_round(made.round)
        assert len(made.round.jobs) == jobs
        assert sum(job.options[0].milli_gpu for job in made.round.jobs) == 1000 * gpus
        assert hosts_of(made.round) == [("rack-0-node-[0-7]", 8, "rack-0")]
