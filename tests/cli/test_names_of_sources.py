"""Jobs are found by the names that people type, and what is left out of a round says why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placewright import InvalidInputError, Round
from placewright.instances.derived.source_words import (
    check_in_round,
    jobs_called,
    left_out_called,
    whys,
)
from placewright.instances.documents.edits import Edits
from placewright.instances.edits.apply import apply_edits
from placewright.instances.io.files import write
from tests.instances.kubernetes import dumps
from tests.support import slurm_dumps
from tests.support.slurm_dumps import job, running

GPU = "nvidia.com/gpu"


def called(round_: Round, name: str) -> list[str]:
    return [job.name for job in jobs_called(round_, name)]


@pytest.fixture
def slurm(tmp_path) -> Round:
    het: dict[str, Any] = {"het_job_id": 5, "tres_per_node": "gpu:1"}
    one: dict[str, Any] = {"tres_per_node": "gpu:1"}
    jobs = [
        job(1, **one, array_job_id=1, array_task_string="2-5%3", name="sweep"),
        running(9, ("h0", 1, 0, "gpu:h100:1"), array_job_id=1, array_task_id=0, name="sweep"),
        job(5, het_job_offset=0, **het),
        job(6, het_job_offset=1, **het),
        job(7, **one, dependency="afterok:1(unfulfilled)", name="post"),
        job(8, **one, state_reason="PartitionTimeLimit"),
    ]
    return slurm_dumps.convert(tmp_path, jobs).round


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("1", ["1_2", "1_3", "9"]),
        ("sweep", ["1_2", "1_3", "9"]),
        ("1_0", ["9"]),
        ("1_3", ["1_3"]),
        ("5", ["5"]),
        ("6", ["5"]),
        ("5+1", ["5"]),
    ],
)
def test_jobs_of_slurm_have_numbers_names_tasks_and_components(slurm, name, jobs):
    assert called(slurm, name) == jobs


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("7", "waits for another job (dependency): afterok:1(unfulfilled)"),
        ("post", "waits for another job (dependency): afterok:1(unfulfilled)"),
        ("8", "not eligible (PartitionTimeLimit)"),
        ("1_4", "held by the limit of its array, %3: it starts when others of it have ended"),
    ],
)
def test_what_slurm_has_and_the_round_has_not_says_why(slurm, name, why):
    assert called(slurm, name) == []
    assert whys(left_out_called(slurm, name)) == why
    with pytest.raises(InvalidInputError, match="is not in the round") as refused:
        check_in_round(slurm, name, ("job",))
    assert "did you mean" not in str(refused.value)


def test_edits_know_the_names_of_the_source(slurm):
    edits = Edits.model_validate({"edits": [{"job": {"sweep": {"priority": 7}}}]})
    found = {job.name: job.priority for job in apply_edits(slurm, edits).jobs}
    assert found == {"1_2": 7, "1_3": 7, "9": 7, "5": 0}


def labelled(name: str, by: dict[str, str], owner: str, **more: Any) -> Any:
    owners = [{"kind": "Job", "name": owner, "uid": f"u-{owner}", "controller": False}]
    meta = {"uid": f"u-{name}", "labels": by, "ownerReferences": owners}
    return dumps.pod(name, 8, meta=meta, **more)


@pytest.fixture
def kubernetes(tmp_path) -> Round:
    group = {"leaderworkerset.sigs.k8s.io/group-key": "hash"} | {
        f"leaderworkerset.sigs.k8s.io/{key}": text
        for key, text in (("name", "lws"), ("group-index", "0"))
    }
    sets = {
        f"jobset.sigs.k8s.io/jobset-{key}": text for key, text in (("name", "js"), ("uid", "u"))
    }
    co = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "co", "namespace": "ns"},
        "spec": {"minMember": 2},
    }
    items = [
        *(dumps.node(f"n{i}") for i in range(4)),
        *(labelled(f"lws-0-{i}", group, "lws-0") for i in (1, 2)),
        *(labelled(f"js-w-{i}", sets, "js-w") for i in (0, 1)),
        co,
        labelled("co-0", {"scheduling.x-k8s.io/pod-group": "co"}, "co"),
        labelled("far", {}, "far", nodeSelector={"zone": "b"}),
    ]
    return dumps.convert(tmp_path, *items).round


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("ns/lws-0", ["ns/lws-0"]),
        ("ns/lws-0-1", ["ns/lws-0"]),
        ("lws", ["ns/lws-0"]),
        ("hash", ["ns/lws-0"]),
        ("ns/js", ["ns/js"]),
        ("js-w", ["ns/js"]),
        ("ns/js-w-1", ["ns/js"]),
        ("u-js-w-1", ["ns/js"]),
    ],
)
def test_gangs_have_the_names_of_sets_pods_and_owners(kubernetes, name, jobs):
    assert called(kubernetes, name) == jobs


@pytest.mark.parametrize("name", ["ns/co", "co-0", "u-co-0", "u-co"])
def test_a_gang_short_of_pods_says_how_many_there_are(kubernetes, name):
    assert whys(left_out_called(kubernetes, name)) == (
        "its gang has fewer pods than it needs: 1 of 2"
    )


def test_a_pod_that_may_go_to_no_node_says_what_no_node_meets(kubernetes):
    assert whys(left_out_called(kubernetes, "far")) == (
        "may go to no node of the round: label/zone=b"
    )


def test_explain_and_solve_say_why_something_is_left_out(run, tmp_path, slurm):
    file = tmp_path / "round.json"
    write(slurm, file)
    found = run("explain", file, "--job", "post")
    assert found.code == 0
    assert found.out.splitlines() == [
        "post (7) is not in the round: waits for another job (dependency): afterok:1(unfulfilled)",
        "  What helps: scontrol update jobid=7 dependency= (it then waits for no job)",
    ]
    document = json.loads(run("explain", file, "--job", "1_5", "--format", "json").out)
    assert document["verdict"] == "left_out"
    assert document["left_out"][0]["help"].startswith("scontrol update jobid=1 ")
    assert "dependency" in run("solve", file, "--job", "7").err
    assert "dependency" in run("whatif", file, "--remove", "7").err
    said = run("explain", file, "--job", "sweep").out.splitlines()
    assert said[0].startswith("sweep is 3 jobs: 1_2, 1_3 and 9; this is 1_2; not in the round")


def test_every_verb_says_what_is_not_obeyed(run, tmp_path):
    more = {"tres_per_node": "gpu:8", "contiguous": True}
    jobs = [job(1, **more), job(2, **more, node_count=9)]
    file, plan = tmp_path / "round.json", tmp_path / "plan.json"
    write(slurm_dumps.convert(tmp_path, jobs).round, file)
    told = "as far as the round knows: --contiguous is not read (contiguous): 1 and 2"
    assert told in run("solve", file, "-o", plan).out
    assert told in run("audit", file).out
    found = run("explain", file, "--all").out
    assert "as far as the round knows, could start now" in found
    assert "as far as the round knows, can never run here" in found
    assert "--contiguous is not read" in found
    document = json.loads(run("explain", file, "--job", "1", "--format", "json").out)
    assert document["doubts"] == ["--contiguous is not read"]
    refused = run("export", "slurm", file, plan)
    assert "not done: 1 job (1): --contiguous is not read; --despite contiguous" in refused.err
    assert "ReqNodeList=h0" not in refused.out
    despite = run("export", "slurm", file, plan, "--despite", "contiguous")
    assert "ReqNodeList=h0" in despite.out
    assert "no job or host has this rule" not in despite.err
    typo = run("export", "slurm", file, plan, "--despite", "contagious")
    assert "--despite contagious: no job or host has this rule" in typo.err
    page = tmp_path / "page.html"
    assert run("report", file, plan, "-o", page, "--explain", "0").code == 0
    assert "Rules that are told, and not obeyed" in page.read_text()


def test_of_a_gang_that_runs_in_part_the_pods_that_wait_are_explained(tmp_path, run):
    labels = {"labels": {"scheduling.x-k8s.io/pod-group": "co"}}
    pods = [dumps.pod("co-0", 8, host="n0", meta=labels), dumps.pod("co-1", 8, meta=labels)]
    file = tmp_path / "round.json"
    write(dumps.convert(tmp_path, dumps.node("n0"), *pods).round, file)
    assert run("explain", file, "--job", "ns/co").out.startswith("job ns/co:waiting ")
    (tmp_path / "edits.yaml").write_text("[{end: [ns/co]}]")
    assert run("whatif", file, "-e", tmp_path / "edits.yaml").code == 0


def test_of_an_array_whose_running_tasks_are_in_the_round_the_rest_is_explained(tmp_path, run):
    one: dict[str, Any] = {"tres_per_node": "gpu:1"}
    jobs = [
        job(1, **one, array_job_id=1, array_task_string="2-5%1"),
        running(9, ("h0", 1, 0, "gpu:h100:1"), array_job_id=1, array_task_id=0),
    ]
    file = tmp_path / "round.json"
    write(slurm_dumps.convert(tmp_path, jobs).round, file)
    said = run("explain", file, "--job", "1").err
    assert "1 is not in the round: held by the limit of its array" in said
    assert "'9': runs" not in said


def test_a_controller_that_is_not_read_is_known_by_its_pods(tmp_path):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns"}}
    made = dumps.convert(tmp_path, dumps.node("n0"), owner)
    assert [reason for _, reason in made.book.left_out] == [
        "Job of batch is not read; its pods and workload are, if it has any"
    ]


def test_audit_of_a_round_says_if_nothing_may_move(tmp_path, run):
    file = tmp_path / "round.json"
    write(slurm_dumps.convert(tmp_path, [running(9, ("h0", 1, 0, "gpu:h100:1"))]).round, file)
    assert "all that runs is pinned" in run("audit", file).err
