"""`placewright generate`, `convert` and `schema`."""

from __future__ import annotations

import json

import pytest

from placewright.instances.generators.gang import generate_round
from placewright.instances.io.files import load_cluster, load_round

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,V100M16\nn1,64000,262144,8,G2\n"
MURI = """\
job_id,num_gpu,submit_time,duration,model_name,iteration_time,resource_time_0,resource_time_1,resource_time_2
0,1,0,5000,dqn,490,446,8,0
1,8,1000,5000,bert,192,0.5,167,59
"""
MURI_NODES = """\
num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node
1,8,8,92,520
"""
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "p0,4000,16384,1,500,,LS,Running,0,100,1\n"
    "p1,8000,32768,2,1000,V100M16|G2,LS,Running,10,50,12\n"
    "p2,1000,1024,0,0,,LS,Running,10,50,12\n"
)


def test_a_generated_round_goes_to_stdout_and_a_note_to_stderr(run):
    result = run("generate", "round", "--gpus", "64", "--jobs", "10", "--seed", "3")
    assert result.code == 0
    assert json.loads(result.out)["kind"] == "Round"
    assert result.err.startswith("made round easy-64-10-3: 64 GPUs (64 A100) on 8 hosts")
    assert ", load " in result.said
    assert result.err.count("\n") == 1


def test_a_generated_round_is_that_of_the_library(run, tmp_path):
    path = tmp_path / "round.yaml"
    result = run(
        *("generate", "round", "--gpus", "128", "--jobs", "9"),
        *("--mix", "tight", "--seed", "4", "-o", path),
    )
    assert result.code == 0
    assert not result.out
    assert load_round(path) == generate_round(128, 9, mix="tight", seed=4)


def test_a_generated_cluster_can_be_read(run, tmp_path):
    path = tmp_path / "cluster.json"
    result = run("generate", "cluster", "--gpus", "1024", "-o", path)
    assert result.code == 0
    models = _models(path)
    assert result.err == (
        f"made cluster generated-1024: 1,024 GPUs ({models}) on 128 hosts; wrote {path}\n"
    )


def _models(path) -> str:
    models = {entry.gpu_model for entry in load_cluster(path).hosts}
    return "1,024 A100" if models == {"A100"} else "640 A100, 384 V100"


@pytest.mark.parametrize("gpus", ["0", "-8", "13", "99999999999"])
def test_a_wrong_size_is_a_usage_error_that_names_the_option(run, gpus, tmp_path):
    path = tmp_path / "round.json"
    result = run("generate", "round", "--gpus", gpus, "--jobs", "1", "-o", path)
    assert result.code == 2
    assert "--gpus" in result.said
    assert not path.exists()


def test_a_trace_becomes_a_round(run, tmp_path):
    nodes, pods, path = (tmp_path / name for name in ("nodes.csv", "pods.csv", "round.json"))
    nodes.write_text(NODES)
    pods.write_text(PODS)
    for how in ([], ["--all-pending"], ["--at", "20"], ["--running", "0.5", "--seed", "1"]):
        result = run("convert", "openb", nodes, pods, *how, "-o", path)
        assert result.code == 0
        assert not result.out
        assert result.err.count("\n") == 1
        assert len(load_round(path).jobs) == 2


def test_ways_to_read_a_trace_exclude_one_another(run, tmp_path):
    result = run(
        *("convert", "openb", "n.csv", "p.csv", "--all-pending", "--at", "3"),
        *("-o", tmp_path / "round.json"),
    )
    assert result.code == 2
    assert "exclude" in result.said


def test_a_bad_trace_exits_3_and_writes_nothing(run, tmp_path):
    nodes, path = tmp_path / "nodes.csv", tmp_path / "round.json"
    nodes.write_text("sn\nn0\n")
    for pods in (nodes, tmp_path / "missing.csv"):
        result = run("convert", "openb", nodes, pods, "-o", path)
        assert result.code == 3
        assert result.err.count("\n") == 1
        assert not path.exists()


def test_a_trace_of_muri_becomes_a_round(run, tmp_path):
    trace, nodes, path = (tmp_path / name for name in ("trace.csv", "nodes.csv", "round.json"))
    trace.write_text(MURI)
    nodes.write_text(MURI_NODES)
    ways = ([], [nodes], ["--gpus", "8"], ["--at", "2"], ["--first", "2"])
    for how in (*ways, ["--jobs", "2", "--seed", "7"]):
        result = run("convert", "muri", trace, *how, "-o", path)
        assert result.code == 0
        assert not result.out
        assert result.err.count("\n") == 1
        assert len(load_round(path).jobs) == 2


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--at", "9"), "--at"),
        (("--first", "3"), "--first"),
        (("--jobs", "1", "--first", "1"), "--jobs"),
        (("--gpus", "0"), "--gpus"),
    ],
)
def test_a_wrong_choice_of_jobs_is_a_usage_error_that_names_the_option(
    run, arguments, option, tmp_path
):
    trace, path = tmp_path / "trace.csv", tmp_path / "round.json"
    trace.write_text(MURI)
    result = run("convert", "muri", trace, *arguments, "-o", path)
    assert result.code == 2
    assert f"placewright: {option}: " in result.said
    assert not path.exists()


def test_a_bad_trace_of_muri_exits_3_with_its_line(run, tmp_path):
    trace, path = tmp_path / "trace.csv", tmp_path / "round.json"
    trace.write_text(MURI.replace("446", "-446"))
    result = run("convert", "muri", trace, "-o", path)
    assert result.code == 3
    assert "trace.csv: line 2, column resource_time_0: '-446': expected" in result.said
    assert result.err.count("\n") == 1
    assert not path.exists()


CHRONUS = (
    "job_id,num_gpu,submit_time,model_name,duration,expect_time_list,expect_value_list,best_effort\n"
    "1,4,10,vgg16,30,40-60,10-8,0\n0,0,5,vgg16,30,40,10,0\n2,1,12,bert,30,5,10,1\n"
)
ELASTICFLOW = (
    "job_id,submission_time,model_name,deadline,num_gpu,duration\n"
    "a,600,vgg16,2400,4,1800\nb,700,bert,2400,1,1800\n"
)
PROFILES = "model,num_gpu,iter_ms\nbert,1,100\nbert,2,110\n"


def test_a_trace_of_chronus_becomes_a_round(run, tmp_path):
    trace, speeds, path = (tmp_path / name for name in ("trace.csv", "speeds.json", "round.json"))
    trace.write_text(CHRONUS)
    speeds.write_text('{"vgg16": {"4": {"1": 1.0, "2": 0.5}}}')
    ways = ([], ["--at", "20"], ["--at", "10", "--ahead", "2", "--slack", "0.1"])
    for how in (*ways, ["--locality", speeds, "--lease", "600"], ["--jobs", "2", "--seed", "7"]):
        result = run("convert", "chronus", trace, "--gpus", "8", *how, "-o", path)
        assert result.code == 0
        assert not result.out
        assert result.err.count("\n") == 1
        assert "1 more left out, asking no GPU" in result.said
        assert len(load_round(path).jobs) == 2


def test_a_trace_of_elasticflow_becomes_a_round(run, tmp_path):
    trace, profiles, path = (tmp_path / n for n in ("trace.csv", "profiles.csv", "round.json"))
    trace.write_text(ELASTICFLOW)
    profiles.write_text(PROFILES)
    ways = {(): 1, ("--elastic", "8"): 4, ("--elastic", "8", "--profiles", profiles): 2}
    for how, options in ways.items():
        result = run("convert", "elasticflow", trace, "--gpus", "8", *how, "-o", path)
        assert result.code == 0
        assert result.err.count("\n") == 1
        assert len(load_round(path).jobs[1].options) == options


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--lease", "0"), "--lease"),
        (("--gpus", "0"), "--gpus"),
        (("--at", "999"), "--at"),
        (("--ahead", "5"), "--ahead"),
        (("--jobs", "3"), "--jobs"),
        (("--slack", "-1"), "--slack"),
    ],
)
@pytest.mark.parametrize(
    ("verb", "text"), [("chronus", CHRONUS), ("elasticflow", ELASTICFLOW)], ids=["c", "e"]
)
def test_a_wrong_argument_of_deadline_traces_is_a_usage_error(
    run, verb, text, arguments, option, tmp_path
):
    trace, path = tmp_path / "trace.csv", tmp_path / "round.json"
    trace.write_text(text)
    at = ("--at", "9999") if option == "--at" else arguments
    result = run("convert", verb, trace, "--gpus", "8", *at, "-o", path)
    assert result.code == 2
    assert f"placewright: {option}: " in result.said
    assert not path.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("40-60", "60-40"), "line 2, column expect_time_list: '60-40': expected deadlines"),
        ((",30,", ",nan,"), "line 2, column duration: 'nan': expected an integer"),
        (("best_effort", "best"), "line 1: "),
    ],
)
def test_a_bad_trace_of_chronus_exits_3_with_its_line(run, change, message, tmp_path):
    trace, path = tmp_path / "trace.csv", tmp_path / "round.json"
    trace.write_text(CHRONUS.replace(*change))
    result = run("convert", "chronus", trace, "--gpus", "8", "-o", path)
    assert result.code == 3
    assert f"trace.csv: {message}" in result.said
    assert result.err.count("\n") == 1
    assert not path.exists()


@pytest.mark.parametrize("kind", ["Round", "Plan", "Cluster"])
def test_the_schema_of_each_kind_is_json(run, kind):
    result = run("schema", kind)
    assert result.code == 0
    assert not result.err
    assert kind in json.dumps(json.loads(result.out))


def test_the_schema_is_that_of_a_round_by_default(run):
    assert run("schema").out == run("schema", "Round").out


def test_matrices_of_synergy_become_a_round(run, tmp_path):
    profiles, path = tmp_path / "profiles.json", tmp_path / "round.json"
    model = {"iter_time": 0.5, "tput": [[1, 1, 1, 1, 1]] * 9}
    profiles.write_text(json.dumps({"res18_1": model, "bert_1": model}))
    how = ("--servers", "2", "--split", "1,1,0", "--gpus", "1,2", "--seed", "3")
    result = run("convert", "synergy", profiles, *how, "-o", path)
    assert result.code == 0
    assert result.err.startswith("synergy: ")
    assert sum(job.options[0].milli_gpu for job in load_round(path).jobs) == 16_000


@pytest.mark.parametrize(
    ("option", "value"),
    [("--split", "1,2"), ("--split", "a,b,c"), ("--gpus", "1,"), ("--gpus", "9")],
)
def test_a_wrong_list_of_numbers_is_a_usage_error(run, tmp_path, option, value):
    profiles, path = tmp_path / "profiles.json", tmp_path / "round.json"
    profiles.write_text("{}")
    result = run("convert", "synergy", profiles, option, value, "-o", path)
    assert result.code == 2
    assert option in result.said
    assert not path.exists()


def test_a_wrong_matrix_exits_3_with_one_line_that_names_it(run, tmp_path):
    profiles, path = tmp_path / "profiles.json", tmp_path / "round.json"
    profiles.write_text('{"bert_1": {"iter_time": 1, "tput": [[1, 1, 1, 1, -1]]}}')
    result = run("convert", "synergy", profiles, "-o", path)
    assert result.code == 3
    assert "bert_1.tput" in result.said
    assert result.err.count("\n") == 1
