"""The openb converter: what it takes and leaves out, where running pods go, what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placewright.instances.checks.round import check_round
from placewright.instances.converters import convert_openb, read_openb
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,P100
n1,96000,393216,4,G2
n2,96000,393216,4,G2
n3,32000,262144,0,
"""
PODS_HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
PODS_HEADER += "creation_time,deletion_time,scheduled_time\n"
PODS = (
    PODS_HEADER
    + """\
share,1000,1024,1,460,,LS,Running,0,100,10
whole,1000,1024,1,1000,P100,LS,Running,10,50,20
pair,1000,1024,2,1000,G2|G2|A10,BE,Pending,20,200,
cpu-only,1000,1024,0,0,,LS,Running,0,100,0
nowhere,1000,1024,1,1000,A10|T4,LS,Running,0,100,0
"""
)
TRACE = Path(__file__).parents[3] / "shared" / "data" / "traces" / "openb"
needs_trace = pytest.mark.skipif(not TRACE.is_dir(), reason="needs the openb trace")


def write(folder: Path, nodes: str = NODES, pods: str = PODS) -> tuple[Path, Path]:
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    (folder / "pods.csv").write_text(pods, encoding="utf-8")
    return folder / "nodes.csv", folder / "pods.csv"


def by_name(round_: Round) -> dict[str, Job]:
    return {job.name: job for job in round_.jobs}


def place_of(job: Job) -> tuple[str, tuple[int, ...]] | None:
    if job.running is None:
        return None
    (task,) = job.running.tasks
    return task.host, task.gpus


def pods_of(*rows: str) -> str:
    """A pod list of (cpu, memory, gpus, milli) rows named p0, p1 and so on."""
    lines = (f"p{i},{row}\n" for i, row in enumerate(rows))
    return "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(lines)


def test_nodes_become_hosts_without_levels(tmp_path: Path) -> None:
    cluster = convert_openb(*write(tmp_path)).cluster
    assert cluster.levels == ()
    assert [(h.name, h.gpus, h.gpu_model, h.cpu, h.memory) for h in cluster.hosts] == [
        ("n0", 2, "P100", 64_000, 262_144),
        ("n1", 4, "G2", 96_000, 393_216),
        ("n2", 4, "G2", 96_000, 393_216),
    ]


def test_pods_become_pending_jobs_of_one_task(tmp_path: Path) -> None:
    jobs = by_name(convert_openb(*write(tmp_path)))
    assert list(jobs) == ["share", "whole", "pair"]
    groups = {name: job.options[0].groups[0] for name, job in jobs.items()}
    assert {name: group.gpu for name, group in groups.items()} == {
        "share": 460,
        "whole": 1000,
        "pair": 2000,
    }
    assert {(group.count, group.cpu, group.memory) for group in groups.values()} == {
        (1, 1000, 1024)
    }
    assert {job.weight for job in jobs.values()} == {1}
    assert all(job.running is None for job in jobs.values())


def test_allowed_models_are_deduplicated_and_those_of_no_node_dropped(tmp_path: Path) -> None:
    jobs = by_name(convert_openb(*write(tmp_path)))
    assert jobs["share"].options[0].groups[0].gpu_models is None
    assert jobs["pair"].options[0].groups[0].gpu_models == ("G2",)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    summary = read_openb(*write(tmp_path)).summary
    assert summary == (
        "openb: 3 GPU pods (3 pending, 0 running) on 3 hosts, 10 GPUs; load 0.346; left out: "
        "1 CPU-only pods, 1 nodes without GPUs, 1 pods that name no GPU model of the cluster"
    )


def test_missing_columns_mean_no_constraint(tmp_path: Path) -> None:
    pods = "name,cpu_milli,memory_mib,num_gpu\na,1000,1024,1\nb,1000,1024,2\n"
    jobs = convert_openb(*write(tmp_path, pods=pods)).jobs
    groups = [job.options[0].groups[0] for job in jobs]
    assert [(group.gpu, group.gpu_models) for group in groups] == [(1000, None), (2000, None)]


def test_gpu_milli_of_a_pod_with_several_gpus_is_not_read(tmp_path: Path) -> None:
    pods = pods_of("1000,1024,2,500", "1000,1024,2,0")
    jobs = convert_openb(*write(tmp_path, pods=pods)).jobs
    assert [job.options[0].groups[0].gpu for job in jobs] == [2000, 2000]


def test_best_fit_takes_the_host_with_the_least_gpu_left(tmp_path: Path) -> None:
    pods = pods_of("1000,1024,1,1000", "1000,1024,2,1000", "1000,1024,1,1000", "1000,1024,2,1000")
    jobs = by_name(convert_openb(*write(tmp_path, pods=pods), running=1.0))
    assert [place_of(jobs[f"p{i}"]) for i in range(4)] == [
        ("n0", (0,)),
        ("n1", (0, 1)),
        ("n0", (1,)),
        ("n1", (2, 3)),
    ]


def test_hosts_that_tie_in_gpus_go_by_the_least_cpu_left_then_by_file_order(tmp_path: Path) -> None:
    nodes = NODES.replace("n2,96000", "n2,48000")
    pods = pods_of("1000,1024,4,1000")
    (job,) = convert_openb(*write(tmp_path, nodes=nodes, pods=pods), running=1.0).jobs
    assert place_of(job) == ("n2", (0, 1, 2, 3))
    (job,) = convert_openb(*write(tmp_path, pods=pods), running=1.0).jobs
    assert place_of(job) == ("n1", (0, 1, 2, 3))


def test_a_share_goes_to_the_fitting_gpu_with_the_least_left(tmp_path: Path) -> None:
    pods = pods_of("0,0,1,500", "0,0,1,700", "0,0,1,300", "0,0,1,500", "0,0,1,100")
    jobs = by_name(convert_openb(*write(tmp_path, pods=pods), running=1.0))
    assert [place_of(jobs[f"p{i}"]) for i in range(5)] == [
        ("n0", (0,)),
        ("n0", (1,)),
        ("n0", (1,)),
        ("n0", (0,)),
        ("n1", (0,)),
    ]


def test_whole_gpus_do_not_go_where_shares_are(tmp_path: Path) -> None:
    pods = pods_of("0,0,1,100", "0,0,2,1000")
    jobs = by_name(convert_openb(*write(tmp_path, pods=pods), running=1.0))
    assert place_of(jobs["p1"]) == ("n1", (0, 1))


@pytest.mark.parametrize(
    ("nodes", "pod"),
    [
        (NODES, "1000,1024,8,1000"),
        (NODES, "97000,1024,1,1000"),
        (NODES, "1000,393217,1,1000"),
    ],
)
def test_a_pod_that_fits_nowhere_stays_pending_and_is_counted(
    tmp_path: Path, nodes: str, pod: str
) -> None:
    converted = read_openb(*write(tmp_path, nodes=nodes, pods=pods_of(pod)), running=1.0)
    assert place_of(converted.round.jobs[0]) is None
    assert converted.summary.endswith(
        "; the trace records no host: running pods are placed by best fit in file order, "
        "1 more fit nowhere and wait"
    )


@pytest.mark.parametrize(("share", "running"), [(0.0, 0), (0.24, 0), (0.25, 1), (0.7, 2), (1.0, 4)])
def test_the_first_pods_up_to_the_asked_share_of_the_demand_run(
    tmp_path: Path, share: float, running: int
) -> None:
    pods = pods_of(*["1000,1024,1,1000"] * 4)
    jobs = convert_openb(*write(tmp_path, pods=pods), running=share).jobs
    assert [job.running is not None for job in jobs] == [i < running for i in range(4)]


@pytest.mark.parametrize(
    ("at", "running", "waiting"),
    [
        (0, set(), {"share"}),
        (15, {"share"}, {"whole"}),
        (20, {"share", "whole"}, {"pair"}),
        (50, {"share"}, {"pair"}),
        (100, set(), {"pair"}),
        (200, set(), set()),
    ],
)
def test_at_an_instant_the_scheduled_pods_run_and_the_other_living_ones_wait(
    tmp_path: Path, at: int, running: set[str], waiting: set[str]
) -> None:
    round_ = convert_openb(*write(tmp_path), at=at)
    assert round_.now == at
    assert {job.name for job in round_.jobs if job.running} == running
    assert {job.name for job in round_.jobs if not job.running} == waiting


def test_a_pod_without_deletion_time_lives_on(tmp_path: Path) -> None:
    pods = PODS_HEADER + "a,1000,1024,1,1000,,LS,Running,5,,7\n"
    assert len(convert_openb(*write(tmp_path, pods=pods), at=10**9).jobs) == 1


def test_the_seed_only_orders_hosts_that_tie(tmp_path: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\n"
    nodes += "".join(f"n{i},64000,262144,2,P100\n" for i in range(20))
    files = write(tmp_path, nodes=nodes, pods=pods_of("1000,1024,2,1000"))
    hosts = [place_of(convert_openb(*files, running=1.0, seed=s).jobs[0]) for s in (0, 1, 1, 2, 3)]
    assert hosts[0] == ("n0", (0, 1))
    assert hosts[1] == hosts[2]
    assert len(set(hosts)) > 1


@settings(max_examples=30)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 60_000),
            st.integers(0, 300_000),
            st.sampled_from([0, 1, 1, 1, 2, 4]),
            st.integers(1, 1000),
        ),
        max_size=25,
    ),
    share=st.floats(0, 1),
    seed=st.integers(0, 5),
)
def test_what_runs_never_exceeds_its_host(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, int, int]],
    share: float,
    seed: int,
) -> None:
    pods = pods_of(*(",".join(map(str, row)) for row in rows))
    files = write(tmp_path_factory.mktemp("openb"), pods=pods)
    check_round(convert_openb(*files, running=share, seed=seed))


# What is replaced in which file, and how the message begins after the file's name.
BAD_CELLS = [
    (
        "nodes",
        "sn,",
        "name,",
        "line 1: 'name,cpu_milli,memory_mib,gpu,model': expected a column sn",
    ),
    ("nodes", "n1,96000", "n1,-5", "line 3, column cpu_milli: '-5': expected an integer from 0"),
    ("nodes", "n1,96000", "n1,", "line 3, column cpu_milli: '': expected an integer from 0"),
    ("nodes", "n1,96000", "n1,NaN", "line 3, column cpu_milli: 'NaN': expected an integer"),
    ("nodes", "n1,96000", "n1,inf", "line 3, column cpu_milli: 'inf': expected an integer"),
    ("nodes", "n1,96000", "n1,9.5", "line 3, column cpu_milli: '9.5': expected an integer"),
    ("nodes", "n1,96000", "n1,1e3", "line 3, column cpu_milli: '1e3': expected an integer"),
    ("nodes", "n1,96000", "n1,٣", "line 3, column cpu_milli: '٣': expected an integer"),
    ("nodes", "n1,96000", f"n1,{10**13}", "line 3, column cpu_milli: '10000000000000': expected"),
    ("nodes", "n1,96000", f"n1,{'9' * 5000}", "line 3, column cpu_milli: '9999"),
    (
        "nodes",
        ",4,G2",
        ",1025,G2",
        "line 3, column gpu: '1025': expected an integer from 0 to 1024",
    ),
    ("nodes", ",4,G2", ",4,", "line 3, column model: '': expected a name of letters"),
    ("nodes", "n1,", "n[0-9],", "line 3, column sn: 'n[0-9]': expected a name of letters"),
    ("nodes", "n2,", "n1,", "line 4, column sn: 'n1': expected each name once; line 3 has it"),
    ("nodes", "gpu,model", "gpu,gpu", "line 1: 'sn,cpu_milli,memory_mib,gpu,gpu': expected each"),
    ("nodes", ",4,G2", ",4,G2,9", "line 3: 6 fields; expected 5 as in the header"),
    ("nodes", "n1,96000", '"n1,96000', "line 5: unexpected end of data; expected CSV"),
    ("pods", "num_gpu", "gpus", "line 1: 'name,cpu_milli,memory_mib,gpus,"),
    ("pods", "1024,1,460", "1024,1,1500", "line 2, column gpu_milli: '1500': expected an integer"),
    ("pods", "1024,1,460", "1024,1,0", "line 2, column gpu_milli: '0': expected 1 to 1000 for"),
    ("pods", "1024,1,460", "1024,-1,460", "line 2, column num_gpu: '-1': expected an integer"),
    ("pods", "1024,1,460", f"1024,{10**7},460", "line 2, column num_gpu: '10000000': expected"),
    ("pods", "whole,", "share,", "line 3, column name: 'share': expected each name once; line 2"),
    ("pods", "whole,", ",", "line 3, column name: '': expected a name of letters"),
    ("pods", ",0,100,10", ",x,100,10", "line 2, column creation_time: 'x': expected an integer"),
    ("pods", "creation_time,", "created,", "line 1: 'name,cpu_milli,"),
]


@pytest.mark.parametrize(("file", "old", "new", "message"), BAD_CELLS)
def test_a_bad_cell_is_one_clear_error(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    texts = {"nodes": NODES, "pods": PODS}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new, 1)
    files = write(tmp_path, **texts)
    with pytest.raises(InvalidInputError) as error:
        convert_openb(*files, at=20)
    assert str(error.value).startswith(f"{tmp_path / file}.csv: {message}")
    assert "\n" not in str(error.value)


def test_a_node_list_without_gpus_is_refused(tmp_path: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nn3,32000,262144,0,\n"
    with pytest.raises(InvalidInputError, match="expected at least one node with a GPU"):
        convert_openb(*write(tmp_path, nodes=nodes))


def test_a_pod_list_of_its_header_alone_gives_a_round_without_jobs(tmp_path: Path) -> None:
    assert convert_openb(*write(tmp_path, pods=PODS_HEADER), running=0.5).jobs == ()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty; expected CSV"),
        (b"\n \n", "empty; expected CSV"),
        ("sn,größe\n".encode("latin-1"), "expected UTF-8 text"),
        (b"\x00" * 100, "expected"),
        (b"junk\n" * 10_000, "expected a column sn"),
        (b'"' + b"x" * 200_000, "line 1: field larger than field limit"),
    ],
)
def test_junk_is_one_clear_error(tmp_path: Path, content: bytes, expected: str) -> None:
    nodes, pods = write(tmp_path)
    nodes.write_bytes(content)
    with pytest.raises(InvalidInputError) as error:
        convert_openb(nodes, pods)
    assert str(error.value).startswith(str(nodes))
    assert expected in str(error.value)


def test_a_file_that_is_missing_a_directory_or_a_pipe_is_refused(tmp_path: Path) -> None:
    nodes, pods = write(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for bad, expected in (
        (tmp_path / "missing.csv", "No such file or directory"),
        (tmp_path, "s a directory"),
        (tmp_path / "pipe", "is a device, pipe or socket"),
        (Path("nul\0.csv"), "null byte"),
    ):
        for files in ((bad, pods), (nodes, bad)):
            with pytest.raises(InvalidInputError) as error:
                convert_openb(*files)
            assert expected in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"running": 0.5, "at": 3}, "at: 3: expected running or at, not both"),
        ({"running": 1.5}, "running: 1.5: expected a share from 0 to 1"),
        ({"running": float("nan")}, "running: nan: expected a share from 0 to 1"),
        ({"at": -1}, "at: -1: expected 0 to"),
        ({"seed": -1}, "seed: -1: expected 0 or more"),
    ],
)
def test_an_argument_out_of_range_is_refused(
    tmp_path: Path, arguments: dict[str, float], message: str
) -> None:
    with pytest.raises(InvalidInputError) as error:
        convert_openb(*write(tmp_path), **arguments)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


@pytest.mark.nightly(after=1)
@needs_trace
@pytest.mark.parametrize(
    ("pods", "jobs"), [("default", 7064), ("gpuspec10", 7064), ("multigpu20", 7236)]
)
def test_the_whole_trace_converts(pods: str, jobs: int) -> None:
    converted = read_openb(
        TRACE / "openb_node_list_gpu_node.csv", TRACE / f"openb_pod_list_{pods}.csv"
    )
    round_ = converted.round
    check_round(round_)
    assert len(round_.cluster.hosts) == 1213
    assert sum(host.gpus or 0 for host in round_.cluster.hosts) == 6212
    assert len({host.gpu_model for host in round_.cluster.hosts}) == 7
    assert len(round_.jobs) == jobs
    assert "1,088 CPU-only pods" in converted.summary


@pytest.mark.nightly
@needs_trace
def test_a_running_share_of_the_trace_is_valid() -> None:
    round_ = convert_openb(
        TRACE / "openb_node_list_gpu_node.csv",
        TRACE / "openb_pod_list_gpuspec10.csv",
        running=0.7,
    )
    check_round(round_)
    demand = [job.options[0].milli_gpu for job in round_.jobs]
    running = [d for job, d in zip(round_.jobs, demand, strict=True) if job.running is not None]
    assert sum(running) <= 0.7 * sum(demand)


@needs_trace
def test_at_most_49_pods_of_the_trace_are_alive_at_an_instant() -> None:
    files = TRACE / "openb_node_list_gpu_node.csv", TRACE / "openb_pod_list_default.csv"
    for at in (9_500_000, 11_000_000, 12_500_000):
        round_ = convert_openb(*files, at=at)
        check_round(round_)
        assert 0 < len(round_.jobs) <= 49
