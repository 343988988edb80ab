"""Dumps that are not what Slurm writes: a line with file, field, value and what is expected."""

from __future__ import annotations

import itertools
import json
import tracemalloc

import pytest
from slurm_dumps import convert, job, node, running, write_dump

from examples import examples
from placewright.cli.app import main
from placewright.instances.converters import read_slurm
from placewright.instances.converters.slurm import convert as converter
from placewright.instances.converters.slurm import texts as host_lists
from placewright.instances.converters.slurm.records import SlurmJob, SlurmNode
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.errors import InvalidInputError

PENDING = job(1, tres_per_node="gpu:1")


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        ("jobs", {"node_count": "three"}, "jobs[0].node_count: 'three': expected a whole number"),
        ("jobs", {"node_count": {"set": True, "number": -1}}, "jobs[0].node_count: {'set': True"),
        ("jobs", {"job_id": "1"}, "jobs[0].job_id: '1': expected a whole number"),
        ("jobs", {"job_state": 7}, "jobs[0].job_state: 7: expected a text, or a list of texts"),
        ("jobs", {"tres_per_node": ["x"]}, "jobs[0].tres_per_node: ['x']: expected GRES as text"),
        ("jobs", {"tres_req_str": "cpu=x"}, "jobs[0].tres_req_str: 'cpu=x': expected an amount"),
        ("jobs", {"required_nodes": "h[0-"}, "jobs[0].required_nodes: 'h[0-': expected a list of"),
        ("jobs", {"account": "\x1b[2J"}, "jobs[0].account: '\\x1b[2J': expected only letters"),
        ("jobs", {"user_name": "\ud800"}, "jobs[0].user_name: '\\ud800': expected valid Unicode"),
        ("jobs", {"job_resources": []}, "jobs[0].job_resources: []: expected a mapping"),
        (
            "jobs",
            {"job_resources": {"nodes": 17.25}},
            "jobs[0].job_resources: {'nodes': 17.25}: expected a mapping that has 'allocation'",
        ),
        (
            "jobs",
            {"job_resources": {"nodes": {"allocation": [{"name": "h0", "memory": {"x": 1}}]}}},
            "jobs[0].job_resources: {'nodes': {'allocation': [{'name': 'h0', 'memory': {'x': ",
        ),
        (
            "jobs",
            {"job_resources": {"allocated_nodes": [{"nodename": "h0", "sockets": 7}]}},
            "jobs[0]",
        ),
        ("jobs", {"tres_req_str": "cpus"}, "jobs[0].tres_req_str: 'cpus': expected TRES such as"),
        ("jobs", {"gres_detail": ["!"]}, "jobs[0].gres_detail: ['!']: expected GRES such as"),
        ("jobs", {"time_limit": {"x": 5}}, "jobs[0].time_limit: {'x': 5}: expected a number"),
        ("nodes", {"cpus": {"infinite": "x"}}, "nodes[0].cpus: {'infinite': 'x'}: expected a num"),
        ("nodes", {"name": "a b"}, "nodes[0].name: 'a b': expected only letters"),
        ("nodes", {"name": "h[0-3]"}, "nodes[0].name: 'h[0-3]': expected only letters"),
        ("nodes", {"cpus": 1.5}, "nodes[0].cpus: 1.5: expected a whole number"),
        ("nodes", {"gres": "gpu:h100:9x"}, "nodes[0].gres: 'gpu:h100:9x': expected GRES such as"),
    ],
)
def test_a_wrong_value_is_one_line(tmp_path, part, change, said):
    jobs = [{**PENDING, **(change if part == "jobs" else {})}]
    nodes = [{**node("h0"), **(change if part == "nodes" else {})}]
    with pytest.raises(InvalidInputError) as caught:
        convert(tmp_path, jobs, nodes)
    assert str(caught.value).startswith(f"{tmp_path / part}.json: {said}")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SwitchName=a Nodes=h[0\n", "topology.txt:1: 'h[0': expected a list of hosts"),
        ("SwitchName=a Switches=b\n", "topology.txt: a: 'b': unknown switch"),
        ("SwitchName=a Nodes=h0\nSwitchName=a Nodes=h1\n", "topology.txt:2: 'a': given twice"),
        (
            "SwitchName=a Switches=b\nSwitchName=b Switches=a\n",
            "topology.txt: 'a': is below itself",
        ),
        ("ReservationName=r StartTime=soon\n", "topology.txt: reservations[0].StartTime: 'soon'"),
    ],
)
def test_a_wrong_text_is_one_line(tmp_path, text, said):
    with pytest.raises(InvalidInputError) as caught:
        convert(tmp_path, [PENDING], topology=text)
    assert str(caught.value).startswith(f"{tmp_path}/{said}")


GARBAGE = [
    ("partitions", {"maximums": {"time": "x"}}, "partitions[0].maximums.time: 'x'"),
    ("partitions", {"priority": "high"}, "partitions[0].priority.tier: 'high'"),
    ("partitions", {"max_time_limit": -2}, "partitions[0].max_time_limit: -2"),
    ("partitions", {"qos": {"deny": 7}}, "partitions[0].qos.deny: 7"),
    ("qos", {"preempt": {"list": 7}}, "qos[0].preempt.list: 7: expected a text, or a list"),
    ("qos", {"limits": {"max": 7}}, "qos[0].limits.max: 7: expected a mapping"),
    ("qos", {"preempt": {"exempt_time": {"x": 1}}}, "qos[0].preempt.exempt_time: {'x': 1}"),
    ("associations", {"max": {"tres": {"total": 3}}}, "associations[0].max.tres.total: 3"),
    ("associations", {"max": {"jobs": []}}, "associations[0].max.jobs: []: expected a mapping"),
]
TEXTS = [
    (
        "partitions",
        "PartitionName=p MaxTime=soon\n",
        "partitions[0].MaxTime: 'soon': expected a du",
    ),
    ("partitions", "PartitionName=p MaxNodes=x\n", "partitions[0].MaxNodes: 'x': expected a whole"),
    (
        "associations",
        "Cluster|Account|User|GrpTRES\nc|a||cpus\n",
        "2: GrpTRES: 'cpus': expected TRES",
    ),
    (
        "qos",
        "Name|Priority|PreemptExemptTime\nn|1|x\n",
        "2: PreemptExemptTime: 'x': expected a dur",
    ),
    ("shares", " Account|User|FairShare\na|mia|x\n", "2: FairShare: 'x': expected a factor"),
    ("shares", "Account|User|FairShare\na|mia|x\n", "2: FairShare: 'x': expected a factor"),
    (
        "config",
        "Configuration data as of 2026\nSchedulerParameters = bf_max_job_test=x,defer\n",
        "2: SchedulerParameters: 'bf_max_job_test=x,defer': expected a whole number",
    ),
    (
        "config",
        "Configuration data as of 2026\nPreemptExemptTime = x\n",
        "2: PreemptExemptTime: 'x': expected a duration",
    ),
]


@pytest.mark.parametrize(("part", "change", "said"), GARBAGE)
def test_a_wrong_value_in_the_depth_is_no_limit_less_in_silence(tmp_path, part, change, said):
    write_dump(tmp_path, [PENDING], [node("h0")])
    named = {"account": "a"} if part == "associations" else {"name": "p"}
    (tmp_path / f"{part}.json").write_text(json.dumps({part: [named | change]}))
    with pytest.raises(InvalidInputError) as caught:
        read_slurm([tmp_path])
    assert str(caught.value).startswith(f"{tmp_path / part}.json: {said}")


@pytest.mark.parametrize(("part", "text", "said"), TEXTS)
def test_a_wrong_word_in_a_text_is_no_limit_less_in_silence(tmp_path, part, text, said):
    write_dump(tmp_path, [PENDING], [node("h0")], **{part: text})
    with pytest.raises(InvalidInputError) as caught:
        read_slurm([tmp_path])
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / part}.txt")
    assert read_slurm([tmp_path], lenient=True).round.jobs


def test_what_nobody_knows_is_told(tmp_path):
    texts = {
        "config": "Configuration data as of 2026\nPreemptType = preempt/oracle\n",
        "reservations": "ReservationName=r StartTime=1970-01-01T00:00:01 Nodes=gone\n",
    }
    made = convert(
        tmp_path, [PENDING | {"shared": ["friends"]}], [node("h0", state="fuzzy")], **texts
    )
    said = "\n".join(made.book.lines())
    assert "who may preempt whom (PreemptType preempt/oracle)" in said
    assert "nodes of a reservation that the dump does not have: r" in said
    for one, field in ((made.round.jobs[0], "shared"), (made.round.cluster.hosts[0], "state")):
        (caveat,) = [c for c in caveats_of(one.annotations) if c.rule == "unknown-word"]
        assert caveat.text == f"a word in {field} that is not known is not read"


def test_files_that_are_missing_doubled_or_of_no_use(tmp_path, capsys):
    write_dump(tmp_path, [PENDING], [node("h0")])
    out = str(tmp_path / "round.json")
    jobs, nodes = str(tmp_path / "jobs.json"), str(tmp_path / "nodes.json")
    (tmp_path / "more.json").write_text('{"jobs": []}')
    (tmp_path / "sinfo.json").write_text('{"sinfo": []}')
    (tmp_path / "note.txt").write_text("nothing of Slurm")
    (tmp_path / "cut.json").write_text('{"jobs": [{"job_id": 1')
    for names, said in (
        ([jobs], "has no nodes; expected also a file that"),
        ([jobs, nodes, "more.json"], 'has jobs, as "jobs.json" does; expected them once'),
        ([jobs, "sinfo.json"], "sinfo: lists partitions, as sinfo does from 23.02 on"),
        ([jobs, "note.txt"], "expected what one of these prints: squeue --json"),
        ([jobs, "cut.json"], "line 1, column 23"),
        ([jobs, "gone.json"], "cannot be read"),
    ):
        files = [name if name.startswith("/") else str(tmp_path / name) for name in names]
        assert main(["convert", "slurm", *files, "-o", out]) == 3
        line = capsys.readouterr().err
        assert said in line
        assert line.count("\n") == 1


def test_a_folder_may_hold_files_that_say_nothing(tmp_path):
    write_dump(tmp_path, [PENDING], [node("h0")], empty="", log="[2026] started", conf="A=b\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "sinfo.json").write_text('{"sinfo": []}')
    (tmp_path / "other.log").write_text("not looked at")
    (tmp_path / "folder.json").mkdir()
    made = read_slurm([tmp_path])
    assert made.ignored == ("bytes.txt", "conf.txt", "empty.txt", "log.txt", "sinfo.json")
    (tmp_path / "empty.json").write_text("")
    with pytest.raises(InvalidInputError, match=r"empty\.json: empty; expected"):
        read_slurm([tmp_path])


def test_hostile_names_do_not_reach_the_terminal(tmp_path, capsys):
    jobs = [{**PENDING, "state_reason": "QOS\x1b]0;x\x07"}, {**PENDING, "job_id": 2}]
    write_dump(tmp_path, jobs, [node("h0")])
    (tmp_path / "\x1b[2Jx.txt").write_text("nothing")
    assert main(["convert", "slurm", str(tmp_path), "-o", str(tmp_path / "round.json")]) == 0
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "QOS\\x1b]0;x\\x07" in said


def test_null_lists_and_a_record_twice(tmp_path):
    (tmp_path / "jobs.json").write_text('{"jobs": null}')
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": [node("h0"), node("h0")]}))
    made = read_slurm([tmp_path])
    assert made.book.left_out["nodes", "listed twice"] == ["h0"]
    twice = running(1, ("h0", 1, 1, "gpu:1"))
    made = convert(tmp_path, [twice, twice, PENDING])
    assert made.book.left_out["jobs", "listed twice"] == ["1", "1"]


def test_lists_that_name_too_many_hosts_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(host_lists, "MAX_NAMES", 1000)
    jobs = [job(i, excluded_nodes=f"h[0-{100 + i}]") for i in range(20)]
    with pytest.raises(
        InvalidInputError, match=r"jobs\[9\]\.excluded_nodes: .* 1,000 hosts in all"
    ):
        convert(tmp_path, jobs)
    same = [job(i, excluded_nodes="h[0-100]", tres_per_node="gpu:1") for i in range(20)]
    assert convert(tmp_path, same).book.total("jobs") == 20


def test_arrays_beyond_a_limit_of_all_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(converter, "MAX_ALL", 20)
    jobs = [job(i, array_task_string="0-9", tres_per_node="gpu:1") for i in range(1, 5)]
    made = convert(tmp_path, jobs)
    assert len(made.round.jobs) == 20
    assert sum(map(len, made.book.left_out.values())) == 2


ODD = (
    None,
    -1,
    10**30,
    1.5,
    "x y",
    r"CORP\alice",
    "\ud800",
    [[]],
    ["a b", 7],
    {"number": "x"},
    "h[0-",
)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("kind", [SlurmJob, SlurmNode])
def test_where_a_cluster_is_followed_one_odd_entry_takes_no_other_with_it(tmp_path, kind):
    """Each field of a job that waits and of one that runs, or of a node, is each odd value."""
    is_job = kind is SlurmJob
    every = list(itertools.product(kind.model_fields, ODD))
    for field, value in every[:: examples(day=4, nightly=1)]:
        jobs = [job(1, tres_per_node="gpu:1"), running(2, ("h1", 1, 1, "gpu:2"))]
        good = [job(3, tres_per_node="gpu:2"), running(4, ("h0", 1, 1, "gpu:2"))]
        nodes = [node("h0"), {**node("h1"), **({} if is_job else {field: value})}]
        if is_job:
            jobs = [{**one, field: value} for one in jobs]
        write_dump(tmp_path, [*jobs, *good], nodes)
        names = {one.name for one in read_slurm([tmp_path], lenient=True).round.jobs}
        assert names >= {"3", "4"}, (field, value)


def test_nodes_of_a_job_that_cannot_be_read_take_nobody_else(tmp_path):
    odd = {**running(2, ("h1", 1, 1, "gpu:2")), "time_limit": "soon"}
    write_dump(tmp_path, [odd, PENDING], [node("h0"), node("h1"), node("-h"), {"name": "a b"}])
    made = read_slurm([tmp_path], lenient=True)
    assert [one.host for one in made.round.reservations] == ["h1"]
    assert [host.name for host in made.round.cluster.hosts] == ["h0", "h1"]
    left = {why.partition(": expected")[0]: names for (_, why), names in made.book.left_out.items()}
    assert left["cannot be read: time_limit"] == ["2"]
    assert left["a name that Slurm's commands cannot have"] == ["-h"]
    assert made.book.total("nodes") == 4


def test_parts_beside_jobs_and_nodes_lose_their_odd_entries_alone(tmp_path):
    texts = {
        "reservations": "ReservationName=r StartTime=soon\nReservationName=s Nodes=h0\n",
        "licences": "LicenseName=a\n  Total=x Used=0\nLicenseName=b\n  Total=2 Used=0\n",
        "associations": "Cluster|Account|GrpTRES|GrpJobs\nc|a||x\nc|lab|gres/gpu=4|\n",
        "topology": "SwitchName=a Nodes=h[0\n",
    }
    jobs = [{**PENDING, "account": "lab", "licenses": "b"}]
    write_dump(tmp_path, jobs, [node("h0"), node("h1")], **texts)
    with pytest.raises(InvalidInputError):
        read_slurm([tmp_path])
    made = read_slurm([tmp_path], lenient=True)
    assert [one.host for one in made.round.reservations] == ["h0"]
    assert [pool.resource for pool in made.round.cluster.pools] == ["license/b"]
    assert made.round.tenants[0].quota
    assert sorted(kind for kind, _ in made.book.left_out) == [
        "associations",
        "licenses",
        "reservations",
    ]
    assert any("topology, which cannot be read" in what for what in made.book.unsaid)


def test_a_dump_of_which_hardly_anything_can_be_read_is_none(tmp_path):
    write_dump(tmp_path, [{}] * 1100, [node("h0")])
    with pytest.raises(InvalidInputError, match=r"jobs\[1000\]"):
        read_slurm([tmp_path], lenient=True)


def test_a_dump_is_refused_at_its_first_wrong_record(tmp_path):
    """Before, an error was kept for each of them: 1.6 kB for three bytes of the file."""
    (tmp_path / "jobs.json").write_text('{"jobs": [' + "{}," * 100_000 + "{}]}")
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": [node("h0")]}))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError, match=r"jobs\[0\]\.job_id: missing"):
            read_slurm([tmp_path])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40e6
